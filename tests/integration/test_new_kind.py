"""A new kind of quasi-identifier is one file in the folder of kinds, and no other line: everything else asks the kind.

Lengths of stay stand for kinds that have a mean, Arrow's durations, which no kind takes; and times of the day for those
without.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from inputs.added_modules import AddModule
from microagg_core import microaggregate
from microagg_core.data.kinds.registry import kind_of
from microagg_core.errors import DataError, SpecError
from microagg_core.inspect.checks.groups import Sharing, outside_ranges
from microagg_core.release.steps.confidential import numbers_of
from microagg_core.spec.columns import Column
from microagg_flows.release import Release
from releasing.runs import released_table, run_stages, start, write_release

N = 120
NAMES = ["stay", "age"]


DURATIONS = """
    from dataclasses import dataclass
    import pyarrow as pa
    from microagg_core.data.kinds.contract import Unit
    from microagg_core.data.kinds.exact import ExactKind

    @dataclass(frozen=True)
    class DurationKind(ExactKind):
        @classmethod
        def takes(cls, arrow_type, declared):
            return pa.types.is_duration(arrow_type)

        @property
        def whole_type(self):
            return pa.int64()

        @property
        def unit(self):
            return Unit("hours", 3600.0)
"""

#: Of each group the most frequent time of the day; what times there are is known when all of them were read.
TIMES = """
    from dataclasses import dataclass, replace
    import numpy as np, pyarrow as pa, pyarrow.compute as pc
    from microagg_core.data.kinds.contract import EXAMPLES, Claim, Kind, Unit
    from microagg_core.group.metrics.moments import moments_of, offsets_from

    @dataclass(frozen=True)
    class TimeKind(Kind):
        times: tuple = ()
        claims = frozenset(CLAIMS)
        needs_all_values = True
        NO_TRAITS = {}
        released_type = property(lambda self: self.source_type)
        applied_rule = property(lambda self: "type")
        unit = property(lambda self: Unit("times", 1.0))
        takes = classmethod(lambda cls, arrow_type, declared: pa.types.is_time32(arrow_type))

        def refuse_rule(self):
            pass

        def rounding_in_words(self):
            return f"{self.name!r}: the most frequent time"

        def more_traits(self, traits, column, ticks):
            counts = pc.value_counts(pc.cast(column, pa.int32())).to_pylist()
            added = {str(pair["values"]): pair["counts"] for pair in counts if pair["values"] is not None}
            return {time: traits.get(time, 0) + added.get(time, 0) for time in {**traits, **added}}

        def all_traits(self, parts):
            parts = list(parts)
            return {time: sum(part.get(time, 0) for part in parts) for time in sorted(set().union(*parts))}

        def for_input(self, traits, moments):
            return replace(self, times=tuple(sorted(map(int, traits))))

        def input_moments(self, traits, moments):
            return moments_of(np.repeat(np.arange(len(traits)), [traits[time] for time in sorted(traits, key=int)]))

        def _ticks_of(self, array):
            times = pc.index_in(pc.cast(array, pa.int32()), pa.array(self.times, pa.int32()))
            return np.asarray(pc.fill_null(times, 0)).astype(np.int64)

        def representatives(self, ticks, groups):
            ends = np.cumsum(groups.sizes)[:-1]
            return np.array([np.bincount(of).argmax() for of in np.split(ticks[groups.order], ends)])

        def released_offsets(self, ticks, origin):
            return offsets_from(ticks, origin)

        def to_arrow(self, ticks, missing=None):
            return pa.array(self.times, pa.int32()).take(pa.array(ticks, mask=missing)).cast(self.source_type)

        def examples(self):
            return pa.array(EXAMPLES, pa.int32()).cast(self.source_type)

        def fits(self, before, after, groups):
            of, after = np.repeat(np.arange(len(groups.sizes)), groups.sizes), after[groups.order]
            inside = np.isin(after + 10**6 * of, before[groups.order] + 10**6 * of)
            return inside

        def keeps_mean(self, before, after):
            return True

        def shown(self, tick):
            return str(self.times[round(tick)])

        def plain_numbers(self, ticks, origin):
            return offsets_from(ticks, origin)
