"""The output and the work area as an outsider sees them, on a disk or in a bucket: names, versions, bytes."""

from __future__ import annotations

import contextlib
import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol


class Place(Protocol):
    """Objects below one root."""

    def versions(self) -> dict[str, str]:
        """Every object's name with something that changes when it is written again."""

    def read(self, name: str) -> bytes | None:
        """An object, or None where it is not there."""

    def write(self, name: str, data: bytes) -> None:
        """Write an object from outside, as an accident would."""

    def remove(self, name: str) -> None:
        """Take an object away."""


@dataclass(frozen=True)
class Folder:
    """A folder on a disk."""

    root: Path

    def versions(self) -> dict[str, str]:
        """Files with their inode, size and time."""
        found = {}
        for folder, _, names in os.walk(self.root):
            for name in names:
                path = Path(folder) / name
                with contextlib.suppress(OSError):
                    facts = path.stat()
                    found[path.relative_to(self.root).as_posix()] = (
                        f"{facts.st_ino}-{facts.st_size}-{facts.st_mtime_ns}"
                    )
        return found

    def read(self, name: str) -> bytes | None:
        """A file's bytes."""
        try:
            return (self.root / name).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None

    def write(self, name: str, data: bytes) -> None:
        """In place, as a bad disk does: not renamed into place."""
        (self.root / name).write_bytes(data)

    def remove(self, name: str) -> None:
        """Unlink."""
        (self.root / name).unlink(missing_ok=True)


@dataclass(frozen=True)
class Bucket:
    """What lies below a prefix of a bucket, asked of the server itself and not through any proxy."""

    client: Any
    bucket: str
    prefix: str

    def versions(self) -> dict[str, str]:
        """Objects with their tag and time."""
        found = {}
        for page in self.client.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=f"{self.prefix}/"):
            for item in page.get("Contents", ()):
                if not item["Key"].endswith("/"):  # some servers show folders as objects
                    found[item["Key"].removeprefix(f"{self.prefix}/")] = f"{item['ETag']}-{item['LastModified']}"
        return found

    def read(self, name: str) -> bytes | None:
        """An object's bytes."""
        try:
            data: bytes = self.client.get_object(Bucket=self.bucket, Key=f"{self.prefix}/{name}")["Body"].read()
        except self.client.exceptions.NoSuchKey:
            return None
        return data

    def write(self, name: str, data: bytes) -> None:
        """Put."""
        self.client.put_object(Bucket=self.bucket, Key=f"{self.prefix}/{name}", Body=data)

    def remove(self, name: str) -> None:
        """Delete."""
        self.client.delete_object(Bucket=self.bucket, Key=f"{self.prefix}/{name}")


def sha256(data: bytes) -> str:
    """The checksum that manifests carry."""
    return hashlib.sha256(data).hexdigest()
