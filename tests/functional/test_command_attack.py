"""`microagg attack`: releases that each pass every check, and what they give away together."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from command_line import Ended, call_command

from releasing.runs import released_table, run_stages, start, write_release

QUASI_IDENTIFIERS = ["age", "commute", "rent", "rooms"]
CONFIDENTIAL = ["employer", "income", "hours"]
N = 1200
ROLES = {"quasi_identifiers": QUASI_IDENTIFIERS, "confidential": CONFIDENTIAL}


def people(n: int, seed: int = 1) -> pd.DataFrame:
    """People whom three ordinary columns tell apart."""
    rng = np.random.default_rng(seed)
    public = pd.DataFrame(rng.normal(size=(n, 4)), columns=QUASI_IDENTIFIERS)
    return public.assign(
        employer=rng.integers(0, 300, size=n), income=rng.integers(900, 9000, size=n), hours=rng.integers(0, 60, size=n)
    )


def release(folder: Path, frame: pd.DataFrame, identity: str, **changes: Any) -> str:
    """A release with an output and a work area of its own, and nothing that connects it with any other."""
    spec = {"name": identity, "roles": ROLES, "refine": "fast", **changes}
    # By their confidential values the records of several releases are matched: that is what the attack is about.
    spec["acknowledge"] = dict.fromkeys(("nearly_unique", "jointly_unique"), spec["roles"]["confidential"])
    path = write_release(folder / identity, [pa.Table.from_pandas(frame, preserve_index=False)], **spec)
    run_stages(start(path, identity=identity))
    return str(folder / identity / "output")


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Three nights of 1,200 people, one exchanged each time, as the product makes them when nobody stops it."""
    folder, everybody = tmp_path_factory.mktemp("nights"), people(N + 2)
    return {
        "first": release(folder, everybody.iloc[:N], "first"),
        "second": release(folder, everybody.iloc[1 : N + 1], "second"),
        "third": release(folder, everybody.iloc[2 : N + 2], "third"),
        "again": release(folder, everybody.iloc[:N], "again"),
    }


def attacked(folder: Path, *arguments: str) -> Ended:
    return call_command("attack", *arguments, cwd=folder)


def test_one_record_exchanged_gives_hundreds_away(nights: dict[str, str], tmp_path: Path) -> None:
    """The naive pipeline loses: what is computed of single people is what was never released."""
    solved = tmp_path / "solved.csv"
    ended = attacked(tmp_path, nights["first"], nights["second"], "--json", "--solved", str(solved))
    ended.assert_refused(4, "records away exactly")
    told = ended.document()
    assert told["records_solved"] >= 60 and told["below_k"] >= told["records_solved"]
    assert told["smallest_trace"] == 1 and told["k"] == 3 and told["undecided"] == 0
    pair = told["pairs"][0]
    assert (pair["matched"], pair["only_in_first"], pair["only_in_second"]) == (N - 1, 1, 1)
    assert pair["records_solved"] == told["records_solved"]
    assert stat.S_IMODE(solved.stat().st_mode) == 0o600
    computed = pd.read_csv(solved)
    assert len(computed[computed.release == 1]) >= 0.9 * told["records_solved"]
    truth = people(N + 2).set_index(CONFIDENTIAL)
    for number, night in enumerate(("first", "second"), 1):
        rows = computed[computed.release == number]
        released = released_table(Path(nights[night])).to_pandas().iloc[rows.row - 1]
        names = pd.MultiIndex.from_frame(released[CONFIDENTIAL])
        assert np.allclose(rows[QUASI_IDENTIFIERS], truth.loc[names, QUASI_IDENTIFIERS], atol=1e-6)
        assert not np.isclose(rows[QUASI_IDENTIFIERS], released[QUASI_IDENTIFIERS], atol=1e-6).any(axis=1).all()


def test_three_releases_give_more_away_than_two(nights: dict[str, str], tmp_path: Path) -> None:
    three = attacked(tmp_path, nights["first"], nights["second"], nights["third"], "--json").document()
    assert [(pair["first"], pair["second"]) for pair in three["pairs"]] == [(1, 2), (1, 3), (2, 3)]
    assert three["records_solved"] >= max(pair["records_solved"] for pair in three["pairs"])
    assert three["below_k"] >= max(pair["below_k"] for pair in three["pairs"])


def test_the_same_release_twice_gives_nobody_away(nights: dict[str, str], tmp_path: Path) -> None:
    ended = attacked(tmp_path, nights["first"], nights["again"])
    assert (ended.code, ended.err) == (0, "")
    assert "nobody is given away" in ended.out
    told = attacked(tmp_path, nights["first"], nights["again"], "--json").document()
    assert (told["records_solved"], told["below_k"]) == (0, 0) and told["smallest_trace"] >= 3


def test_the_table_says_what_it_means_and_no_value(nights: dict[str, str], tmp_path: Path) -> None:
    ended = attacked(tmp_path, nights["first"], nights["second"], nights["third"])
    assert ended.code == 4
    assert "1 and 2" in ended.out and "smallest trace" in ended.out and "withdraw all of these but one" in ended.out
    assert f"{N - 1:,}" in ended.out and "employer, income, hours" in ended.out
    frame = people(N + 2)
    values = {f"{value:.4f}" for value in frame[QUASI_IDENTIFIERS].to_numpy().ravel()}
    assert not [word for word in ended.out.split() if word in values]


