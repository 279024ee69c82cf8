"""Packages that only some releases need: where they are missing, one sentence says which command brings them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from microagg_core.errors import SpecError

_DASK = ("cloudpickle", "cryptography", "dask", "distributed")
#: What each extra of the distribution brings, by the names under which it is imported.
_PACKAGES = {
    "buckets": ("obstore",),
    "cluster": _DASK,
    "kubernetes": (*_DASK, "dask_kubernetes", "httpx", "kr8s"),
    "prefect": ("fastapi", "httpx", "prefect", "sqlalchemy"),
    "s3": ("botocore", "obstore", "s3fs"),
    "sign": ("cryptography",),
    "sklearn": ("sklearn",),
    "slurm": (*_DASK, "dask_jobqueue"),
    "ssh": (*_DASK, "asyncssh"),
}


@contextmanager
def needing(extra: str, what: str) -> Iterator[None]:
    """Name the extra that brings packages, where an import in this block fails.

    >>> with needing("sign", "a signature"):
    ...     raise ModuleNotFoundError(name="cryptography.hazmat")
    Traceback (most recent call last):
    microagg_core.errors.SpecError: a signature needs packages that are not installed; run: pip install 'microagg[sign]'
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _PACKAGES.get(extra, ()):
            raise
        raise SpecError(f"{what} needs packages that are not installed; {how_to_install(extra)}") from None


def how_to_install(extra: str) -> str:
    return f"run: pip install 'microagg[{extra}]'"
