"""Find everything that can be read at an output, by walking it, whether a manifest names it or not.

Nothing here is imported from the product: a stranger has pyarrow, and so have we.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.csv
import pyarrow.ipc
import pyarrow.parquet as pq

#: A released combination of blocking values and quasi-identifiers, to the byte.
Class = tuple[bytes, ...]
#: Confidential values as text.
Row = tuple[str, ...]
#: Names at an output that readers know without a manifest.
_KNOWN = ("manifest.json", "manifest.json.minisig", "withdrawn.json")


class Objects(Protocol):
    """Objects below one root, on a disk or in a bucket: see soak/places.py."""

    def versions(self) -> dict[str, str]:
        """Name every object, with something that changes when it is written again."""

    def read(self, name: str) -> bytes | None:
        """Read an object; None where it is not there."""


@dataclass(frozen=True)
class Columns:
    """Name the released columns; ``tag`` is a confidential whole number that names the person."""

    keys: tuple[str, ...]
    confidential: tuple[str, ...]
    tag: str


@dataclass(frozen=True)
class Publication:
    """Rows that belong together: those of a manifest, or of one attempt that no manifest names."""

    name: str
    manifest: Mapping[str, Any] | None
    classes: Mapping[int, Class]
    rows: Mapping[int, Row]
    n_rows: int
    #: Digests of its files.
    content: frozenset[str]


@dataclass
class Output:
    """An output before the eyes of somebody who opens every file."""

    place: Objects
    columns: Columns
    _tables: dict[tuple[str, str], tuple[str, pa.Table | None]] = field(default_factory=dict)

    def names(self) -> dict[str, str]:
        """Every object, those that are hidden or unfinished among them."""
        return self.place.versions()

    def manifests(self) -> dict[str, dict[str, Any]]:
        """Read every manifest, by the folder of its revision."""
        found = sorted(name for name in self.names() if name.endswith("/manifest.json"))
        return {name.removesuffix("/manifest.json"): json.loads(self.place.read(name) or b"{}") for name in found}

    def newest(self) -> tuple[dict[str, Any], set[int]]:
        """Read the manifest of the newest night, and who stands in its files."""
        folder, manifest = max(self.manifests().items(), key=lambda item: _order(item[0], item[1]))
        found = [publication for publication in self.publications() if publication.name == folder]
        return manifest, set(found[0].classes) if found else set()

    def unnamed(self) -> list[str]:
        """Name the objects that no manifest names; of a release that was taken back, its data files too."""
        names = set(self.names())
        return sorted(name for name in names - self._named(names) if name != "latest.json")

    def _named(self, names: Collection[str]) -> set[str]:
        named = {name for name in names if name.endswith("/withdrawn.json")}  # also of a night that was never published
        for folder, manifest in self.manifests().items():
            named |= {f"{folder}/{name}" for name in _KNOWN}
            pages = manifest.get("pages", [])
            named |= {f"{folder}/{page['name']}" for page in pages}
            if f"{folder}/withdrawn.json" not in names:
                named |= {f"{folder}/{entry}" for entry in [p["name"] for p in manifest["parts"]]}
                named |= {f"{folder}/{page['written']}" for page in pages}
        return named

    def publications(self) -> list[Publication]:
        """Read all that holds a row, in the order of the nights; what no manifest names comes last."""
        tables = self._read_all()
        made, left = [], set(tables)
        for folder, manifest in self.manifests().items():
            files = [f"{folder}/{part['name']}" for part in manifest["parts"]]
            if found := [file for file in files if file in tables]:
                made.append(self._publication(folder, manifest, [tables[file] for file in found]))
            left -= set(files)
        attempts = defaultdict(list)
        for name in sorted(left):
            folder, _, last = name.rpartition("/")
            attempts[folder, last.split(".")[0].rpartition("-")[2]].append(tables[name])
        strays = [self._publication("/".join(of), None, found) for of, found in attempts.items()]
        return sorted(made, key=lambda publication: _order(publication.name, publication.manifest or {})) + strays

    def readable_tags(self) -> set[int]:
        """Name everybody who stands in any readable file."""
        return {tag for publication in self.publications() for tag in publication.classes}

    def _read_all(self) -> dict[str, tuple[str, pa.Table]]:
        for name, version in self.names().items():
            if (name, version) not in self._tables and (data := self.place.read(name)) is not None:
                self._tables[name, version] = (hashlib.sha256(data).hexdigest(), table_of(name, data))
        now = {(name, version) for name, version in self.names().items()}
        self._tables = {key: read for key, read in self._tables.items() if key in now}
        return {
            name: (digest, table)
            for (name, _), (digest, table) in self._tables.items()
            if table is not None and self.columns.tag in table.column_names
        }

    def _publication(
        self, name: str, manifest: Mapping[str, Any] | None, tables: list[tuple[str, pa.Table]]
    ) -> Publication:
        classes: dict[int, Class] = {}
        rows: dict[int, Row] = {}
        for _, table in tables:
            columns = self.columns
            tags = [int(tag) for tag in table[columns.tag].to_pylist()]
            keys = zip(*(_exact(table[key].to_pylist()) for key in columns.keys), strict=True)
            texts = zip(*(map(str, table[column].to_pylist()) for column in columns.confidential), strict=True)
            classes.update(zip(tags, keys, strict=True))
            rows.update(zip(tags, texts, strict=True))
        n_rows = sum(table.num_rows for _, table in tables)
        return Publication(name, manifest, classes, rows, n_rows, frozenset(digest for digest, _ in tables))


def _order(folder: str, manifest: Mapping[str, Any]) -> tuple[int, str, str]:
    return ((manifest.get("series") or {}).get("night") or 0, manifest.get("created", ""), folder)


def table_of(name: str, data: bytes) -> pa.Table | None:
    """Read a file as a table, by its content and not by its name; None where it is none."""
    try:
        if data[:4] == b"PAR1":
            return pq.read_table(pa.BufferReader(data))
        if data[:6] == b"ARROW1":
            return pa.ipc.open_file(pa.BufferReader(data)).read_all()
        if ".csv" in name:
            header = data.split(b"\n", 1)[0].decode().replace('"', "").strip().split(",")
            types = {column: pa.string() for column in header}
            options = pa.csv.ConvertOptions(column_types=types)
            return pa.csv.read_csv(pa.BufferReader(data), convert_options=options)
    except (pa.ArrowException, UnicodeDecodeError):
        pass
    return None


def _exact(values: Iterable[Any]) -> list[bytes]:
    """Values as bytes: two floats are one value if all their bits are."""
    return [struct.pack("<d", v) if isinstance(v, float) else repr(v).encode() for v in values]
