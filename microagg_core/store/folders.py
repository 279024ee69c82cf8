"""Folders below a root, opened one after the other, so that no link leads out of it.

The root itself may be a link, which is its owner's affair. Below it every step is taken from the folder that is open
already and refuses links; what is done in the last folder is done through its handle, so that nobody who swaps a
folder for a link meanwhile can lead a write or a removal astray.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from microagg_core.errors import StorageError
from microagg_core.store.layout import AUDIT, PROBES, RUNS, SERIES

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_PRIVATE_FOLDER = 0o700
_OTHERS = 0o077


@dataclass(frozen=True)
class Folders:
    """How folders below a root are entered.

    Args:
        root: where they begin; made if it has to be.
        private: they are for this user alone, whatever the umask; wider rights are taken back.
        follow_links: links are as good as what they point at: for reading what others keep.
    """

    root: Path
    private: bool = False
    follow_links: bool = False

    @contextmanager
    def opened(self, name: str, make: bool = False) -> Iterator[int]:
        """The handle of a folder below the root; ``make`` makes what is missing on the way.

        Raises:
            StorageError: a link is on the way, or a private folder stays open to others.
            OSError: what the operating system says.
        """
        handle = self._opened_root(make)
        try:
            names = [step for step in name.split("/") if step]
            for i, step in enumerate(names):
                below = self._entered(handle, step, "/".join(names[: i + 1]), make)
                os.close(handle)
                handle = below
            yield handle
        finally:
            os.close(handle)

    def _opened_root(self, make: bool) -> int:
        try:
            handle = os.open(self.root, _FOLDER)
        except FileNotFoundError:
            if not make:
                raise
            self._make_above()
            with contextlib.suppress(FileExistsError):
                self.root.mkdir()
                if self.private:
                    self.root.chmod(_PRIVATE_FOLDER)
            handle = os.open(self.root, _FOLDER)
        if self.private:
            _tighten_root(handle)
        return handle

    def _make_above(self) -> None:
        """Make what is missing on the way to the root: of a private root, for this user alone too."""
        if not self.private:
            self.root.parent.mkdir(parents=True, exist_ok=True)
            return
        for folder in reversed(self.root.parents):
            if not folder.is_dir():
                with contextlib.suppress(FileExistsError):
                    folder.mkdir()
                    folder.chmod(_PRIVATE_FOLDER)

    def _entered(self, above: int, step: str, name: str, make: bool) -> int:
        if make:
            self._make(above, step)
        try:
            handle = os.open(step, _FOLDER | self.no_follow, dir_fd=above)
        except OSError:
            self.refuse_link(above, step, name)
            raise
        if self.private:
            try:
                _tighten(handle, f"{self.root}/{name}")
            except BaseException:
                os.close(handle)
                raise
        return handle

    def _make(self, above: int, step: str) -> None:
        with contextlib.suppress(FileExistsError):
            os.mkdir(step, dir_fd=above)
            if self.private:
                os.chmod(step, _PRIVATE_FOLDER, dir_fd=above)

    @property
    def no_follow(self) -> int:
        """The flag that keeps the operating system from following a link in the last place."""
        return 0 if self.follow_links else os.O_NOFOLLOW

    def refuse_link(self, folder: int, last: str, name: str) -> None:
        """Stop where something in an open folder is a link, unless links are followed; what is missing is none.

        Raises:
            StorageError: it is one.
        """
        if not self.follow_links and _is_link(folder, last):
            raise link_refused(f"{self.root}/{name} is a link")

    def refuse_links_below(self, folder: int, name: str) -> None:
        """Stop where anything below an open folder is a link. Whose name it is is not known, so it is not repeated.

        Raises:
            StorageError: there is one.
        """
        for _, folders, files, here in os.fwalk(".", dir_fd=folder, onerror=raise_unless_missing):
            if any(_is_link(here, entry) for entry in (*folders, *files)):
                raise link_refused(f"below {self.root}/{name} there is a link")


def link_refused(what: str) -> StorageError:
    """The error for a link where none may be."""
    return StorageError(
        f"{what}, and none is followed inside an output or a work area; remove the link (not what it points at), "
        "then run again"
    )


def raise_unless_missing(error: OSError) -> None:
    """For walks: what disappears under them is fine, all else is not."""
    if not isinstance(error, (FileNotFoundError, NotADirectoryError)):
        raise error


def _is_link(folder: int, last: str) -> bool:
    try:
        return stat.S_ISLNK(os.stat(last, dir_fd=folder, follow_symlinks=False).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False


def _tighten(handle: int, path: str) -> None:
    """Take back rights that others have to a folder of ours."""
    mode = stat.S_IMODE(os.fstat(handle).st_mode)
    if not mode & _OTHERS:
        return
    with contextlib.suppress(PermissionError):
        os.fchmod(handle, mode & ~_OTHERS)
    if os.fstat(handle).st_mode & _OTHERS:
        raise StorageError(
            f"{path} holds private rows but is open to others, and this user may not change that; give the work area "
            "a folder of this user's own, on a disk that keeps rights"
        )


def _tighten_root(handle: int) -> None:
    """The same for the root, where nothing lies in it but ours; else it is somebody's folder, and stays as it is."""
    if os.fstat(handle).st_mode & _OTHERS and set(os.listdir(handle)) <= {RUNS, AUDIT, PROBES, SERIES}:
        with contextlib.suppress(PermissionError):  # what lies in it is closed to others all the same
            os.fchmod(handle, stat.S_IMODE(os.fstat(handle).st_mode) & ~_OTHERS)
