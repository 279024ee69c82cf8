"""Outcomes as people read them, and how those of runs that were killed are found."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from microagg_core.errors import ClusterError
from microagg_core.pages.release_report import compared_rows, results_markdown, stage_rows
from microagg_core.store.objects import Store
from microagg_flows.record import RunRecord, mark_untold, this_process, write_private
from microagg_flows.release import StageOutcome, compared

STAGE = {
    "name": "survey",
    "says": "12 records in 1 parts",
    "seconds": 72.61234567890123,
    "cpu_seconds": 0.123456789,
    "flow_cpu_seconds": 0.0,
    "kernel_seconds": 0.0,
    "peak_bytes": 123_456_789,
}
FAILED = {
    **RunRecord(series="people", id="2026-11-18", stage="survey").document(
        ClusterError("a | worker\nwas lost; run it again")
    ),
    "memory_bytes": {"estimate": 2**20, "actual": None},
    "stages": [STAGE],
}


def test_a_failure_is_readable() -> None:
    text = results_markdown(FAILED)
    assert text.startswith("# people 2026-11-18: failed\n")
    assert "**what happened**\na | worker was lost; run it again\n\n**what to do**\nrun it again\n\n|" in text
    assert "| memory of a worker | 1.0 MiB | – |" in text
    assert "| | |" not in text, "a table's head that is empty is an empty bar on a page"
    assert results_markdown({**FAILED, "series": None, "id": None}).startswith("# a release: failed")


def test_a_long_sentence_is_a_paragraph_as_cells_do_not_break_lines() -> None:
    sentence = (
        "s3://a-bucket/with/many/folders/2026-11-18/*/part-*.parquet: no file matches, and none will; check input.url"
    )
    text = results_markdown({**FAILED, "sentence": sentence})
    assert f"\n\n**what happened**\n{sentence.replace('*', chr(92) + '*')}\n" in text
    assert max(len(line) for line in text.splitlines() if line.startswith("|")) < 100
    noted = results_markdown({**FAILED, "warnings": [sentence, "a short one"]})
    assert "| note | a short one |" in noted and f"**note**\n{sentence[:30]}" in noted


def test_no_cell_is_read_as_a_list_where_there_is_no_figure() -> None:
    (row,) = stage_rows({**FAILED, "stages": [{**STAGE, "peak_bytes": 0}]})
    assert [text for text in row.values() if text.startswith(("-", "*", "+"))] == []


def test_nothing_to_compare_is_no_table() -> None:
    assert compared_rows(RunRecord(command="plan").document(None)) == []


def test_figures_have_as_many_digits_as_mean_something() -> None:
    (row,) = stage_rows(FAILED)
    assert (row["time"], row["CPU of tasks"], row["peak of a worker"]) == ("1 min 13 s", "0.12 s", "117.7 MiB")
    release: Any = SimpleNamespace(
        outcomes=[StageOutcome(**STAGE)],
        committed=None,
        published=None,
        key="",
        page=None,
        compared=lambda: {"memory_bytes": compared(None, 123_456_789)},
    )
    document = RunRecord(command="plan", release=release).document(None)
    assert document["stages"][0]["seconds"] == 72.612
    assert document["memory_bytes"] == {"estimate": None, "actual": 123_456_789}


# --- runs that were killed ---


def left(work: Store, name: str = "people-one-20261118T023000Z-0123456789ab", **changes: Any) -> str:
    """An outcome as a run of another process, which is no more, has left it."""
    results = {**FAILED, "outcome": "running", "process": {**this_process(), "born": 0.0}}
    path = f"audit/runs/{name}.json"
    work.put_json(path, {**results, **changes})
    return path


@pytest.fixture
def work(tmp_path: Path) -> Store:
    return Store(str(tmp_path / "work"), private=True)


def test_a_run_whose_process_is_gone_is_marked(work: Store) -> None:
    name = left(work)
    mark_untold(work, "people")
    results = work.read_json(name)
    assert (results["outcome"], results["what_to_do"]) == (
        "ended without a word",
        "run it again, and it goes on from there",
    )
    assert results["stages"] == FAILED["stages"]


ELSEWHERE = {"host": f"not-{socket.gethostname()}", "number": 1, "born": 0.0}


@pytest.mark.parametrize(
    "changes",
    [
        {"process": this_process()},
        {"series": "others"},
        {"outcome": "failed"},
        # On another machine, where it has only begun: nobody knows.
        {"process": ELSEWHERE, "started": "2999-01-01T00:00:00Z"},
    ],
    ids=["alive", "of another series", "told", "elsewhere"],
)
def test_other_runs_are_left_alone(work: Store, changes: dict[str, Any]) -> None:
    name = left(work, **changes)
    before = work.read(name)
    mark_untold(work, "people")
    assert work.read(name) == before


def test_a_run_elsewhere_that_was_not_seen_for_long_is_marked(work: Store) -> None:
    name = left(work, process=ELSEWHERE, started="2020-01-01T00:00:00Z")
    mark_untold(work, "people")
    assert work.read_json(name)["outcome"] == "ended without a word"


@pytest.mark.parametrize("damage", [b"", b"{}", b"[1]", b'{"series": "people", "outcome": "running", "process": 1}'])
def test_a_damaged_outcome_is_passed_over(work: Store, damage: bytes) -> None:
    work.put("audit/runs/people-one-20261118T023000Z-ff.json", damage)
    name = left(work, "people-one-20251118T023000Z-ff")
    mark_untold(work, "people")
    assert work.read_json(name)["outcome"] == "ended without a word"


def test_a_private_file_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "told.json"
    path.write_text("others")
    path.chmod(0o644)
    write_private(path, b"{}")
    assert (json.loads(path.read_text()), path.stat().st_mode & 0o777) == ({}, 0o600)
    assert list(tmp_path.iterdir()) == [path]
