"""Rechecking a release from its files alone: what was broken for real is seen, on a disk and on S3."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from microagg_core.data.formats.options import CsvOutput
from microagg_core.errors import StorageError
from microagg_core.release.publish import publish
from microagg_core.release.verify import VerifyReport, verify
from microagg_core.store.layout import MANIFEST
from microagg_core.store.objects import Store, sha256_hex
from releasing.parts import facts_for, file_bytes, publish_tables, safe_tables, stage_parts, table_of
from servers.s3_server import FaultyServer, s3_error


@pytest.fixture
def disk(tmp_path: Path) -> Store:
    return Store(str(tmp_path / "output"))


def recheck(output: Store) -> VerifyReport:
    return verify(output.url, output.storage_options)


def failed(report: VerifyReport) -> list[str]:
    return [check.name for check in report.checks if not check.passed]


@pytest.mark.parametrize("form", ["parquet", "csv", "arrow"])
def test_a_sound_release_passes(output: Store, work: Store, form: str) -> None:
    published = publish_tables(output, work, safe_tables(), form=form)
    places = ["", "/", "/latest.json", "/2026-11-18", "/2026-11-18/r0001/", "/2026-11-18/r0001/manifest.json"]
    reports = [verify(output.url + place, output.storage_options) for place in places]
    assert [report.checks for report in reports] == [reports[0].checks] * len(places)
    report = reports[0]
    assert report.passed and report.exit_code == 0 and report.warnings == ()
    assert (report.rows, report.parts, report.k, report.url) == (11, 2, 3, published.manifest_url)
    assert json.loads(json.dumps(report.document()))["passed"] is True


def test_the_newest_revision_of_an_id_is_taken(disk: Store, work: Store) -> None:
    publish_tables(disk, work, safe_tables())
    publish_tables(disk, work, safe_tables("x"), replacing=True)
    assert verify(disk.url_of("2026-11-18")).revision == "r0002" == recheck(disk).revision
    assert verify(disk.url_of("2026-11-18/r0001")).revision == "r0001"


def test_a_downloaded_revision_is_checked_where_it_lies(disk: Store, work: Store, tmp_path: Path) -> None:
    publish_tables(disk, work, safe_tables())
    (Path(disk.url) / "2026-11-18" / "r0001").rename(tmp_path / "my copy")
    assert verify(str(tmp_path / "my copy")).passed


def test_parts_that_are_damaged_cut_missing_or_exchanged_are_seen(output: Store, work: Store) -> None:
    tables = safe_tables()
    first, second = sorted(publish_tables(output, work, tables).manifest.part_names())
    whole = {part: output.read(part) for part in (first, second)}

    def recheck_with(part: str, content: bytes | None) -> VerifyReport:
        output.delete(part) if content is None else output.put(part, content)
        report = recheck(output)
        output.put(part, whole[part])
        assert report.exit_code == 5
        return report

    data = whole[first]
    assert "checksums" in failed(recheck_with(first, data[:200] + bytes([data[200] ^ 1]) + data[201:]))
    cut = recheck_with(first, data[:-20])
    assert failed(cut) == ["checksums", "columns", "rows", "k-anonymity"]
    assert "not certain: 1 parts could not be counted" in cut.checks[-1].detail
    missing = recheck_with(second, None)
    assert failed(missing) == ["parts", "rows", "k-anonymity"]
    assert "1 of 2 parts are missing: data/part-00001-" in missing.checks[0].detail
    codes = tables[0].column("code").to_pylist()
    codes[0], codes[6] = codes[6], codes[0]  # right in every count, but not what was published
    exchanged = tables[0].set_column(2, "code", pa.array(codes))
    assert failed(recheck_with(first, file_bytes(exchanged, "parquet"))) == ["checksums"]
    output.put("2026-11-18/r0001/data/town=canary.parquet", b"")
    report = recheck(output)
    assert report.passed and len(report.warnings) == 1 and report.warnings[0].startswith("1 files in ")
    assert "canary" not in report.warnings[0]


@pytest.mark.parametrize("form", ["parquet", "csv", "arrow"])
def test_a_combination_below_k(disk: Store, work: Store, form: str) -> None:
    """Published with right checksums: only the recount can see that one record was changed."""
    tables = [table_of([30.5] * 2 + [31.5] + [41.0] * 4, ["a"] * 3 + [None] * 4, ["canary"] * 7), safe_tables()[1]]
    publish_tables(disk, work, tables, form=form)
    report = recheck(disk)
    assert failed(report) == ["k-anonymity"] and report.exit_code == 4
    assert report.checks[-1].detail == "1 combinations have fewer than k=3 records (the smallest has 1)"
    assert "31.5" not in str(report) and "canary" not in str(report)


@pytest.mark.parametrize(("form", "split"), [("parquet", 1), ("csv", 2), ("arrow", 3)])
def test_a_combination_that_spans_parts(disk: Store, work: Store, form: str, split: int) -> None:
    """Below k in either part (2 + 2), or done in one with a remainder in the other (1 + 3): four all the same."""
    whole = table_of([30.5] * 4, ["a"] * 4, ["w", "x", "y", "z"])
    publish_tables(disk, work, [whole.slice(0, split), whole.slice(split)], form=form)
    assert recheck(disk).passed


def test_two_remainders_that_do_not_reach_k(disk: Store, work: Store) -> None:
    parts = [table_of([30.5], [None], ["x"]), table_of([30.5], [None], ["y"])]
    publish_tables(disk, work, parts)
    assert recheck(disk).checks[-1].detail == "1 combinations have fewer than k=3 records (the smallest has 2)"


def test_null_is_a_value_of_its_own(disk: Store, work: Store) -> None:
    publish_tables(disk, work, [table_of([30.5] * 5, ["", "", "", None, None], ["x"] * 5)], form="csv")
    assert failed(recheck(disk)) == ["k-anonymity"]


def test_a_row_missing(disk: Store, work: Store) -> None:
    tables = safe_tables()
    parts = stage_parts(work, [tables[0].slice(1), tables[1]])
    publish(disk, facts_for(tables), [replace(parts[0], rows=7), parts[1]])
    report = recheck(disk)
    assert failed(report) == ["rows"] and report.exit_code == 4
    assert report.checks[3].detail.startswith("10 of 11 records; another number than declared in data/part-00000-")


@pytest.mark.parametrize("form", ["parquet", "csv", "arrow"])
def test_an_identifier_left_in(disk: Store, work: Store, form: str) -> None:
    tables = safe_tables()
    leaking = [t.append_column("name", pa.array(["canary"] * t.num_rows)) for t in tables]
    publish(disk, facts_for(tables, form=form), stage_parts(work, leaking, form))
    report = recheck(disk)
    assert failed(report) == ["columns", "rows", "k-anonymity"] and report.exit_code == 4
    assert "canary" not in str(report)


def test_a_type_that_is_not_the_declared_one(disk: Store, work: Store) -> None:
    tables = safe_tables()
    narrow = [t.set_column(0, "age", t.column("age").cast(pa.float32())) for t in tables]
    publish(disk, facts_for(tables), stage_parts(work, narrow))
    assert "columns" in failed(recheck(disk))


def test_a_csv_value_that_is_not_of_its_type(disk: Store, work: Store) -> None:
    tables = safe_tables()
    texts = [t.set_column(0, "age", pa.array(["canary"] * t.num_rows)) for t in tables]
    publish(disk, facts_for(tables, form="csv"), stage_parts(work, texts, "csv"))
    report = recheck(disk)
    assert "columns" in failed(report) and "canary" not in str(report)


def test_csv_of_a_single_column_keeps_its_nulls(disk: Store, work: Store) -> None:
    tables = [pa.table({"town": pa.array([None, None, None, "", "", ""])})]
    publish_tables(disk, work, tables, form="csv")
    report = recheck(disk)
    assert report.passed and report.rows == 6


def test_another_dialect(disk: Store, work: Store) -> None:
    tables = [table_of([1.0] * 3, [None, None, None], ["NA", "a;b", None])]
    text = '"age";"town";"code"\n1;NA;"NA"\n1;NA;"a;b"\n1;NA;NA\n'
    parts = stage_parts(work, tables)
    work.put(parts[0].name, text.encode())
    part = replace(parts[0], bytes=len(text), sha256=sha256_hex(text.encode()))
    publish(disk, facts_for(tables, form="csv", csv=CsvOutput(delimiter=";", null_word="NA")), [part])
    assert recheck(disk).passed


@pytest.mark.server
def test_who_may_read_but_not_list_can_verify(moto_server: FaultyServer, work: Store) -> None:
    place = moto_server.new_bucket()
    output = Store(place.url, place.storage_options)
    published = publish_tables(output, work, safe_tables())
    moto_server.fault = lambda environ, forward: (
        s3_error("403 Forbidden", "AccessDenied") if "list-type" in environ["QUERY_STRING"] else forward()
    )
    report = verify(published.manifest_url, output.storage_options)
    assert report.passed and "could not be listed" in report.warnings[0]


def test_where_there_is_no_release(output: Store, work: Store) -> None:
    output.put("2026-11-18/r0001/data/part-00000-efefefefefefefef.parquet", b"not committed")
    for place in ("", "/2026-11-18", "/2026-11-18/r0001", "/nowhere", "/2026-11-18/r0001/manifest.json"):
        with pytest.raises(StorageError, match="there is no release"):
            verify(output.url + place, output.storage_options)
    output.put("latest.json", b"{}")
    with pytest.raises(StorageError, match="is damaged; name a release's folder"):
        recheck(output)


def test_a_manifest_that_promises_nothing_to_check(disk: Store, work: Store) -> None:
    tables = [pa.table({"code": ["x"] * 3})]
    publish_tables(disk, work, tables)
    report = recheck(disk)
    assert failed(report) == ["k-anonymity"] and report.rows == 3


def test_a_damaged_manifest(output: Store, work: Store) -> None:
    folder = publish_tables(output, work, safe_tables()).manifest.layout.folder
    output.put(f"{folder}/{MANIFEST}", output.read(f"{folder}/{MANIFEST}")[:-30])
    with pytest.raises(StorageError, match="is not a valid release manifest"):
        recheck(output)
