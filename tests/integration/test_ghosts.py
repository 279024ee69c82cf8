"""Who left and stays in the files (leavers: ghosts), before an intruder who has all of them and shares no code."""

from __future__ import annotations

import datetime
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from microagg_core.series.eraser import forget
from microagg_core.series.ledger import ledger_of
from microagg_core.series.verification import verify_ledger
from microagg_core.spec.loading import load_spec
from releasing.runs import NOW, run_stages, start, write_release

ROLES = {"identifiers": ["id"], "quasi_identifiers": ["x", "y"], "confidential": ["tag", "income", "visits"]}
KEYS = ["x", "y"]


@dataclass
class Town:
    """People of whom everybody has another income every night, and every other person another count of visits."""

    folder: Path
    series: dict[str, Any]
    k: int
    n: int
    seed: int = 5
    here: set[int] = field(default_factory=set)
    #: Of each night: who was in the input, and the file that was published.
    present: list[set[int]] = field(default_factory=list)
    files: list[pd.DataFrame] = field(default_factory=list)
    manifests: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.draw = np.random.default_rng(self.seed)
        # Few places: groups of one place have equal means, so that atoms are large enough to part.
        self.places = np.random.default_rng(self.seed + 1).integers(0, 5, (10_000, 2)).astype(float)
        self.visits = self.draw.integers(0, 9, 10_000)
        self.here = self.here or set(range(self.n))

    def night(self) -> pd.DataFrame:
        """Release whoever is here, and read what was published as anybody reads it."""
        self.visits = self.visits + (self.draw.random(10_000) < 0.5)
        who = np.array(sorted(self.here))
        income = self.draw.random(len(who))
        columns = {"id": who, "x": self.places[who, 0], "y": self.places[who, 1], "tag": who}
        table = pa.table({**columns, "income": income, "visits": self.visits[who]})
        number = len(self.files)
        (self.folder / "key").write_text("the key of a town's series")
        (self.folder / "key").chmod(0o600)
        self.path = write_release(
            self.folder, [table], k=self.k, roles=ROLES, unit=["id"], refine="off", cluster="none",
            series={"mode": "atoms", "key_file": "key", **self.series},
            acknowledge=dict.fromkeys(["nearly_unique", "fixes_quasi_identifier"], ROLES["confidential"]),
        )  # fmt: skip
        run_stages(start(self.path, identity=f"day-{number}", now=NOW + datetime.timedelta(days=number)))
        return self.keep(f"day-{number}/r0001")

    def keep(self, release: str) -> pd.DataFrame:
        """Read a release and remember it, and who was in the newest input."""
        folder = self.folder / "output" / release
        self.manifests.append(json.loads((folder / "manifest.json").read_text()))
        parts = [pd.read_parquet(folder / part["name"]) for part in self.manifests[-1]["parts"]]
        self.files.append(pd.concat(parts).set_index("tag").sort_index())
        self.present.append(set(self.here))
        return self.files[-1]

    def page(self) -> str:
        """What readers of the newest release are told, in one line."""
        return " ".join((self.folder / "output" / self.manifests[-1]["id"] / "r0001/README.md").read_text().split())

    def ghosts(self, night: int) -> set[int]:
        """Whose rows are in a file without being in its input."""
        return set(self.files[night].index) - self.present[night]

    def pass_a_day(self, leaving: int, coming: int) -> None:
        """Some leave, some of those who left are back, and others come for the first time."""
        ever = set().union(*self.present)
        gone = sorted(ever - self.here)
        back = self.draw.choice(gone, len(gone) // 3, replace=False) if gone else []
        self.here -= set(self.draw.choice(sorted(self.here), leaving, replace=False).tolist())
        first = max(ever) + 1
        self.here |= {int(one) for one in back} | set(range(first, first + coming))


def candidates(town: Town) -> dict[int, set[int]]:
    """For everybody, the rows that can be his: the intruder knows his group, and the nights on which he was there.

    Rows are followed from file to file by their tag, which is the best that an intruder can have. Where some of a group
    vanish, those are the ones who are not there; where some of it have another income, those are the ones who are.
    """
    since = pd.concat(town.files).groupby(level=0).size().rename("n").to_frame()
    since["first"] = [next(i for i, of in enumerate(town.files) if tag in of.index) for tag in since.index]
    possible: dict[int, set[int]] = {}
    for night, now in enumerate(town.files):
        groups = now.join(since).groupby([*KEYS, "first"])
        for _, group in groups:
            for tag in group.index.difference(list(possible)):
                possible[tag] = set(group.index)
        if not night:
            continue
        before = town.files[night - 1].join(since)
        for _, group in before.groupby([*KEYS, "first"]):
            stay = group.index.intersection(now.index)
            moved = set(stay[group.loc[stay, "income"].to_numpy() != now.loc[stay, "income"].to_numpy()])
            vanished = set(group.index) - set(stay)
            for tag in group.index:
                is_there = tag in town.present[night]
                if vanished and len(stay):
                    possible[tag] &= set(stay) if is_there else vanished
                if moved and (is_there or not vanished):
                    possible[tag] &= moved if is_there else set(stay) - moved
    assert all(tag in of for tag, of in possible.items()), "the intruder is right about everybody"
    return possible


def is_right(town: Town) -> None:
    """Nobody is one of fewer than k, nobody changes beside a ghost, and the ledger is sound."""
    assert min(map(len, candidates(town).values())) >= town.k
    for night in range(1, len(town.files)):
        before, now = town.files[night - 1], town.files[night]
        haunted = now.loc[sorted(town.ghosts(night)), KEYS].drop_duplicates()
        beside = now.reset_index().merge(haunted, on=KEYS).set_index("tag").sort_index()
        again = beside.loc[beside.index.intersection(before.index), before.columns]
        pd.testing.assert_frame_equal(again, before.loc[again.index])
    assert [check for check in verify_ledger(ledger_of(load_spec(str(town.path)))) if not check.passed] == []


@pytest.mark.parametrize(
    ("k", "n", "series"),
    [
        (3, 180, {"guarantee": "trace"}),
        (3, 180, {"guarantee": "trace+changes", "mode": "rotation", "nights": 4}),
        pytest.param(5, 400, {"guarantee": "trace+changes"}, marks=pytest.mark.soak("more of the same")),
    ],
    ids=["trace", "rotation and changes", "changes"],
)
def test_nobody_who_left_stands_out(k: int, n: int, series: dict[str, Any], tmp_path: Path) -> None:
    """Incomes move every night; whoever left, came back as a ghost, or vanished with others is one of k."""
    town = Town(tmp_path, {"leavers": "ghosts", **series}, k, n)
    town.night()
    for _ in range(5):
        town.pass_a_day(n // 14, n // 20)
        town.night()
    left = {tag for night, there in enumerate(town.present) for tag in set().union(*town.present[:night]) - there}
    possible = candidates(town)
    sizes = {tag: len(possible[tag]) for tag in left & possible.keys()}
    alone, told_apart = (sum(size < least for size in sizes.values()) for least in (2, k))
    assert len(sizes) > 40 and (alone, told_apart) == (0, 0)
    is_right(town)
    back = [town.ghosts(night - 1) & town.present[night] for night in range(1, 6)]
    parted = [tag for night in range(1, 6) for tag in town.ghosts(night - 1) - set(town.files[night].index)]
    assert sum(map(len, back)) > 10 and len(parted) >= k, "some came back as ghosts, and some vanished together"


def test_what_is_told_of_those_who_left(tmp_path: Path) -> None:
    """Their number, where it is k or more and k away from each that was told; that they may be there, every night."""
    town = Town(tmp_path, {"leavers": "ghosts"}, 3, 90)
    town.night()
    assert "ghosts" not in town.manifests[0]["series"] and "left the source" not in town.page()
    told: list[int] = []
    for leaving in (1, 5, 0, 1, 4):
        town.here -= set(sorted(town.here)[:: 90 // 11][:leaving])
        town.night()
        n = len(town.ghosts(-1))
        may_be = n >= 3 and all(abs(n - other) >= 3 for other in told)
        assert town.manifests[-1]["series"]["ghosts"] == (n if may_be else "not told")
        words = f"{n} records are of people or firms" if may_be else "Records may be of people or firms"
        assert f"{words} that have left the source" in town.page()
        told += [n] if may_be else []
    assert told == [6, 11]


def test_what_was_withheld_comes_back_as_it_was(tmp_path: Path) -> None:
    """A series that withheld the groups of leavers, and then keeps ghosts instead."""
    town = Town(tmp_path, {"leavers": "withhold"}, 3, 60)
    first = town.night()
    town.here -= {0, 1}
    missing = first.index.difference(town.night().index)
    town.series = {"leavers": "ghosts"}
    town.night()
    assert {0, 1} == town.ghosts(2) < set(missing)
    pd.testing.assert_frame_equal(town.files[2].loc[missing], first.loc[missing])
    assert (town.files[2].income != first.income)[first.index.difference(missing)].all()


def test_an_erasure_among_ghosts(tmp_path: Path) -> None:
    """A ghost is forgotten: his whole group vanishes, and those beside other ghosts still stand as they were."""
    town = Town(tmp_path, {"leavers": "ghosts"}, 3, 120)
    town.night()
    town.pass_a_day(12, 10)
    town.night()
    forgotten = min(town.ghosts(1))
    units = tmp_path / "units.csv"
    units.write_text(f"id\n{forgotten}\n")
    assert forget(str(town.path), str(units), True, NOW).done
    town.keep("day-1/r0002")
    assert town.manifests[-1]["series"]["ghosts"] == "not told"
    town.pass_a_day(6, 5)
    town.night()
    assert forgotten not in town.files[3].index and town.ghosts(3)
    is_right(town)
