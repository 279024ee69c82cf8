"""What a receiver demands of a release, and what is refused in one that was forged with right checksums."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from inputs.people import people
from microagg_core.data.tables.hashing import hash_rows
from microagg_core.errors import SpecError, StorageError
from microagg_core.kernels.tools.hashing import mix_words
from microagg_core.release.demands import Demands
from microagg_core.release.verify import verify
from microagg_core.store.layout import MANIFEST
from microagg_core.store.objects import Store
from releasing.forging import Forged, failed, look
from releasing.parts import file_bytes, publish_tables, safe_tables, table_of
from releasing.runs import run_stages, start, write_release

ANYTHING = Demands(strict=True)
RIGHT = Demands(k=3, quasi_identifiers=("age",), blocking=("town",), rows=11)


@pytest.fixture
def forged(output: Store, work: Store) -> Forged:
    return Forged(output, publish_tables(output, work, safe_tables()))


@pytest.fixture
def on_disk(disk: Store, work: Store) -> Forged:
    return Forged(disk, publish_tables(disk, work, safe_tables()))


def test_a_release_that_is_what_is_demanded(forged: Forged) -> None:
    digest = look(forged).sha256
    report = look(forged, Demands(3, ("age",), ("town",), digest, 11))
    assert failed(report) == {} and report.exit_code == 0 and report.warnings == ()
    named = {check.name for check in report.checks}
    assert named >= {"k demanded", "columns demanded", "rows demanded", "digest demanded", "k-anonymity"}
    assert (report.name, report.id, report.revision) == ("people", "2026-11-18", "r0001")


@pytest.mark.parametrize(
    ("demands", "check", "sentence"),
    [
        (Demands(k=4), "k demanded", "k=3 is promised, and k=4 demanded"),
        (Demands(k=4), "k-anonymity", "1 combinations have fewer than k=4 records (the smallest has 3)"),
        (Demands(rows=12), "rows demanded", "11 records are declared, and 12 demanded"),
        (Demands(quasi_identifiers=("code",)), "columns demanded",
         "'code' is confidential there, and demanded as a quasi-identifier"),
        (Demands(quasi_identifiers=("age", "code")), "k-anonymity demanded",
         "10 combinations have fewer than k=3 records (the smallest has 1)"),
        (Demands(quasi_identifiers=("town",)), "columns demanded",
         "'town' is a blocking column there, and demanded as a quasi-identifier"),
        (Demands(blocking=("age",)), "columns demanded",
         "'age' is a quasi-identifier there, and demanded as a blocking column"),
        (Demands(distinct={"age": 2}), "protection of 'age' demanded",
         "'age' is not a confidential column of the release"),
        (Demands(t={"code": 0.05}), "protection of 'code' demanded",
         "4 combinations do not have a distribution, and a share of missing values, within t = 0.05 of the whole's"),
        (Demands(blocking=("county",)), "columns demanded", "'county' is not among the columns"),
        (Demands(blocking=("county",)), "k-anonymity demanded",
         "not counted, as the release does not have all columns that are demanded"),
    ],
)  # fmt: skip
def test_a_release_that_is_not(demands: Demands, check: str, sentence: str, on_disk: Forged) -> None:
    report = look(on_disk, demands)
    assert failed(report)[check] == sentence and report.exit_code == 4


def test_another_manifest_than_the_one_that_is_demanded(on_disk: Forged) -> None:
    digest = look(on_disk).sha256
    on_disk.say(created="2026-11-18T12:00:01Z")
    report = look(on_disk, Demands(sha256=digest))
    assert list(failed(report)) == ["digest demanded"] and report.exit_code == 5
    assert digest not in failed(report)["digest demanded"] and look(on_disk).passed


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"k": 1}, "--k: must be at least 2"),
        ({"rows": 0}, "--rows: must be at least 1"),
        ({"sha256": "ab"}, "--sha256: must be the manifest's digest, 64 hexadecimal digits"),
        ({"quasi_identifiers": ("a",), "blocking": ("a",)}, "--blocking: 'a' is among the quasi-identifiers too"),
        ({"distinct": {"code": 1}}, r"--distinct: must be at least 2 \(got 1 for 'code'\)"),
        ({"t": {"code": float("nan")}}, r"--t: must be between 0 and 1 \(got nan for 'code'\)"),
    ],
)
def test_what_cannot_be_demanded(wrong: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SpecError, match=sentence):
        Demands(**wrong)


# --- Forged manifests ------------------------------------------------------------------------------------------

UNKNOWN = "the manifest says 1 things that this version of microagg does not know"


@pytest.mark.parametrize(
    ("fields", "check", "sentence"),
    [
        ({"checks": [{"name": "k-anonymity", "passed": False, "detail": ""}]}, "gate",
         "the manifest itself says that 1 of 1 checks failed: k-anonymity"),
        ({"checks": []}, "gate's checks", "the manifest names no check that was made before it was published"),
        ({"losses": {"l_sse": 1.5, "note": "canary"}}, "fields", UNKNOWN),
        ({"losses": {"attributes": {"age": {"note": "canary"}}}}, "fields", UNKNOWN),
        ({"losses": {"attributes": {"canary": {}}}}, "fields", UNKNOWN),
        ({"rounding": {"canary": 1}}, "fields", UNKNOWN),
        ({"rounding": {"age": {"canary": 1}}}, "fields", UNKNOWN),
        ({"algorithm": {"name": "mdav", "parameters": {"note": ["canary"]}}}, "fields", UNKNOWN),
    ],
)  # fmt: skip
def test_a_manifest_that_says_what_it_should_not(
    fields: dict[str, Any], check: str, sentence: str, on_disk: Forged
) -> None:
    on_disk.say(**fields)
    report = look(on_disk, ANYTHING)
    assert failed(report) == {check: sentence} and report.exit_code == 4 and "canary" not in str(report)


def move_out(said: dict[str, Any], name: str) -> None:
    said["parts"][0]["name"] = name


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda said: move_out(said, "../r0001/" + said["parts"][0]["name"]), "a part is named data/part-<number>"),
        (lambda said: move_out(said, "/etc/passwd"), "a part is named data/part-<number>"),
        (lambda said: move_out(said, "s3://other/part"), "a part is named data/part-<number>"),
        (lambda said: move_out(said, "data/../" + said["parts"][0]["name"]), "a part is named data/part-<number>"),
        (lambda said: said["parts"].append(said["parts"][0]), "a part stands in it twice"),
        (lambda said: said.update(rows=12), "the rows of the parts do not add up"),
        (lambda said: said.update(k=1), "field k"),
        (lambda said: said.update(note="canary"), "field note: is not known"),
        (lambda said: said["parts"][0].update(note="canary"), r"field parts.0.note: is not known"),
        (lambda said: said["columns"].append(said["columns"][0]), "a column stands in it twice"),
    ],
)  # fmt: skip
def test_a_manifest_that_is_none_is_one_sentence(
    change: Callable[[dict[str, Any]], object], reason: str, on_disk: Forged
) -> None:
    change(on_disk.said)
    on_disk.say()
    with pytest.raises(StorageError, match=rf"is not a valid release manifest \(.*{reason}.*\); restore it") as refused:
        look(on_disk)
    assert "canary" not in refused.value.message


def test_a_manifest_of_a_later_format_has_a_sentence_of_its_own(on_disk: Forged) -> None:
    on_disk.say(format_version=4)
    with pytest.raises(StorageError, match="has format version 4, and this software reads up to 3; use a newer"):
        look(on_disk)


def test_a_manifest_that_says_a_thing_twice(on_disk: Forged) -> None:
    """One reader takes the first k, another the last."""
    data = on_disk.folder.read(MANIFEST).replace(b'"k": 3', b'"k": 2,\n "k": 3')
    on_disk.folder.put(MANIFEST, data)
    assert json.loads(data)["k"] == 3
    with pytest.raises(StorageError, match="a field stands in it twice"):
        look(on_disk)


@pytest.mark.parametrize("place", ["", "2026-11-19"])
def test_a_release_in_the_place_of_another(place: str, tmp_path: Path, on_disk: Forged) -> None:
    """An old one, well signed, is given out as the newest."""
    output = tmp_path / "output"
    (output / "2026-11-19").mkdir()
    (output / "2026-11-18/r0001").rename(output / "2026-11-19/r0002")
    latest = {"id": "2026-11-19", "revision": "r0002", "manifest": "2026-11-19/r0002/manifest.json"}
    (output / "latest.json").write_text(json.dumps(latest))
    with pytest.raises(StorageError, match="is the manifest of another release or revision"):
        verify(f"{output}/{place}")


def test_a_part_with_the_content_of_another(forged: Forged) -> None:
    """Whoever shows two records twice has four of them."""
    rare = table_of([77.0] * 2 + [78.0] * 3, ["z"] * 5, ["x", "y", "a", "b", "c"])
    forged.add_table(rare)
    forged.repeat(2)
    report = look(forged)
    assert set(failed(report)) == {"repeated parts", "k-anonymity"} and report.exit_code == 4
    assert failed(report)["repeated parts"].startswith("1 of 4 parts have the content of another: data/part-00003-")
    assert failed(report)["k-anonymity"] == "1 combinations have fewer than k=3 records (the smallest has 2)"


def unmixed(word: int) -> int:
    """What the mixing step of hashes makes this word of."""
    word ^= (word >> 31) ^ (word >> 62)
    word = word * pow(0x94D049BB133111EB, -1, 2**64) % 2**64
    word ^= (word >> 27) ^ (word >> 54)
    word = word * pow(0xBF58476D1CE4E5B9, -1, 2**64) % 2**64
    return word ^ (word >> 30) ^ (word >> 60)


def mixed(word: int) -> int:
    return int(mix_words(np.array([word % 2**64], dtype=np.uint64))[0])


def age_with_equal_hash(age: float, town: str, other: str) -> float:
    """An age that, with another town of at most 7 bytes, has the hash of an age and a town."""
    salt, k1, k2 = 0xA24BAED4963EE407, 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9
    start = mixed(salt + k1)
    of_age = mixed(start ^ mixed(struct.unpack("<Q", struct.pack("<d", age))[0] + k1))
    # Hashes are made of the town's length and letters by steps that can be gone back.
    before = mixed(of_age + 2 * salt + k1) ^ len(town.encode())
    letters = [mixed(int.from_bytes(text.encode(), "little") + k2) for text in (town, other)]
    state = before ^ letters[0] ^ letters[1] ^ len(other.encode())
    of_other = (unmixed(state) - 2 * salt - k1) % 2**64
    word = (unmixed(unmixed(of_other) ^ start) - k1) % 2**64
    return float(struct.unpack("<d", struct.pack("<Q", word))[0])


def test_combinations_with_equal_hashes_are_two(forged: Forged) -> None:
    """Who forges a release may choose values: each combination has one code here, and both together have two."""
    ages = next(
        [age, other]
        for age in map(float, range(90, 190))
        if np.isfinite(other := age_with_equal_hash(age, "y", "z")) and other < age
    )
    table = table_of(np.repeat(ages, 3).tolist(), ["y"] * 3 + ["z"] * 3, ["p"] * 3 + ["q"] * 3)
    hashes = hash_rows([table["age"], table["town"]], 6, seed=0)
    assert len(set(hashes.tolist())) == 1
    for _ in range(2):
        forged.said["parts"].pop()
    forged.add_table(table)
    assert failed(look(forged, Demands(distinct={"code": 2}))).keys() >= {"protection of 'code' demanded"}


def test_records_that_are_all_alike_may_fill_files_alike(on_disk: Forged) -> None:
    """A large block is cut into files of one size; then each content counts once."""
    on_disk.add_table(table_of([0.0] * 3, ["z"] * 3, [None] * 3))
    on_disk.repeat(2)
    assert failed(look(on_disk, ANYTHING)) == {}
    on_disk.add_table(table_of([1.0] * 2, ["z"] * 2, [None] * 2))
    on_disk.repeat(4)
    assert list(failed(look(on_disk))) == ["k-anonymity"]


@pytest.mark.parametrize("forging", ["no parts", "an empty part"])
def test_a_release_of_nobody(forging: str, on_disk: Forged) -> None:
    empty = file_bytes(safe_tables()[0].slice(0, 0), "parquet")
    for part in on_disk.said["parts"]:
        on_disk.folder.delete(part["name"])
    on_disk.said["parts"] = []
    on_disk.say(rows=0)
    if forging == "an empty part":
        on_disk.add(empty, 0)
    assert look(on_disk).warnings == ("the release holds no record",)
    assert failed(look(on_disk, ANYTHING)) == {"records": "the release holds no record"}


def test_a_column_that_the_manifest_does_not_describe(forged: Forged) -> None:
    """In a footer of its own, or not at all: what is in the file is what counts."""
    table = safe_tables()[0]
    forged.add_table(table.append_column("name", pa.array(["canary"] * table.num_rows)), 0)
    report = look(forged, ANYTHING)
    assert {"columns", "k-anonymity"} <= set(failed(report)) and "canary" not in str(report)


def to_link(path: Path) -> None:
    elsewhere = path.rename(path.parents[3] / f"elsewhere-{path.name}")
    path.symlink_to(elsewhere)


def to_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def to_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.timeout(60)
@pytest.mark.parametrize("forge", [to_link, to_pipe, to_folder])
def test_a_part_that_is_no_file_of_its_own(forge: Callable[[Path], object], on_disk: Forged) -> None:
    forge(on_disk.part(1))
    report = look(on_disk)
    assert report.exit_code == 5 and set(failed(report)) == {"files", "rows", "k-anonymity"}
    assert failed(report)["files"].startswith("1 of 2 parts are links or no files at all: data/part-00001-")


def test_a_folder_of_parts_that_is_a_link(on_disk: Forged, tmp_path: Path) -> None:
    (on_disk.path / "data").rename(tmp_path / "data")
    (on_disk.path / "data").symlink_to(tmp_path / "data")
    assert failed(look(on_disk))["files"].startswith("2 of 2 parts are links")


@pytest.mark.timeout(60)
def test_a_manifest_that_is_no_file_of_its_own(on_disk: Forged, tmp_path: Path) -> None:
    data = on_disk.folder.read(MANIFEST)
    to_link(on_disk.path / MANIFEST)
    with pytest.raises(StorageError, match=r"manifest.json is a link, and none is followed"):
        look(on_disk)
    (on_disk.path / MANIFEST).unlink()
    os.mkfifo(on_disk.path / MANIFEST)
    with pytest.raises(StorageError, match="there is no release"):
        look(on_disk)
    (on_disk.path / MANIFEST).unlink()
    on_disk.folder.put(MANIFEST, data)
    (tmp_path / "linked").symlink_to(on_disk.path)
    assert verify(str(tmp_path / "linked"), demands=RIGHT).passed, "the root itself may be a link"


def test_files_with_another_name(on_disk: Forged, tmp_path: Path) -> None:
    (tmp_path / "another name").hardlink_to(on_disk.part(0))
    (tmp_path / "manifest").hardlink_to(on_disk.path / MANIFEST)
    report = look(on_disk)
    assert report.passed and report.warnings[0].startswith("2 files have another name, by which they may be changed")
    assert list(failed(look(on_disk, RIGHT))) == ["hard links"]


@pytest.mark.parametrize("name", ["data/town=canary.parquet", ".hidden", "manifest.json.bak", "deep/er/canary"])
def test_a_file_that_is_not_part_of_the_release(name: str, forged: Forged) -> None:
    forged.folder.put(name, b"")
    assert look(forged).passed and len(look(forged).warnings) == 1
    report = look(forged, RIGHT)
    assert list(failed(report)) == ["unlisted files"] and report.exit_code == 5 and "canary" not in str(report)
    assert report.warnings == ()


def test_a_link_to_a_folder_that_is_not_part_of_the_release(on_disk: Forged, tmp_path: Path) -> None:
    (on_disk.path / "more").symlink_to(tmp_path)
    assert look(on_disk).warnings[0].startswith("1 files in ")
    assert list(failed(look(on_disk, RIGHT))) == ["unlisted files"]


@pytest.mark.parametrize("form", ["parquet", "csv", "arrow"])
def test_what_is_published_stands_up_to_it(form: str, tmp_path: Path) -> None:
    path = write_release(tmp_path, [people(400)], output={"url": "output", "format": form})
    release = run_stages(start(path))
    assert release.published is not None
    manifest = release.published.manifest
    demands = Demands(3, ("x", "y"), ("region", "town"), manifest.sha256, manifest.rows)
    report = verify(str(tmp_path / "output"), demands=demands)
    assert failed(report) == {} and report.warnings == ()
    if form == "parquet":
        (part, *_) = (tmp_path / "output").rglob("*.parquet")
        assert set(pq.read_metadata(part).metadata) == {b"ARROW:schema"}
        assert not pq.read_schema(part).metadata
