"""Names of objects, and manifests."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from microagg_core.errors import SpecError, StorageError
from microagg_core.release.manifest import Manifest, PartEntry, same_release
from microagg_core.release.revisions import parse_latest
from microagg_core.store.layout import (
    SHARDS,
    AuditLayout,
    ReleaseLayout,
    RunLayout,
    release_order,
    revision_name,
    revision_number,
)
from releasing.parts import facts_for, safe_tables

SHA = "ab" * 32
ATTEMPT = "0123456789ab"


def part(number: int, rows: int, sha256: str = SHA) -> PartEntry:
    return PartEntry(name=f"data/part-{number:05d}-{sha256[:16]}-{ATTEMPT}.parquet", rows=rows, bytes=9, sha256=sha256)


def manifest(**others: object) -> Manifest:
    return Manifest.of(facts_for(safe_tables(), **others), "r0001", (part(0, 7), part(1, 4)))  # type: ignore[arg-type]


def test_names_of_the_contract() -> None:
    release = ReleaseLayout("2026-11-18", "r0001")
    assert release.manifest() == "2026-11-18/r0001/manifest.json"
    named = release.part(7, SHA, ATTEMPT, "parquet")
    assert named == "2026-11-18/r0001/data/part-00007-abababababababab-0123456789ab.parquet"
    assert release.absolute(release.relative(named)) == named
    run = RunLayout("f00")
    assert run.object("anonymize", "losses", 123456, 0, "json") == "runs/t/f00/anonymize/losses-123456.json"
    assert run.object("survey", "digests", 7, 2, "slices") == "runs/t/f00/survey/digests-00007-00002.slices"
    assert run.receipt("scatter", 3) == "runs/o/f00/receipts/scatter/00003.receipt"
    shards = Counter(run.object("scatter", "scattered", n, 0, "slices").split("/")[1] for n in range(1000))
    assert set(shards) == set(SHARDS) and max(shards.values()) < 2 * 1000 / len(SHARDS)
    assert AuditLayout("2026", "r0001").risk() == "audit/2026/r0001/risk.json"


def test_names_are_never_made_of_data() -> None:
    for key in ("a/b", "", "..", "Bad Gastein", "é"):
        with pytest.raises(ValueError, match="letters"):
            RunLayout(key).sign_of_life()
    with pytest.raises(ValueError, match="start at 0"):
        RunLayout("f00").object("anonymize", "losses", -1, 0, "json")
    for release_id in ("latest.json", "../x", ".hidden", ""):
        with pytest.raises(SpecError):
            ReleaseLayout(release_id, "r0001")


def test_revisions_and_their_order() -> None:
    assert [revision_number(n) for n in ("r0001", "r10000", "r01", "r00001", "data")] == [1, 10000, None, None, None]
    assert revision_name(10000) == "r10000"
    ids = ["2026-2", "2026-10", "v9", "v10", "v10a", "2025-12-31"]
    ordered = sorted(ids, key=lambda i: release_order(i, "r0001"))
    assert ordered == ["2025-12-31", "2026-2", "2026-10", "v9", "v10", "v10a"]
    assert release_order("a", "r9999") < release_order("a", "r10000")
    assert release_order("v1", "r0001") != release_order("v01", "r0001")


def test_a_manifest_survives_its_json() -> None:
    one = manifest(losses={"l_sse": 12.5})
    data = one.to_bytes()
    assert Manifest.from_bytes(data, "here") == one
    assert data.endswith(b"}\n") and json.loads(data)["format_version"] == 3


@pytest.mark.parametrize(
    "damage",
    [
        lambda v: v.pop("k"),
        lambda v: v.update(k=1),
        lambda v: v.update(rows=12),
        lambda v: v.update(surplus=1),
        lambda v: v.update(id="../other"),
        lambda v: v["parts"][0].update(name="../../secret.parquet"),
        lambda v: v["parts"][0].update(name="data/part-00000-0000000000000000.parquet"),
        lambda v: v["parts"][0].update(name=f"data/part-00000-{SHA[:16]}-0123456789.parquet"),
        lambda v: v["parts"].__setitem__(1, v["parts"][0]),
        lambda v: v["columns"].append(v["columns"][0]),
        lambda v: v.update(csv={}),
        lambda v: v.update(losses={"sse": "much"}),
        lambda v: v.update(checks=[{"name": "rows"}]),
        lambda v: v.update(format_version=0),
    ],
)
def test_a_damaged_manifest_is_one_clear_error(damage) -> None:  # type: ignore[no-untyped-def]
    value = json.loads(manifest().to_bytes())
    damage(value)
    with pytest.raises(StorageError, match=r"^here is not a valid release manifest"):
        Manifest.from_bytes(json.dumps(value).encode(), "here")


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"null", b"\xff\xfe", b"[" * 100_000])
def test_what_is_no_manifest_at_all(data: bytes) -> None:
    with pytest.raises(StorageError, match=r"^here is not a valid release manifest"):
        Manifest.from_bytes(data, "here")


def test_a_later_version_is_not_guessed_at() -> None:
    with pytest.raises(StorageError, match=r"format version 4.*use a newer microagg"):
        Manifest.from_bytes(b'{"format_version": 4}', "here")


def test_a_manifest_of_the_first_format_is_read() -> None:
    """Its parts are named by their content alone."""
    value = json.loads(manifest().to_bytes())
    value["format_version"] = 1
    for entry in value["parts"]:
        entry["name"] = entry["name"].replace(f"-{ATTEMPT}", "")
    old = Manifest.from_bytes(json.dumps(value).encode(), "here")
    assert [entry.name for entry in old.parts] == [
        f"data/part-00000-{SHA[:16]}.parquet",
        f"data/part-00001-{SHA[:16]}.parquet",
    ]
    assert same_release(old, manifest())


def test_the_same_release_is_the_same_bytes_and_promises() -> None:
    assert same_release(manifest(), manifest(created="2027-01-01T00:00:00Z", losses={"l_sse": 1}))
    assert not same_release(manifest(), manifest(k=2))
    other = Manifest.of(facts_for(safe_tables()), "r0001", (part(0, 7), part(1, 4, "cd" * 32)))
    assert not same_release(manifest(), other)


@pytest.mark.parametrize(
    "data", [None, b"", b"[]", b'{"id": "a"}', b'{"id": "a", "revision": "r0001", "manifest": "../x"}',
             b'{"id": 1, "revision": "r0001", "manifest": "1/r0001/manifest.json"}'],
)  # fmt: skip
def test_a_latest_that_makes_no_sense_names_nothing(data: bytes | None) -> None:
    assert parse_latest(data) is None