"""
KINDS = "microagg_core.data.kinds"


@pytest.fixture
def durations(add_module: AddModule) -> None:
    add_module(KINDS, "durations", DURATIONS)


def stays() -> pa.Table:
    """Patients with their lengths of stay, some of them unknown; several have the same."""
    rng = np.random.default_rng(4)
    seconds = pa.array(rng.integers(0, 40, N) * 7001, mask=rng.random(N) < 0.2)
    return pa.table(
        {
            "stay": seconds.cast(pa.duration("s")),
            "age": rng.integers(20, 70, N),
            "record": [f"r{i % 6}" for i in range(N)],
            "at": pa.array([i % 6 for i in range(N)], pa.int32()).cast(pa.time32("ms")),
        }
    )


def release_of(folder: Path, tables: list[pa.Table], **changes: object) -> Release:
    roles = {"quasi_identifiers": NAMES, "confidential": ["record"], "drop": ["at"]}
    return run_stages(start(write_release(folder, tables, **{"roles": roles, "missing": "separate", **changes})))


def seconds_of(table: pa.Table) -> pa.ChunkedArray:
    return table["stay"].cast(pa.int64())


@pytest.mark.usefixtures("durations")
def test_a_column_of_a_new_kind_is_released_in_its_type(tmp_path: Path) -> None:
    table = stays()
    release = release_of(tmp_path, [table.slice(0, 70), table.slice(70)])
    released = released_table(tmp_path / "output")
    assert released["stay"].type == pa.duration("s")
    assert released["stay"].null_count == table["stay"].null_count
    sizes = released.group_by(NAMES).aggregate([([], "count_all")])["count_all"].to_pylist()
    assert min(sizes) >= 3
    in_order = seconds_of(released).fill_null(2**62).to_pylist()
    assert in_order == sorted(in_order)
    before, after = (seconds_of(of).drop_null().to_numpy() for of in (table, released))
    assert after.mean() == pytest.approx(before.mean(), abs=0.5)
    assert release.measured is not None and release.measured.figures.attributes is not None
    figures = release.measured.figures.attributes["stay"]
    assert figures.unit == "hours"
    assert figures.mean == pytest.approx(after.mean() / 3600, rel=1e-5)
    assert figures.variance == pytest.approx(after.var() / 3600**2, rel=1e-5)


@pytest.mark.usefixtures("durations")
def test_a_step_of_its_own_ticks_is_kept_and_a_part_of_one_is_refused(tmp_path: Path) -> None:
    release_of(tmp_path / "hours", [stays()], rounding={"stay": 3600})
    seconds = seconds_of(released_table(tmp_path / "hours" / "output")).drop_null().to_numpy()
    assert (seconds % 3600 == 0).all()
    with pytest.raises(SpecError, match=r"rounding\.stay: must be a whole number of steps of duration\[s\]"):
        release_of(tmp_path / "half", [stays()], rounding={"stay": 0.5})
    with pytest.raises(SpecError, match=r"rounding\.stay: a column of type duration\[s\] is always released in"):
        release_of(tmp_path / "none", [stays()], rounding={"stay": "none"})


@pytest.mark.usefixtures("durations")
def test_the_gate_holds_it_against_its_group() -> None:
    kind = kind_of("stay", pa.duration("s"))
    came, released = (pa.chunked_array([pa.array(of, pa.duration("s"))]) for of in ([5, 7, 9, 9], [6, 6, 9, 8]))
    assert outside_ranges(kind, came, released, Sharing(np.array([1, 1, 2, 2], dtype=np.uint64))) == 1


@pytest.mark.usefixtures("durations")
def test_the_python_functions_know_it() -> None:
    frame = pd.DataFrame({"stay": pd.to_timedelta([1, 2, 3, 70, 71, 75], unit="s"), "age": [1.0, 1, 1, 9, 9, 9]})
    result = microaggregate(frame, NAMES, 3, "mdav")
    assert (result.data["stay"] / pd.Timedelta(seconds=1)).tolist() == [2, 2, 2, 72, 72, 72]
    assert result.data["stay"].dtype == frame["stay"].dtype


def test_without_its_file_the_type_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=r"quasi-identifier 'stay' has the type duration\[s\], which is neither a number"
    ):
        release_of(tmp_path, [stays()])


@pytest.mark.parametrize(
    ("claims", "change", "why"),
    [
        (
            "{Claim.VALUE_OF_GROUP, Claim.MEAN_KEPT}",
            (),
            r"claims that means are kept, which examples of time32\[ms\] contradict",
        ),
        ("{Claim.VALUE_OF_GROUP}", ("argmax()", "argmin()"), "refuses in the gate what it released"),
        ("set()", ("= np.isin(", "= np.issubdtype("), r"fails on examples of time32\[ms\]"),
        ("set()", ("return inside", "return after >= 0"), "lets the gate pass values that are far from their group"),
    ],
)
def test_a_kind_that_does_not_keep_what_it_claims_is_refused_before_anything_is_made(
    tmp_path: Path, add_module: AddModule, claims: str, change: tuple[str, str] | tuple[()], why: str
) -> None:
    text = TIMES.replace("CLAIMS", claims)
    add_module(KINDS, "times", text.replace(*change) if change else text)
    with pytest.raises(SpecError, match=f"column 'at': its kind TimeKind {why}"):
        release_of(tmp_path, [stays()], roles={"quasi_identifiers": ["at", "age"], "drop": ["stay", "record"]})
    assert not (tmp_path / "output").exists()


def test_a_kind_without_a_mean_is_released_and_nothing_is_said_of_its_mean(
    tmp_path: Path, add_module: AddModule
) -> None:
    add_module(KINDS, "times", TIMES.replace("CLAIMS", "{Claim.VALUE_OF_GROUP, Claim.WITHIN_RANGE}"))
    table = stays()
    release_of(
        tmp_path,
        [table.slice(0, 70), table.slice(70)],
        roles={"quasi_identifiers": ["at", "age"], "drop": ["stay", "record"]},
        analyses=["age ~ at"],
    )
    released = released_table(tmp_path / "output")
    sizes = released.group_by(["at", "age"]).aggregate([([], "count_all")])["count_all"].to_pylist()
    assert min(sizes) >= 3 and {*released["at"].to_pylist()} <= {*table["at"].to_pylist()}
    (folder,) = (tmp_path / "output").glob("*/r0001")
    manifest = json.loads((folder / "manifest.json").read_text())
    claims = {column["name"]: column.get("claims") for column in manifest["columns"]}
    assert claims == {"at": ["a value of the group", "within range"], "age": None}
    said = {check["name"]: check["detail"] for check in manifest["checks"] if check["passed"]}
    assert said["means"] == "the mean of every quasi-identifier that has one is kept"
    page = (folder / "README.md").read_text()
    assert "Counts, sums and means of `age` over all records" in page
    assert "means of `at`" not in page and "mean of its group" in page and "one value for its group" in page
    audit = next((tmp_path / "work" / "audit").glob("*/r0001"))
    portrait = json.loads((audit / "portrait.json").read_text())["portrait"]
    assert [shown["column"] for shown in portrait["distributions"]] == portrait["correlations"]["columns"] == ["age"]
    assert portrait["pairs"] == [] and portrait["left_out"] == ["'at' is in no picture, as it has no mean"]
    (model,) = portrait["regressions"]
    assert model["bases"] == ["at=00:00:00.000"] and model["terms"][1:] == [f"at=00:00:00.00{i}" for i in range(1, 6)]
    shares = json.loads((audit / "risk.json").read_text())["intervals"]["rank"]["percent"]["10"]["columns"]
    assert shares["at"] is None and shares["age"] > 0


def test_the_python_functions_mask_what_has_no_mean(add_module: AddModule) -> None:
    add_module(KINDS, "times", TIMES.replace("CLAIMS", "{Claim.VALUE_OF_GROUP}"))
    at = pa.array([4, 4, 5, 70, 70, 71], pa.int32()).cast(pa.time32("ms"))
    masked = microaggregate(pa.table({"at": at, "age": [1.0, 1, 1, 9, 9, 9]}), ["at", "age"], 3, "mdav").data
    assert masked["at"].cast(pa.int32()).to_pylist() == [4] * 3 + [70] * 3


def test_confidential_texts_stay_numbers_for_what_they_may_disclose() -> None:
    texts = pa.chunked_array([["7.5", "2026-11-18", "a", None]])
    read = numbers_of(Column("income", pa.string(), "confidential"), texts)
    assert read.tolist()[:2] == [7.5, 20261118] and np.isnan(read[2:]).all()
