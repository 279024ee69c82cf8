"""Releases that somebody changed, with a manifest that fits: whoever forges one has right checksums too."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa

from microagg_core.release.demands import Demands
from microagg_core.release.publish import Published
from microagg_core.release.verify import VerifyReport, verify
from microagg_core.store.layout import MANIFEST
from microagg_core.store.objects import Store, canonical_json, sha256_hex
from releasing.parts import file_bytes


class Forged:
    """A published revision in the hands of a forger."""

    def __init__(self, output: Store, published: Published) -> None:
        self.folder = Store(output.url_of(published.manifest.layout.folder), dict(output.storage_options))
        self.said: dict[str, Any] = json.loads(self.folder.read(MANIFEST))

    @property
    def path(self) -> Path:
        return Path(self.folder.url)

    @property
    def form(self) -> str:
        return str(self.said["format"])

    def part(self, number: int) -> Path:
        return self.path / str(self.said["parts"][number]["name"])

    def say(self, **fields: Any) -> None:
        """Have the manifest say something else."""
        self.said |= fields
        self.folder.put(MANIFEST, canonical_json(self.said))

    def add(self, data: bytes, rows: int, number: int | None = None) -> None:
        """Another part; or one in the place of an old one."""
        parts = self.said["parts"]
        place = len(parts) if number is None else number
        sha256 = sha256_hex(data)
        name = f"data/part-{place:05d}-{sha256[:16]}-0123456789ab.{self.form}"
        if number is not None:
            self.folder.delete(parts.pop(number)["name"])
        parts.insert(place, {"name": name, "rows": rows, "bytes": len(data), "sha256": sha256})
        self.folder.put(name, data)
        self.say(rows=sum(part["rows"] for part in parts))

    def add_table(self, table: pa.Table, number: int | None = None) -> None:
        self.add(file_bytes(table, self.form), table.num_rows, number)

    def repeat(self, number: int) -> None:
        """The content of a part once more, under a name of its own."""
        part = self.said["parts"][number]
        self.add(self.folder.read(part["name"]), part["rows"])


def look(release: Forged, demands: Demands | None = None) -> VerifyReport:
    return verify(release.folder.url, release.folder.storage_options, demands)


def failed(report: VerifyReport) -> dict[str, str]:
    return {check.name: check.detail for check in report.checks if not check.passed}
