"""Small releases for tests: a spec in a folder, workers in this process, and a look at what was published."""

from __future__ import annotations

import datetime
import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from microagg_core.release.pieces import Piece
from microagg_core.spec.loading import load_spec
from microagg_core.store.objects import sha256_hex
from microagg_flows.executors import InProcess
from microagg_flows.progress import Silence
from microagg_flows.release import Release, new_release
from microagg_flows.stages import STAGES, run_stage

NOW = datetime.datetime(2026, 11, 18, 3, 0, tzinfo=datetime.UTC)

#: For tests that release the same units more than once and are about something else than what that gives away.
AGAIN = {"series": {"mode": "independent", "acknowledge": "overlapping_releases"}}

ROLES = {
    "identifiers": ["id"],
    "quasi_identifiers": ["x", "y"],
    "blocking": ["region", "town"],
    "confidential": ["note", "amount"],
}


def write_release(folder: Path, tables: Sequence[pa.Table], **changes: Any) -> Path:
    """Write the tables as Parquet parts and a spec over them; ``changes`` are keys of the spec."""
    (folder / "input").mkdir(parents=True, exist_ok=True)
    for i, table in enumerate(tables):
        pq.write_table(table, folder / "input" / f"part-{i}.parquet")
    # Among few people nearly everybody has a note and an amount of his own.
    meant = {} if "roles" in changes else {"acknowledge": {"jointly_unique": ROLES["confidential"]}}
    spec = {
        "name": "test",
        "k": 3,
        "input": {"url": "input/*.parquet"},
        "output": {"url": "output"},
        "work": {"url": "work"},
        "roles": ROLES,
        **meant,
        **changes,
    }
    path = folder / "release.yaml"
    path.write_text(yaml.safe_dump(spec, sort_keys=False), encoding="utf-8")
    return path


def write_series(folder: Path, tables: Sequence[pa.Table], **series: Any) -> Path:
    """Write the tables and a spec whose releases are nights of one series, with its key."""
    key = folder / "series.key"
    key.write_text("the key of a test's series", encoding="utf-8")
    key.chmod(0o600)
    return write_release(folder, tables, unit=["id"], series={"mode": "atoms", "key_file": key.name, **series})


def start(path: Path, replace: bool = False, identity: str | None = None, now: datetime.datetime = NOW) -> Release:
    return new_release(load_spec(str(path)), InProcess(Silence()), identity, replace, now)


def run_stages(release: Release, *names: str) -> Release:
    for stage in STAGES:
        if not names or stage.name in names:
            run_stage(stage, release)
    return release


def forge(release: Release, name: str, data: bytes) -> None:
    """Write a file of the run, and have whoever reads it expect just that, as if a bug of ours had made it."""
    release.work.put(name, data)

    def forged(pieces: tuple[Piece, ...]) -> tuple[Piece, ...]:
        return tuple(replace(p, bytes=len(data), sha256=sha256_hex(data)) if p.name == name else p for p in pieces)

    release._known.update({output: forged(pieces) for output, pieces in release._known.items()})
    for receipts in release._receipts.values():
        receipts.update({number: replace(r, pieces=forged(r.pieces)) for number, r in receipts.items()})


def without_attempt(name: str) -> str:
    """A part's name without what tells attempts at publishing apart: the same for the same content."""
    return re.sub(r"-[0-9a-f]{12}(?=\.)", "", name)


def data_digests(output: Path) -> dict[str, str]:
    """SHA-256 of every released data file, by its name within the release, but for the attempt that is in it."""
    return {
        without_attempt(str(p.relative_to(output))): hashlib.sha256(p.read_bytes()).hexdigest()
        for p in sorted(output.rglob("data/*"))
    }


def released_table(output: Path) -> pa.Table:
    """The newest release, read as a reader does: latest.json, manifest, parts."""
    latest = json.loads((output / "latest.json").read_text())
    manifest_path = output / latest["manifest"]
    manifest = json.loads(manifest_path.read_text())
    return pa.concat_tables([pq.read_table(manifest_path.parent / part["name"]) for part in manifest["parts"]])
