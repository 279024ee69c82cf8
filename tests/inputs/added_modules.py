"""Add one file to a folder that is a registry, as who contributes a kind or a format does."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from textwrap import dedent

import pytest

from microagg_core import registry

#: Package, name of the module, its text.
AddModule = Callable[[str, str, str], None]


@pytest.fixture
def add_module(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AddModule]:
    """Write modules into a folder that belongs to their package while the test runs."""
    folder: Path = tmp_path_factory.mktemp("added")
    packages, names = [], []

    def add(package: str, name: str, text: str) -> None:
        (folder / f"{name}.py").write_text(dedent(text))
        packages.append(import_module(package))
        packages[-1].__path__.append(str(folder))
        names.append(f"{package}.{name}")
        registry.forget()

    yield add
    for package in packages:
        package.__path__.remove(str(folder))
    for name in names:
        sys.modules.pop(name, None)
    registry.forget()
