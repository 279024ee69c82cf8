"""Where compiled kernels are kept between processes, and which folders are trusted to hold them.

What lies there is loaded and run. So a folder is used only if it belongs to this user or to root and nobody else can
write to it; one that the environment names may also belong to somebody else, who keeps it for many users.

Code is read from every such folder and written to the first that can be written: the one that MICROAGG_CACHE_DIR or
NUMBA_CACHE_DIR names, the user's cache, and last a private folder among the temporary files. What a wheel
brings with it is read before all; it is as trustworthy as the package that it lies in.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from microagg_core.kernels import LASTING_TMPDIR
from microagg_core.kernels.machine_code.target import fingerprint

#: Where code lies that came with the package.
_BROUGHT = Path(__file__).parents[1] / "compiled"
#: Code is no secret, but what a user makes for himself is his alone. A named folder may be shared by many who read.
_PRIVATE, _READABLE = 0o700, 0o755


@dataclass(frozen=True)
class CodeFolders:
    """The folders for this machine code: those to read, in order, and the one to write to, if there is one.

    ``tried`` are all the places that it could have been in, for the sentence that is said where it is nowhere.
    """

    read: tuple[Path, ...]
    write: Path | None
    tried: tuple[Path, ...]


@dataclass(frozen=True)
class _Place:
    """A folder in which one for this code can be made; ``named`` by the environment, or one of the usual ones."""

    base: Path
    named: bool = False


def _places() -> Iterator[_Place]:
    """All places, the best first."""
    if named := os.environ.get("MICROAGG_CACHE_DIR") or os.environ.get("NUMBA_CACHE_DIR"):
        yield _Place(Path(named).absolute(), named=True)
    with suppress(RuntimeError):  # the user has no home folder
        usual = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
        if usual.is_absolute():
            yield _Place(usual / "microagg")
    with suppress(OSError):  # no temporary folder can be written
        yield _Place(Path(os.environ.get(LASTING_TMPDIR) or tempfile.gettempdir()) / f"microagg-{_user()}")


def _user() -> int:
    return os.getuid() if hasattr(os, "getuid") else 0


def _made(place: _Place, name: str) -> Path:
    """The folder of that name in a place, made where it is not there yet."""
    mode = _READABLE if place.named else _PRIVATE
    folder = place.base / name
    if not folder.is_dir():
        place.base.mkdir(mode=mode, parents=True, exist_ok=True)
        folder.mkdir(mode=mode, exist_ok=True)
    return folder


def _is_trusted(place: _Place, folder: Path) -> bool:
    """Whether nobody but this user, root, or the keeper of a folder that was named can have put code there."""
    if not hasattr(os, "getuid"):
        return True
    base, inner = place.base.stat() if place.named else place.base.lstat(), folder.lstat()
    if not (stat.S_ISDIR(base.st_mode) and stat.S_ISDIR(inner.st_mode)) or inner.st_mode & 0o022:
        return False
    if place.named:
        return inner.st_uid in (os.getuid(), 0) or (inner.st_uid == base.st_uid and not base.st_mode & 0o022)
    return {base.st_uid, inner.st_uid} <= {os.getuid(), 0}


@cache
def code_folders() -> CodeFolders:
    """Find the folders, and make the one to write to."""
    name = f"kernels-{fingerprint()}"
    read = [_BROUGHT / name] if (_BROUGHT / name).is_dir() else []
    tried: list[Path] = []
    for place in _places():
        tried.append(place.base)
        try:
            folder = _made(place, name)
            trusted = _is_trusted(place, folder)
        except OSError:
            continue
        if trusted:
            read.append(folder)
            if os.access(folder, os.W_OK | os.X_OK):
                return CodeFolders(tuple(read), folder, tuple(tried))
    return CodeFolders(tuple(read), None, tuple(tried))
