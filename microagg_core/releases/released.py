"""Finding a release, and reading its parts as somebody does who has nothing but its files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from microagg_core.errors import StorageError
from microagg_core.releases.latest import committed_revisions_in, parse_latest
from microagg_core.releases.manifest import CsvDialect, Manifest
from microagg_core.storage.layout import LATEST, MANIFEST
from microagg_core.storage.objects import Store
from microagg_core.storage.urls import basename, join, shown

_BATCH_ROWS = 65_536
_CSV_BLOCK_BYTES = 8 * 2**20
_DECIMAL = re.compile(r"decimal(32|64|128|256)\((\d+), (-?\d+)\)")
_ZONED = re.compile(r"timestamp\[(s|ms|us|ns), tz=(.+)\]")


def arrow_type(text: str) -> pa.DataType:
    """The Arrow type that a manifest names.

    Raises:
        ValueError: there is no such type.

    >>> arrow_type("decimal128(12, 2)"), arrow_type("timestamp[us, tz=UTC]"), arrow_type("date32[day]")
    (Decimal128Type(decimal128(12, 2)), TimestampType(timestamp[us, tz=UTC]), DataType(date32[day]))
    """
    if match := _DECIMAL.fullmatch(text):
        kind: pa.DataType = getattr(pa, f"decimal{match[1]}")(int(match[2]), int(match[3]))
        return kind
    if match := _ZONED.fullmatch(text):
        return pa.timestamp(match[1], match[2])
    return pa.type_for_alias(text)


def find_release(url: str, storage_options: dict[str, Any] | None = None) -> tuple[Store, Manifest]:
    """The release at a URL: its folder and its manifest.

    The URL may be a manifest, the folder of a revision, the folder of a release id (its newest revision is
    taken), or the root of an output (what ``latest.json`` names is taken).

    Raises:
        StorageError: there is no release, or its manifest is damaged.

    >>> find_release("memory://nothing-here")
    Traceback (most recent call last):
    ...
    microagg_core.errors.StorageError: memory://nothing-here: there is no release; give the URL of an output, of a \
release in it, or of a manifest
    """
    options = storage_options or {}
    if basename(url) in (MANIFEST, LATEST):
        url = url.rstrip("/")[: -len(basename(url))]
    url = url.rstrip("/") if url.strip("/") else url
    place = _folder_of_release(Store(url, options, follow_links=True))
    folder = Store(join(url, place), options, follow_links=True)
    return folder, Manifest.from_bytes(folder.read(MANIFEST), shown(folder.url_of(MANIFEST)))


def _folder_of_release(store: Store) -> str:
    """Where the release lies below the store: '' where the store is its folder."""
    if store.exists(MANIFEST):
        return ""
    if store.exists(LATEST):
        latest = parse_latest(store.read(LATEST))
        if latest is None:
            raise StorageError(
                f"{shown(store.url_of(LATEST))} is damaged; name a release's folder, and publish again to repair it"
            )
        return latest.folder
    revisions = committed_revisions_in(store, "")
    if not revisions:
        raise StorageError(
            f"{shown(store.url)}: there is no release; give the URL of an output, of a release in it, or of a manifest"
        )
    return revisions[0]


def part_batches(path: Path, manifest: Manifest) -> tuple[pa.Schema, Iterator[pa.Table]]:
    """The schema of one part, and its key columns as tables of bounded size.

    Reading the batches checks every value of a CSV part against its column's type.

    Raises:
        pyarrow.ArrowException, OSError: the file is damaged; the message may quote a value.
    """
    if manifest.csv is not None:
        return _csv_batches(path, manifest, manifest.csv)
    file = pa.parquet.ParquetFile(path)
    return file.schema_arrow, _parquet_batches(file, manifest)


def _parquet_batches(file: Any, manifest: Manifest) -> Iterator[pa.Table]:
    with file:
        # Columns are chosen after reading: a name with a dot in it would be taken for a path into a structure.
        for batch in file.iter_batches(batch_size=_BATCH_ROWS, use_threads=False):
            yield pa.table(batch)


def _csv_batches(path: Path, manifest: Manifest, dialect: CsvDialect) -> tuple[pa.Schema, Iterator[pa.Table]]:
    reader = pa.csv.open_csv(
        path,
        read_options=pa.csv.ReadOptions(use_threads=False, block_size=_CSV_BLOCK_BYTES),
        # An empty line is a record where there is a single column, and a ragged one elsewhere.
        parse_options=pa.csv.ParseOptions(
            delimiter=dialect.delimiter, newlines_in_values=True, ignore_empty_lines=False
        ),
        convert_options=pa.csv.ConvertOptions(
            column_types={column.name: arrow_type(column.type) for column in manifest.columns},
            null_values=[dialect.null_word],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    return reader.schema, (pa.table(batch) for batch in reader)