def test_fewer_columns_tell_fewer_records_apart(nights: dict[str, str], tmp_path: Path) -> None:
    weak = attacked(tmp_path, nights["first"], nights["second"], "--columns", "hours", "--json").document()
    strong = attacked(tmp_path, nights["first"], nights["second"], "--json").document()
    # Groups that are released again are known by their means, whatever else is looked at.
    assert weak["columns"] == ["hours"] and weak["pairs"][0]["matched"] < strong["pairs"][0]["matched"] - 150
    assert weak["records_solved"] < strong["records_solved"]
    wrong = attacked(tmp_path, nights["first"], nights["second"], "--columns", "age")
    wrong.assert_refused(2, "--columns: 'age' is no confidential column that all the releases have")


def test_releases_that_share_nobody_give_nobody_away(tmp_path: Path) -> None:
    everybody = people(120)
    urls = [release(tmp_path, everybody[i::2], f"half-{i}", refine="off") for i in (0, 1)]
    told = attacked(tmp_path, *urls, "--json")
    assert told.code == 0
    assert told.document()["pairs"][0]["matched"] == 0


def test_one_url_is_no_attack(nights: dict[str, str], tmp_path: Path) -> None:
    attacked(tmp_path, nights["first"]).assert_refused(2, "an attack needs two releases or more")


def test_releases_that_cannot_be_compared(nights: dict[str, str], tmp_path: Path) -> None:
    everybody = people(60)
    renamed = everybody.rename(columns={name: f"{name}_2" for name in CONFIDENTIAL})
    other = {"quasi_identifiers": QUASI_IDENTIFIERS, "confidential": list(renamed.columns[4:])}
    stranger = release(tmp_path, renamed, "stranger", roles=other, refine="off")
    attacked(tmp_path, nights["first"], stranger).assert_refused(2, "share no confidential column")
    fewer = {"quasi_identifiers": QUASI_IDENTIFIERS[:2], "confidential": CONFIDENTIAL}
    narrow = release(tmp_path, everybody.drop(columns=QUASI_IDENTIFIERS[2:]), "narrow", roles=fewer, refine="off")
    attacked(tmp_path, nights["first"], narrow).assert_refused(2, "has other quasi-identifiers than")


def test_a_damaged_part_is_told(nights: dict[str, str], tmp_path: Path) -> None:
    url = release(tmp_path, people(60), "small", refine="off")
    part = next(Path(url).rglob("data/part-*"))
    part.write_bytes(part.read_bytes()[:-9] + bytes(9))
    for _ in range(2):
        ended = attacked(tmp_path, nights["first"], url)
        ended.assert_refused(5, part.name, "is missing or not what was published")
        assert ended.out == ""
        part.unlink(missing_ok=True)


def test_no_release_and_a_file_that_is_there(nights: dict[str, str], tmp_path: Path) -> None:
    attacked(tmp_path, nights["first"], "nowhere").assert_refused(5, "there is no release")
    (tmp_path / "mine.csv").write_text("mine")
    ended = attacked(tmp_path, nights["first"], nights["second"], "--solved", "mine.csv")
    ended.assert_refused(2, "mine.csv exists already")
    assert (tmp_path / "mine.csv").read_text() == "mine"


def test_formats_and_widths_are_no_part_of_a_value(nights: dict[str, str], tmp_path: Path) -> None:
    frame = people(N + 2).iloc[1 : N + 1].astype({"employer": "int16", "hours": "int8"})
    output = {"url": "output", "format": "csv"}
    as_csv = release(tmp_path, frame, "as-csv", output=output)
    told = attacked(tmp_path, nights["first"], as_csv, "--json").document()
    assert told["pairs"][0]["matched"] == N - 1 and told["records_solved"] >= 60
    assert json.dumps(told["columns"]) == json.dumps(CONFIDENTIAL)


def test_blocks_are_used_where_their_labels_are_the_same(tmp_path: Path) -> None:
    """Two columns repeat so often that only towns tell people apart; a merged town is told from no other."""
    rng = np.random.default_rng(7)
    everybody = people(601).drop(columns=["income"])
    everybody["town"] = [*rng.choice(["north", "south", "east"], size=598), "west", "west", "north"]
    everybody["employer"], everybody["hours"] = rng.integers(0, 30, size=601), rng.integers(0, 30, size=601)
    roles = {"quasi_identifiers": QUASI_IDENTIFIERS, "blocking": ["town"], "confidential": ["employer", "hours"]}
    changes = {"roles": roles, "blocks": {"undersized": "merge"}}
    urls = [release(tmp_path, everybody.iloc[i : 600 + i], f"night-{i}", **changes) for i in (0, 1)]
    labels = set(released_table(Path(urls[0])).column("town").to_pylist())
    assert any("|" in label for label in labels)
    told = attacked(tmp_path, *urls, "--json").document()
    without = everybody.groupby(["employer", "hours"]).size()
    assert told["pairs"][0]["matched"] > int((without == 1).sum())
    computed = attacked(tmp_path, *urls, "--solved", "solved.csv")
    assert computed.code == 4
    solved = pd.read_csv(tmp_path / "solved.csv")
    truth = everybody.iloc[:600][QUASI_IDENTIFIERS].to_numpy()
    near = [
        np.abs(truth - values).max(axis=1).min() for values in solved[solved.release == 1][QUASI_IDENTIFIERS].to_numpy()
    ]
    assert near and np.mean(np.array(near) < 1e-6) > 0.9
