"""The input's files: found by URL or glob, with what identifies their present state."""

from __future__ import annotations

from typing import Any, BinaryIO

from microagg_core.errors import StorageError
from microagg_core.storage.objects import Store
from microagg_core.storage.remote import file_system_of
from microagg_core.storage.troubles import explaining
from microagg_core.storage.urls import basename, shown


def input_files(url: str, options: dict[str, Any]) -> list[tuple[str, str]]:
    """Every file that a URL or glob names, sorted, with a text that changes when the file does.

    Raises:
        StorageError: no such file, or the store cannot be read.
        SpecError: no file system is known for the URL.
    """
    with explaining(url, "reading"):
        fs, path = file_system_of(url, options)
        # A file may be called data[1].parquet, as browsers do.
        if any(c in path for c in "*?[") and not ("[" in path and fs.isfile(path)):
            entries = fs.glob(path, detail=True)
            # A listing tells of a link on a disk and not of the file behind it, which is what is read.
            looked = [fs.info(name) if entries[name].get("islink") else entries[name] for name in sorted(entries)]
            infos = [info for info in looked if info["type"] == "file"]
        else:
            infos = [fs.info(path)]
    if not infos:
        raise StorageError(f"{shown(url)}: no file matches; check input.url")
    if infos[0]["type"] != "file":
        raise StorageError(f"{shown(url)} is a folder; name its files, for example {shown(url).rstrip('/')}/*.parquet")
    return [(fs.unstrip_protocol(info["name"]), _state(info)) for info in infos]


def open_input(url: str, options: dict[str, Any], *, sequential: bool = False) -> BinaryIO:
    """Open one input file for reading; ``sequential`` reads ahead."""
    folder = url[: -len(basename(url))]
    return Store(folder, options, follow_links=True).open(basename(url), sequential=sequential)


def _state(info: dict[str, Any]) -> str:
    """Size and version of a file: the entity tag of an object store, the modification time of a disk."""
    version = info.get("ETag") or info.get("etag") or info.get("mtime") or info.get("LastModified")
    return f"{info.get('size')}/{version}"
