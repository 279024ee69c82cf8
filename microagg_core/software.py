"""The software that makes a release: this package's sources, and the libraries that decide bytes with them.

A version number stands still while code changes, so it alone says nothing about what a run computes. What is named
here goes into a run's key (work done by other code is not taken up), into the digests by which a finished release is
recognised, and into the manifest, where a reader finds what to install to make the same bytes again.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TypeVar

from microagg_core.errors import ClusterError
from microagg_core.registry import plug_in_versions

Item = TypeVar("Item")
Result = TypeVar("Result")

PACKAGES = ("microagg_core", "microagg_flows")
LIBRARIES = ("networkx", "numba", "numpy", "pandas", "pyarrow", "scipy")
#: How many digits of the sources' digest are shown.
_DIGITS = 16


def software() -> dict[str, str]:
    """List name and version of everything that decides a release's bytes; equal wherever the same is installed.

    >>> sorted(software())
    ['microagg', 'networkx', 'numba', 'numpy', 'pandas', 'pyarrow', 'python', 'scipy', 'sources']
    """
    return dict(_software())


def version_differences(there: Mapping[str, str], wanted: Mapping[str, str]) -> list[str]:
    """Say in words how software differs from other software.

    >>> version_differences({"numpy": "2.1", "python": "3.11"}, {"numpy": "2.2", "python": "3.11"})
    ['numpy 2.1 instead of 2.2']
    """
    return [
        f"{name} {there.get(name)} instead of {value}" for name, value in wanted.items() if there.get(name) != value
    ]


def done_alike(function: Callable[[Item], Result], item: Item, wanted: Mapping[str, str]) -> Result:
    """Apply a function to an item, unless the software is not what is wanted: a worker may join while tasks are out.

    Work of other software would be kept and taken for that of the rest.

    >>> done_alike(abs, -1, software())
    1
    >>> done_alike(abs, -1, {**software(), "numpy": "1.0"})  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    microagg_core.errors.ClusterError: a worker has numpy ... instead of 1.0, and would make another release; install...
    """
    if differing := version_differences(software(), wanted):
        raise ClusterError(
            f"a worker has {', '.join(differing)}, and would make another release; install the same versions everywhere"
        )
    return function(item)


@cache
def _software() -> tuple[tuple[str, str], ...]:
    """Look once a process: what a process has loaded is what it runs, whatever is installed meanwhile."""
    named = {**plug_in_versions(), **{name: version(name) for name in ("microagg", *LIBRARIES)}}
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    return tuple(sorted({**named, "python": python, "sources": digest_of(_installed())[:_DIGITS]}.items()))


def _installed() -> Iterator[Path]:
    """Find the folders of the packages, found without importing them; the core may be installed alone."""
    for name in PACKAGES:
        package = find_spec(name)
        for folder in (package.submodule_search_locations or ()) if package else ():
            yield Path(folder)


def digest_of(folders: Iterable[Path]) -> str:
    """Compute a SHA-256 over the Python sources in folders: their names below each folder's own, and their content.

    Where a folder lies is not in it, nor is anything that installing or running leaves there.
    """
    digest = hashlib.sha256()
    for folder in folders:
        for name, path in sorted((path.relative_to(folder.parent).as_posix(), path) for path in folder.rglob("*.py")):
            content = hashlib.sha256(path.read_bytes()).hexdigest()
            digest.update(f"{name}\0{content}\n".encode())
    return digest.hexdigest()
