"""Compiled kernels, kept on disk and shared by many processes at once, and never a reason to fail.

Numba's own cache is tied to the path and the date of a source, so that another checkout, environment or user compiles
again; it does not see that a kernel has changed when the change lies in another file; and processes that write to
it at the same time lose each other's entries. Here the folder's name says all that the code depends on (see
:mod:`microagg_core.kernels.machine_code.target`), an entry is one file that is named by what it is for, and it is
whole, with a checksum, before it has that name. An entry that cannot be read, or is damaged, is one that is not there.

And numba tells functions of the same name and types apart, such as the sorts that it makes of one template, by a
count that begins at 1 in every process: where code from several processes is linked, two functions may have one
symbol, and one of them is then run in place of the other. Here, the count begins elsewhere in each process.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import pickle
import secrets
import stat
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numba.core.bytecode
import numba.core.caching

from microagg_core.kernels import LASTING_TMPDIR
from microagg_core.kernels.machine_code.target import fingerprint, kernel_sources, pin_target

#: Where code lies that came with the package.
_BROUGHT = Path(__file__).parents[1] / "compiled"
#: Code is no secret, but what a user makes for himself is his alone. A named folder may be shared by many who read.
_PRIVATE, _READABLE = 0o700, 0o755


@dataclass(frozen=True)
class CodeFolders:
    """Folders for this machine code: those to read, in order, and the one to write to, if there is one.

    ``tried`` are all the places that it could have been in, for the sentence that is said where it is nowhere.
    """

    read: tuple[Path, ...]
    write: Path | None
    tried: tuple[Path, ...]


def _places() -> Iterator[tuple[Path, bool]]:
    """List folders in which one for this code can be made, and whether the environment names them."""
    if named := os.environ.get("MICROAGG_CACHE_DIR") or os.environ.get("NUMBA_CACHE_DIR"):
        yield Path(named).absolute(), True
    with suppress(RuntimeError):  # the user has no home folder
        usual = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
        if usual.is_absolute():
            yield usual / "microagg", False
    with suppress(OSError):  # no temporary folder can be written
        user = os.getuid() if hasattr(os, "getuid") else 0
        yield Path(os.environ.get(LASTING_TMPDIR) or tempfile.gettempdir()) / f"microagg-{user}", False


def _made(base: Path, named: bool, name: str) -> Path:
    mode = _READABLE if named else _PRIVATE
    folder = base / name
    if not folder.is_dir():
        base.mkdir(mode=mode, parents=True, exist_ok=True)
        folder.mkdir(mode=mode, exist_ok=True)
    return folder


def _is_trusted(base: Path, named: bool, folder: Path) -> bool:
    """Say whether nobody but this user, root, or the keeper of a named folder can have put code there."""
    if not hasattr(os, "getuid"):
        return True
    outer, inner = base.stat() if named else base.lstat(), folder.lstat()
    if not (stat.S_ISDIR(outer.st_mode) and stat.S_ISDIR(inner.st_mode)) or inner.st_mode & 0o022:
        return False
    if named:
        return inner.st_uid in (os.getuid(), 0) or (inner.st_uid == outer.st_uid and not outer.st_mode & 0o022)
    return {outer.st_uid, inner.st_uid} <= {os.getuid(), 0}


@cache
def code_folders() -> CodeFolders:
    """Find the folders, and make the one to write to.

    What lies there is loaded and run. So a folder is used only if it belongs to this user or to root and nobody else
    can write to it; one that the environment names may also belong to somebody else, who keeps it for many users.

    Code is read from every such folder and written to the first that can be written: the one that MICROAGG_CACHE_DIR or
    NUMBA_CACHE_DIR names, the user's cache, and last a private folder among the temporary files. What a wheel
    brings with it is read before all; it is as trustworthy as the package that it lies in.
    """
    name = f"kernels-{fingerprint()}"
    read = [_BROUGHT / name] if (_BROUGHT / name).is_dir() else []
    tried: list[Path] = []
    for base, named in _places():
        tried.append(base)
        try:
            folder = _made(base, named, name)
            trusted = _is_trusted(base, named, folder)
        except OSError:
            continue
        if trusted:
            read.append(folder)
            if os.access(folder, os.W_OK | os.X_OK):
                return CodeFolders(tuple(read), folder, tuple(tried))
    return CodeFolders(tuple(read), None, tuple(tried))


# The inner modules of numba carry no types.
_FunctionCache: Any = numba.core.caching.FunctionCache
_CompileResult: Any = import_module("numba.core.compiler").CompileResult
_dumps: Any = import_module("numba.core.serialize").dumps

_DIGEST_BYTES = 32

numba.core.bytecode.FunctionIdentity._unique_ids = itertools.count(secrets.randbits(60))
pin_target()
#: Kernels whose code this process compiled and could not keep.
not_kept: set[str] = set()
_SOURCES = frozenset(str(path) for path in kernel_sources())


class _KernelCache(_FunctionCache):  # type: ignore[misc]
    """Numba's cache of compiled code, for one function."""

    def __init__(self, function: Any) -> None:
        self._name = repr(function)
        self._py_func = function
        self._stem = f"{function.__module__}.{function.__qualname__}".removeprefix("microagg_core.")
        self.enable()

    @property
    def cache_path(self) -> str:
        return str(code_folders().write)

    def flush(self) -> None:
        """Forget nothing: entries of other sources are in other folders."""

    def _key(self, sig: Any, codegen: Any) -> str:
        """Describe an entry: types, target, and the bytecode."""
        pin_target()
        return repr(self._index_key(sig, codegen))

    def _file_name(self, key: str) -> str:
        return f"{self._stem}-{hashlib.sha256(key.encode()).hexdigest()[:20]}.code"

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Load the code for these types from the first folder that has it; None where none does."""
        target_context.refresh()
        key = self._key(sig, target_context.codegen())
        for folder in code_folders().read:
            if (reduced := _read(folder / self._file_name(key), key)) is not None:
                return _CompileResult._rebuild(target_context, *reduced)
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        folder = code_folders().write
        if folder is None:
            not_kept.add(self._stem)
            return
        key = self._key(sig, data.codegen)
        # The annotated source is long, holds paths, and nobody reads it.
        reduced = data._replace(type_annotation="")._reduce()
        try:
            _write(folder / self._file_name(key), _dumps((key, reduced)))
        except OSError:
            not_kept.add(self._stem)


def _read(path: Path, key: str) -> Any:
    """Read an entry; None where there is none, or none that is whole and for this key."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    body = content[_DIGEST_BYTES:]
    if hashlib.sha256(body).digest() != content[:_DIGEST_BYTES]:
        return None
    found, reduced = pickle.loads(body)
    return reduced if found == key else None


def _write(path: Path, body: bytes) -> None:
    unfinished = path.with_name(f"{path.name}.{secrets.token_hex(8)}.unfinished")
    try:
        unfinished.write_bytes(hashlib.sha256(body).digest() + body)
        unfinished.replace(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


def keep_compiled_code(dispatcher: Any) -> None:
    """Have a compiled kernel of this package kept on disk; functions from elsewhere are left alone."""
    if dispatcher.py_func.__code__.co_filename in _SOURCES:
        dispatcher._cache = _KernelCache(dispatcher.py_func)
