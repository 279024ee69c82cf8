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
import pickle
import secrets
from importlib import import_module
from pathlib import Path
from typing import Any

import numba.core.bytecode
import numba.core.caching

from microagg_core.kernels.machine_code.code_folders import code_folders
from microagg_core.kernels.machine_code.target import kernel_sources, pin_target

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
    """What numba asks for compiled code of one function, and gives what it has compiled."""

    def __init__(self, function: Any) -> None:
        self._name = repr(function)
        self._py_func = function
        self._stem = f"{function.__module__}.{function.__qualname__}".removeprefix("microagg_core.")
        self.enable()

    @property
    def cache_path(self) -> str:
        """Where new entries go."""
        return str(code_folders().write)

    def flush(self) -> None:
        """Forget nothing: entries of other sources are in other folders."""

    def _key(self, sig: Any, codegen: Any) -> str:
        """What an entry is for: types, target, and the bytecode."""
        pin_target()
        return repr(self._index_key(sig, codegen))

    def _file_name(self, key: str) -> str:
        return f"{self._stem}-{hashlib.sha256(key.encode()).hexdigest()[:20]}.code"

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The code for these types from the first folder that has it; None where none does."""
        target_context.refresh()
        key = self._key(sig, target_context.codegen())
        for folder in code_folders().read:
            if (reduced := _read(folder / self._file_name(key), key)) is not None:
                return _CompileResult._rebuild(target_context, *reduced)
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep what was compiled, if that is possible."""
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
    """What an entry holds; None where there is none, or none that is whole and for this key."""
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
    """Put an entry under its name once it is whole."""
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
