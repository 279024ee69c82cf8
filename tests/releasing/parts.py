"""Small releases for tests: parts in a work area of their own, and the facts for their manifest."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from multiprocessing.synchronize import Barrier
from pathlib import Path
from queue import Queue
from typing import Any

import pyarrow as pa
import pytest

from microagg_core.data.formats.options import CsvOutput
from microagg_core.data.formats.writing import released_format
from microagg_core.errors import MicroaggError
from microagg_core.inspect.check import Check
from microagg_core.release.manifest import AlgorithmEntry, ColumnEntry, ReleaseFacts
from microagg_core.release.publish import Published, StagedPart, publish
from microagg_core.release.revisions import committed_manifests
from microagg_core.spec.release import Output
from microagg_core.store.layout import LATEST
from microagg_core.store.objects import Store, sha256_hex
from servers.s3_server import Place

ROLES = {"age": "quasi_identifier", "town": "blocking"}


def table_of(age: Sequence[float], town: Sequence[str | None], code: Sequence[str | None]) -> pa.Table:
    """Records with a quasi-identifier, a blocking column and a confidential one."""
    columns = {
        "age": pa.array(age, pa.float64()),
        "town": pa.array(town, pa.string()),
        "code": pa.array(code, pa.string()),
    }
    return pa.table(columns)


def safe_tables(salt: str = "") -> list[pa.Table]:
    """Two parts that are 3-anonymous together, one combination with a null, and one that spans both parts."""
    first = table_of([30.5] * 3 + [41.0] * 4, ["a"] * 3 + [None] * 4, [f"{i:02d}{salt}" for i in range(7)])
    second = table_of([52.0] * 3 + [30.5], ["b"] * 3 + ["a"], ["", None, "x\ny", "01"])
    return [first, second]


def file_bytes(table: pa.Table, form: str) -> bytes:
    output = Output.model_validate({"url": "output", "format": form})
    blocking = [name for name in table.column_names if ROLES.get(name) == "blocking"]
    return released_format(output).to_bytes(table, blocking)


def facts_for(
    tables: Sequence[pa.Table], release_id: str = "2026-11-18", form: str = "parquet", **others: Any
) -> ReleaseFacts:
    columns = tuple(
        ColumnEntry(name=f.name, type=str(f.type), role=ROLES.get(f.name, "confidential")) for f in tables[0].schema
    )
    facts = {
        "name": "people",
        "id": release_id,
        "created": "2026-11-18T12:00:00Z",
        "k": 3,
        "unit": "row",
        "rows": sum(t.num_rows for t in tables),
        "suppressed": 0,
        "columns": columns,
        "format": form,
        "csv": CsvOutput() if form == "csv" else None,
        "algorithm": AlgorithmEntry(name="mdav"),
        "seed": 0,
        "undersized": "merge",
        "missing": "error",
        "checks": (Check("k-anonymity", True),),
        "software": {"microagg": "0.1.0"},
    }
    return ReleaseFacts(**{**facts, **others})


def stage_parts(work: Store, tables: Sequence[pa.Table], form: str = "parquet") -> list[StagedPart]:
    """Write the tables as files of the work area."""
    parts = []
    for number, table in enumerate(tables):
        data, name = file_bytes(table, form), f"candidate/{uuid.uuid4().hex}-{number}"
        work.put(name, data)
        parts.append(StagedPart(work, name, table.num_rows, len(data), sha256_hex(data)))
    return parts


def publish_tables(
    output: Store, work: Store, tables: Sequence[pa.Table], *, release_id: str = "2026-11-18", form: str = "parquet",
    replacing: bool = False, **others: Any,
) -> Published:  # fmt: skip
    parts = stage_parts(work, tables, form)
    return publish(output, facts_for(tables, release_id, form, **others), parts, replace=replacing)


def publish_in_process(
    output: Store, work: Store, release_id: str, salt: str, start: Barrier, answers: Queue[Any]
) -> None:
    tables = safe_tables(salt)
    parts = stage_parts(work, tables)
    # Another moment of creation, as another run has.
    facts = facts_for(tables, release_id, created=f"2026-11-18T12:00:{sum(salt.encode()) % 60:02d}Z")
    start.wait()
    try:
        published = publish(output, facts, parts)
        answers.put((salt, "already" if published.already else "published"))
    except MicroaggError as error:
        answers.put((salt, error.message))


def names_of(output: Store) -> list[str]:
    return output.list(unfinished=True)


def expected_names(output: Store) -> list[str]:
    """What the committed manifests account for, and nothing else."""
    found = {LATEST}
    for release_id in output.folders():
        for manifest in committed_manifests(output, release_id):
            found |= manifest.part_names() | manifest.page_names() | manifest.written_page_names()
            found.add(manifest.layout.manifest())
    return sorted(found)


@pytest.fixture
def output(storage_place: Place) -> Store:
    return Store(storage_place.url, storage_place.storage_options)


@pytest.fixture
def disk(tmp_path: Path) -> Store:
    """An output on a disk, for what does not depend on the store."""
    return Store(str(tmp_path / "output"))


@pytest.fixture
def work(tmp_path: Path) -> Store:
    return Store(str(tmp_path / "work"))
