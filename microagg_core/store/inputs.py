"""The input's files: found by URL or glob, with what identifies their present state."""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from typing import Any, BinaryIO

from microagg_core.errors import InputMissingError, StorageError
from microagg_core.store.failures import ask, explaining, service_code
from microagg_core.store.objects import Store
from microagg_core.store.remote import file_system_of
from microagg_core.store.urls import basename, shown


@dataclass(frozen=True)
class InputFile:
    url: str
    #: Bytes; none where the file system does not tell.
    size: int | None
    #: A text that changes when the file does.
    state: str


def input_files(url: str, options: dict[str, Any]) -> list[InputFile]:
    """List every file that a URL or glob names, sorted.

    Raises:
        InputMissingError: no such file.
    """
    with explaining(url, "reading"):
        fs, path = file_system_of(url, options)
        infos = ask(lambda: _infos(fs, path), url)
    if not infos:
        raise InputMissingError(f"{shown(url)}: no file matches; check input.url, or run again when the file is there")
    if infos[0]["type"] != "file":
        raise StorageError(f"{shown(url)} is a folder; name its files, for example {shown(url).rstrip('/')}/*.parquet")
    return [_file(fs.unstrip_protocol(info["name"]), info) for info in infos]


def input_file(url: str, options: dict[str, Any]) -> InputFile:
    """Look at one input file again, always by the same request, as a store's listing may answer otherwise."""
    with explaining(url, "reading"):
        fs, path = file_system_of(url, options)
        fs.invalidate_cache(path)
        return _file(url, ask(lambda: fs.info(path), url))


def _infos(fs: Any, path: str) -> list[dict[str, Any]]:
    """Ask for a file or a glob's files; none where nothing is there, while a missing bucket is an error."""
    try:
        # A file may be called data[1].parquet, as browsers do.
        if not any(c in path for c in "*?[") or ("[" in path and fs.isfile(path)):
            return [fs.info(path)]
        entries = fs.glob(path, detail=True)
        if not entries:  # a glob passes over a folder that may not be listed and a bucket that is not there
            fs.ls(re.split(r"[*?[]", path)[0].rpartition("/")[0])
    except FileNotFoundError as error:
        if service_code(error) == "NoSuchBucket":
            raise
        return []
    # A listing tells of a link on a disk and not of the file behind it, which is what is read.
    infos = [fs.info(name) if entries[name].get("islink") else entries[name] for name in sorted(entries)]
    return [info for info in infos if info["type"] == "file"]


def open_input(url: str, options: dict[str, Any], *, sequential: bool = False, at_once: bool = False) -> BinaryIO:
    """Open an input file to be read ``sequential``ly, from many places, or ``at_once``, as a small one."""
    name = basename(url)
    store = Store(url[: -len(name)], options, follow_links=True)
    return io.BytesIO(store.read(name)) if at_once else store.open(name, sequential=sequential)


def _file(url: str, info: dict[str, Any]) -> InputFile:
    """Take size and version: the entity tag of an object store, the modification time of a disk."""
    size = info.get("size")
    version = info.get("ETag") or info.get("etag") or info.get("mtime") or info.get("LastModified")
    return InputFile(url, None if size is None else int(size), f"{size}/{version}")
