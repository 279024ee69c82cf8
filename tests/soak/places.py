"""The output and the work area as an outsider sees them, on a disk or in a bucket: names, versions, bytes."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Folder:
    root: Path

    def versions(self) -> dict[str, str]:
        """Map files to inode, size and time: something that changes when they are written again."""
        found = {}
        for folder, _, names in os.walk(self.root):
            for path in (Path(folder) / name for name in names):
                with contextlib.suppress(OSError):
                    facts = path.stat()
                    version = f"{facts.st_ino}-{facts.st_size}-{facts.st_mtime_ns}"
                    found[path.relative_to(self.root).as_posix()] = version
        return found

    def read(self, name: str) -> bytes | None:
        try:
            return (self.root / name).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None

    def write(self, name: str, data: bytes) -> None:
        """Write in place, as a bad disk does: not renamed into place."""
        (self.root / name).write_bytes(data)

    def remove(self, name: str) -> None:
        (self.root / name).unlink(missing_ok=True)


@dataclass(frozen=True)
class Bucket:
    """What lies below a prefix of a bucket, asked of the server itself and not through any proxy."""

    client: Any
    bucket: str
    prefix: str

    def _key(self, name: str) -> dict[str, str]:
        return {"Bucket": self.bucket, "Key": f"{self.prefix}/{name}"}

    def versions(self) -> dict[str, str]:
        """Map objects to their tag and time."""
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=f"{self.prefix}/")
        items = [item for page in pages for item in page.get("Contents", ()) if not item["Key"].endswith("/")]
        return {item["Key"].removeprefix(f"{self.prefix}/"): f"{item['ETag']}-{item['LastModified']}" for item in items}

    def read(self, name: str) -> bytes | None:
        try:
            return bytes(self.client.get_object(**self._key(name))["Body"].read())
        except self.client.exceptions.NoSuchKey:
            return None

    def write(self, name: str, data: bytes) -> None:
        self.client.put_object(**self._key(name), Body=data)

    def remove(self, name: str) -> None:
        self.client.delete_object(**self._key(name))


Place = Folder | Bucket
