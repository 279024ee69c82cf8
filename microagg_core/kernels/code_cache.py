"""Where compiled kernels are kept between processes, and how many processes can share them safely.

Compiling takes seconds, so machine code is kept on disk: in the folder that ``NUMBA_CACHE_DIR`` names, else in
the user's cache folder; never in the package's own, which may be read-only or shared by unlike machines.
Where neither can be written, or a disk fills up, each process compiles for itself and nothing fails.

Numba's own cache leaves three gaps when processes share it. It does not see that a kernel has changed
when the change lies in another file that the kernel calls; here, the folder's name holds a digest of the
processor, numba, Python and all kernels. And it numbers its files in the order of arrival, so that two
processes that add different entries may take the same number, and an index may then point at the wrong machine
code; here, an entry's file is named by what the entry is for, and is whole before the index names it. Last, it
tells functions of the same name and types apart, such as the sorts that it makes of one template, by a count that
begins at 1 in every process: where code from several processes is linked, two functions may have one symbol, and
one of them is then run in place of the other. Here, the count begins elsewhere in each process.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numba
import numba.core.bytecode
import numba.core.caching
import numba.core.config

# The inner modules of numba and llvmlite carry no types.
_llvm: Any = import_module("llvmlite.binding")
_config: Any = numba.core.config
_FunctionCache: Any = numba.core.caching.FunctionCache
_IndexDataCacheFile: Any = numba.core.caching.IndexDataCacheFile

_KERNELS = Path(__file__).parent

numba.core.bytecode.FunctionIdentity._unique_ids = itertools.count(secrets.randbits(60))


def _user_cache() -> Path:
    """The folder that the user, or the system's convention, gives to compiled code."""
    if named := os.environ.get("NUMBA_CACHE_DIR"):
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()) / "microagg"


def _fingerprint() -> str:
    """Name everything that compiled code depends on: processor, numba, Python, and every kernel's source."""
    digest = hashlib.sha256()
    processor = (_llvm.get_host_cpu_name(), _llvm.get_host_cpu_features().flatten())
    for text in (*processor, numba.__version__, sys.version):
        digest.update(text.encode() + b"\0")
    for source in sorted(_KERNELS.glob("*.py")):
        digest.update(source.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


@cache
def cache_folder() -> Path | None:
    """Make and name the folder for compiled kernels; None where none can be written safely.

    The folder holds code that is loaded and run, so one that belongs to somebody else is not used.
    """
    try:
        folder = _user_cache() / f"kernels-{_fingerprint()}"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        owner = folder.stat().st_uid
    except (OSError, RuntimeError):  # RuntimeError: the user has no home folder
        return None
    is_ours = not hasattr(os, "getuid") or owner == os.getuid()
    return folder if is_ours and os.access(folder, os.W_OK | os.X_OK) else None


class _KeyedEntries(_IndexDataCacheFile):  # type: ignore[misc]
    """Numba's index and data files, with each entry's file named by its key."""

    def save(self, key: Any, data: Any) -> None:
        """Write the entry, then the index that names it."""
        number = int.from_bytes(hashlib.sha256(repr(key).encode()).digest()[:8], "big")
        name = self._data_name(number)
        self._save_data(name, data)
        self._save_index({**self._load_index(), key: name})


class _SharedCache(_FunctionCache):  # type: ignore[misc]
    """A function's cache that a full or vanished disk does not stop."""

    def __init__(self, function: Any) -> None:
        super().__init__(function)
        self._cache_file.__class__ = _KeyedEntries

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep what was compiled, if that is possible."""
        with suppress(OSError):
            super().save_overload(sig, data)


@contextmanager
def _numba_keeps_code_in(folder: Path) -> Iterator[None]:
    """Set numba's folder while a cache is made, which is when numba reads it, and only then."""
    before = _config.CACHE_DIR
    _config.CACHE_DIR = str(folder)
    try:
        yield
    finally:
        _config.CACHE_DIR = before


def keep_compiled_code(dispatcher: Any) -> None:
    """Have a compiled kernel of this package kept on disk; functions from elsewhere are left alone."""
    source = Path(dispatcher.py_func.__code__.co_filename)
    folder = cache_folder() if source.parent == _KERNELS else None
    if folder is not None:
        with _numba_keeps_code_in(folder):
            dispatcher._cache = _SharedCache(dispatcher.py_func)
