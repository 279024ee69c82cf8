"""What stands in an object's place on a disk: a file of its own, or something that may be another one tomorrow."""

from __future__ import annotations

import os
import stat
from enum import Enum
from pathlib import Path

from microagg_core.store.objects import Store
from microagg_core.store.urls import is_local, local_path


class Standing(Enum):
    """What was found in the place of a file. Of a bucket's objects all are files, or missing."""

    MISSING = "missing"
    FILE = "a file"
    #: A file that has another name as well, by which it may be changed.
    SHARED = "a hard link"
    LINK = "a link"
    #: A folder, a pipe, a device.
    SPECIAL = "no file"


def standing_of(store: Store, name: str) -> Standing:
    """What stands in the place of an object; no link below the store's root is followed, and nothing is opened.

    >>> standing_of(Store("memory://standing"), "manifest.json")
    <Standing.MISSING: 'missing'>
    """
    if not is_local(store.url) or "::" in store.url:
        return Standing.MISSING if store.size(name) is None else Standing.FILE
    path = Path(local_path(store.url))
    for step in name.split("/"):
        path /= step
        try:
            state = os.lstat(path)
        except (FileNotFoundError, NotADirectoryError):
            return Standing.MISSING
        if stat.S_ISLNK(state.st_mode):
            return Standing.LINK
    if not stat.S_ISREG(state.st_mode):
        return Standing.SPECIAL
    return Standing.SHARED if state.st_nlink > 1 else Standing.FILE


def linked_folders(store: Store) -> int:
    """How many links to folders lie below a store's root on a disk; a listing, which follows none, shows none."""
    if not is_local(store.url) or "::" in store.url:
        return 0
    walk = os.walk(local_path(store.url))
    return sum(os.path.islink(os.path.join(above, name)) for above, names, _ in walk for name in names)  # noqa: PTH114, PTH118
