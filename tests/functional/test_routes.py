"""Every route that a README describes, walked to its end by the command, before an outsider who reads every file.

A route is a line of :data:`ROUTES`; the words of its script are the methods of ``seasons/walk.py``. What has to hold is
the same for all. By all files that can be read, named by a manifest or not: k people share every history, nobody's
quasi-identifiers follow, nobody who was erased stands in one, and nothing lies there that no manifest names. Values are
those of the input, and the counts that commands tell are those of the files.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from _pytest.mark import ParameterSet

from covering import cover
from seasons.population import Population
from seasons.walk import Walk

WITHHOLD: dict[str, Any] = {"mode": "atoms", "leavers": "withhold"}
GHOSTS: dict[str, Any] = {"mode": "atoms", "leavers": "ghosts"}
DECOYS: dict[str, Any] = {"mode": "atoms", "leavers": "decoys"}
DISJOINT: dict[str, Any] = {"mode": "disjoint"}
ROTATION: dict[str, Any] = {"mode": "rotation", "leavers": "ghosts", "nights": 3}
INDEPENDENT: dict[str, Any] = {"mode": "independent", "acknowledge": "overlapping_releases"}
CHANGES = {"guarantee": "trace+changes"}
HOLD = {"hold": {"until": "6k", "days": 2}}


@dataclass(frozen=True)
class Route:
    """A way through a README: the series, and what happens on it."""

    name: str
    series: dict[str, Any] | None
    script: str
    spec: dict[str, Any] = field(default_factory=dict)
    people: int = 150
    family: str = "text"
    through_process: bool = False


_TWO = "night; night come=20 leave=4 move=8"
#: Before which objects a run and an erasure die.
_RUN_DIES = {"its files": "/data/part-00000", "its pages": "/pages/", "the ledger": "generations/",
             "the manifest": "manifest.json", "latest.json": "latest.json", "its mark": "published/"}  # fmt: skip
_ERASURE_DIES = {"its files": "/data/part-00000", "the ledger": "generations/", "the manifest": "manifest.json",
                 "latest.json": "latest.json", "tombstones": "withdrawn.json", "removals": "['2026"}  # fmt: skip
_THEN = "night come=20 leave=3; forget 2; night come=20; end"

# fmt: off
ROUTES = (
    # microagg_core/series/README.md: modes, leavers, hold
    Route("disjoint", DISJOINT, f"{_TWO}; {_THEN}"),
    Route("withhold", WITHHOLD, f"{_TWO}; night back=2; {_THEN}"),
    Route("ghosts", GHOSTS, f"{_TWO}; night back=2; {_THEN}"),
    Route("decoys", DECOYS, f"{_TWO}; night back=2; {_THEN}"),
    Route("rotation", ROTATION, f"{_TWO}; night come=20; {_THEN}"),
    Route("independent", INDEPENDENT, f"{_TWO}; {_THEN}"),
    Route("ghosts among people who move", GHOSTS, "night; night leave=12 move=500; night come=20 move=500; end"),
    Route("ghosts among some who move", GHOSTS, "night; night leave=12 move=70; night come=20 move=70; end"),
    Route("ghosts, and changes", {**GHOSTS, **CHANGES}, "night; night leave=9 move=500; night come=20 move=60; end"),
    Route("withhold, and changes", {**WITHHOLD, **CHANGES}, "night; night leave=5 move=500; night move=60; end"),
    Route("ghosts vanish together", GHOSTS, "night; night leave=70 come=20; night leave=70 come=20; end"),
    Route("hold", {**GHOSTS, **HOLD}, "night; night come=8; night come=4; night come=3; night; end"),
    Route("hold, disjoint", {**DISJOINT, **HOLD}, "night; night come=8; night come=4; night come=20; end"),
    # Every night
    Route("missed", GHOSTS, "night; missed; missed; night come=20 leave=2; end"),
    Route("filled in later", GHOSTS, "night; missed; night come=20; fill_in; night come=20; forget 1; end"),
    Route("replace", GHOSTS, "night; replace; night come=20; replace; forget 1; night come=20; end"),
    Route("late corrections", WITHHOLD, "night; night move=90; replace move=60; end"),
    *(Route(f"labels {labels}, nobody comes", GHOSTS, "night; night leave=2; night; forget 1; night come=20; end",
            {"blocks": {"labels": labels, "undersized": "merge"}}) for labels in ("list", "star", "parent")),
    *(Route(f"k rises, {series.get('leavers', series['mode'])}", series, f"night; night come=20; raise_k 5; {_THEN}")
      for series in (WITHHOLD, GHOSTS, DECOYS, DISJOINT)),
    # Without series:
    Route("a first release becomes night 0", None, f"night; refuse 4; adopt; {_THEN}"),
    Route("a first release becomes night 0, disjoint", None, f"night; adopt disjoint; {_THEN}"),
    Route("other people without a series", None, "night; others_only; night; run; refuse 4; end"),
    # The ledger: runs that die, copies that are old or not whole, rebuilding
    *(Route(f"a run dies before {name}, the next night comes", GHOSTS, f"night; die before={before}; {_THEN}")
      for name, before in _RUN_DIES.items()),
    *(Route(f"a run dies before {name}, and again", WITHHOLD, f"night; die before={before}; run; night leave=3; end")
      for name, before in _RUN_DIES.items()),
    Route("the first run dies", GHOSTS, "die before=manifest.json; night come=20; night come=20; end"),
    Route("files of a dead run are told", GHOSTS, "night; die before=generations/; strays_are_told; clean; night; end"),
    Route("a dead run, then an erasure", GHOSTS, "night; die before=generations/ come=0; forget 2; night come=20; end"),
    Route("killed for good", GHOSTS, "night; die last=60; night come=20 leave=3; forget 1; end", through_process=True),
    Route("the ledger is an old copy", GHOSTS, "night; night come=20; keep_ledger; night come=20; put_back_ledger; "
          "refuse 4 5; put_back_newer_ledger; night; end"),
    Route("the newest generation is gone", GHOSTS, f"{_TWO}; lose_newest_generation; refuse 4 5"),
    Route("rebuild", GHOSTS, f"{_TWO}; rebuild generations/00001.json; {_THEN}"),
    Route("rebuild of all", DISJOINT, f"{_TWO}; rebuild generations/00000.json; {_THEN}"),
    Route("marks are lost", GHOSTS, f"{_TWO}; lose_marks; {_THEN}"),
    # Erasure
    Route("erase who is gone", WITHHOLD, "night; night come=20 leave=6; forget 2 gone; night come=20; end"),
    Route("erase ghosts", GHOSTS, "night; night come=20 leave=6; forget 2 ghosts; night come=20; end"),
    Route("erase who waits", {**GHOSTS, **HOLD}, "night; night come=6; forget 2 waiting; night come=20; end"),
    *(Route(f"an erasure dies before {name}", GHOSTS, f"{_TWO}; forget 2 before={before}; "
            + ("night come=20; finish same" if n < 2 else "refuse 4 5; finish") + "; night come=20; end")
      for n, (name, before) in enumerate(_ERASURE_DIES.items())),
    Route("erased twice", WITHHOLD, f"{_TWO}; forget 2; {_THEN}"),
    # deploy/README.md, flows/README.md, releases/README.md, formats/README.md
    Route("backfill", GHOSTS, "night; backfill 3; night come=20; end"),
    Route("backfill dies", GHOSTS, "night; backfill 3 last=150; backfill_again 3; night come=20; end"),
    Route("step by step", GHOSTS, "night; step_by_step; night come=20; forget 1; end"),
    Route("signed", GHOSTS, "signed; night; verify_signature; night come=20; forget 1; verify_signature; end"),
    Route("signed afterwards", GHOSTS, f"{_TWO}; sign; end"),
    *(Route(form, GHOSTS, f"{_TWO}; {_THEN}", {"output": {"url": "release", "format": form}})
      for form in ("csv", "arrow")),
    # Identity
    Route("ids in other letters", GHOSTS, "night; ids_as 1; night come=20; ids_as 2; night leave=2; forget 1; end"),
    Route("ids in other characters", WITHHOLD, "night; ids_as 3; night come=20; ids_as 4; night; forget 1; end"),
    Route("ids as other numbers", GHOSTS, "night; ids_as 1; night come=20; ids_as 2; night; ids_as 3; forget 1; end",
          family="number"),
    Route("other ids without a series", None, "night; ids_as 1; refuse 4 come=0 leave=0; end", family="number"),
)
# fmt: on

_MODES = {"disjoint": "", "atoms": "ghosts", "rotation": "ghosts", "independent": ""}


def walked(route: Route, folder: Path) -> list[str]:
    people = Population(route.people, seed=1, is_real=True, family=route.family)
    series = None if route.series is None else dict(route.series)
    return Walk(folder, people, series, spec=dict(route.spec), through_process=route.through_process).walk(route.script)


#: The others are walked by `pytest --soak`: a route takes three seconds.
IN_THE_SUITE = frozenset({
    "disjoint", "ghosts", "decoys", "rotation", "independent", "csv", "withhold, and changes", "hold",
    "filled in later", "replace", "k rises, ghosts", "a first release becomes night 0",
    "a run dies before the manifest, and again", "a dead run, then an erasure", "rebuild", "erase who waits",
    "an erasure dies before tombstones", "erased twice", "signed", "step by step",
    "ids as other numbers",
})  # fmt: skip


def marked(route: Route) -> ParameterSet:
    soak = () if route.name in IN_THE_SUITE else (pytest.mark.soak("one of sixty routes"),)
    return pytest.param(route, id=route.name, marks=soak)


@pytest.mark.parametrize("route", list(map(marked, ROUTES)))
def test_a_route_to_its_end(route: Route, tmp_path: Path) -> None:
    assert walked(route, tmp_path) == []


@pytest.mark.parametrize(("before", "after"), cover(_MODES, _MODES))
def test_a_change_of_mode_is_right_or_refused(before: str, after: str, tmp_path: Path) -> None:
    script = f"mode {before} {_MODES[before]} nights=9; night; night come=20 leave=2; "
    script += f"mode {after} {_MODES[after]} nights=9; night_or_refuse; "
    script += f"same_mode_again {before} {_MODES[before]}; forget 1; night come=20; end"
    route = Route("", dict(DISJOINT), script)
    assert walked(route, tmp_path) == []


def test_the_outsider_shares_nothing_with_the_product() -> None:
    folder = Path(__file__).parents[1]
    for name in ("readable", "histories", "outsider", "population"):
        tree = ast.parse((folder / "seasons" / f"{name}.py").read_text())
        imported = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
        imported += [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
        assert not [module for module in imported if module.startswith("microagg")], name


def test_the_outsider_sees_what_is_wrong(tmp_path: Path) -> None:
    """Of a sound series he says nothing; of files that lie there besides, and of groups that overlap, he does."""
    walk = Walk(tmp_path, Population(60, seed=2, is_real=True), dict(WITHHOLD))
    assert walk.walk("night; night come=10; end") == []

    def seen(script: str) -> str:
        walk.wrong.clear()
        return "\n".join(walk.walk(script))

    part = next((tmp_path / "release").glob("*/r0001/data/*.parquet"))
    copy = part.with_name("a copy.parquet")  # by a name that no run writes
    copy.write_bytes(part.read_bytes())
    assert "(u) 1 objects" in seen("end")
    copy.unlink()
    walk.outsider.forgotten = {walk.people.here[0]}
    assert "(v) 1 of 1" in seen("end")
    walk.outsider.forgotten = set()
    promise = walk.outsider.promise
    seen("mode independent; pass_day leave=1")
    walk.folder.joinpath("work", "series").rename(tmp_path / "lost")
    seen("night")
    walk.outsider.promise = promise
    assert walk.outsider.n_below() > 0 and walk.outsider.n_solved() > 0
