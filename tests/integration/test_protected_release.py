"""Whole releases with demands beyond k: what files show, what the gate stops, and what a manifest promises."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from microagg_core.data.tables.slices import read_slice, to_bytes
from microagg_core.errors import DataError, GateError
from microagg_core.inspect.distributions import Distribution, distributions_in, table_of
from microagg_core.inspect.protect.groups import BlockDemands
from microagg_core.release.demands import Demands
from microagg_core.release.manifest import Manifest, ProtectEntry
from microagg_core.release.steps import demands
from microagg_core.release.steps.demands import DISTRIBUTIONS
from microagg_core.release.verify import verify
from microagg_flows.release import Release
from microagg_flows.stages import validate
from releasing.runs import data_digests, forge, released_table, run_stages, start, write_release

ROLES = {
    "quasi_identifiers": ["age", "area", "rent", "commute"],
    "blocking": ["region"],
    "confidential": ["diagnosis", "income"],
}


def patients(n: int, seed: int = 0) -> pa.Table:
    """Four attributes, a diagnosis that is mostly none, and an income that goes with the rent."""
    draw = np.random.default_rng(seed)
    rent = draw.lognormal(6, 0.4, n)
    return pa.table(
        {
            "age": draw.integers(18, 95, n),
            "area": draw.integers(20, 200, n),
            "rent": np.rint(rent),
            "commute": draw.integers(0, 120, n),
            "region": draw.choice(["north", "south"], n),
            "diagnosis": draw.choice(["none", "flu", "hiv", "cancer"], n, p=[0.7, 0.2, 0.02, 0.08]),
            "income": np.rint((30 * rent + draw.normal(0, 6000, n)) / 500).astype(np.int64) * 500,
        }
    )


def made(folder: Path, table: pa.Table, parts: int = 1, **changes: Any) -> Release:
    cut = -(-table.num_rows // parts)
    tables = [table.slice(i * cut, cut) for i in range(parts)]
    return run_stages(start(write_release(folder, tables, **{"roles": ROLES, **changes})))


def manifest_of(release: Release) -> Manifest:
    assert release.published is not None
    return release.published.manifest


def by_combination(output: Path) -> Any:
    return released_table(output).to_pandas().groupby(["region", *ROLES["quasi_identifiers"]])


def certain_of(output: Path, column: str) -> float:
    """The attacker's way: he knows all quasi-identifiers, and so the combination; of how many is the value certain?"""
    groups = by_combination(output)[column]
    distinct, sizes = groups.nunique(), groups.size()
    return float(sizes[distinct == 1].sum() / sizes.sum())


def farthest(output: Path, column: str) -> float:
    """The earth mover's distance of the farthest combination, as its definition has it."""
    frame = released_table(output).to_pandas()
    values = np.sort(frame[column].unique())
    whole = frame[column].value_counts().reindex(values, fill_value=0).cumsum() / len(frame)
    distances = []
    for _, group in by_combination(output):
        own = group[column].value_counts().reindex(values, fill_value=0).cumsum() / len(group)
        distances.append(float((whole - own).abs().sum() / (len(values) - 1)))
    return max(distances)


def test_the_attack_of_homogeneous_groups_succeeds_without_and_fails_with_distinct_values(tmp_path: Path) -> None:
    """A third of these people's diagnoses follows from k=3 alone, and none where two values are demanded."""
    table = patients(3000)
    made(tmp_path / "naive", table)
    assert 0.25 < certain_of(tmp_path / "naive" / "output", "diagnosis") < 0.4
    release = made(tmp_path / "safe", table, protect={"diagnosis": {"distinct": 2}})
    assert certain_of(tmp_path / "safe" / "output", "diagnosis") == 0.0
    assert by_combination(tmp_path / "safe" / "output").size().min() >= 3
    assert manifest_of(release).protect == {"diagnosis": ProtectEntry(distinct=2)}


@pytest.mark.parametrize(("algorithm", "refine"), [("mdav", "off"), ("best", "fast"), ("mst", "fast")])
def test_any_algorithm_and_refinement_holds_all_demands(tmp_path: Path, algorithm: str, refine: str) -> None:
    protect = {"income": {"t": 0.3, "distinct": 3}, "*": {"distinct": 2}}
    release = made(
        tmp_path, patients(240), algorithm=algorithm, refine=refine, protect=protect, blocks={"max_records": 90}
    )
    groups = by_combination(tmp_path / "output")
    assert groups.size().min() >= 3
    assert groups["diagnosis"].nunique().min() >= 2 and groups["income"].nunique().min() >= 3
    assert farthest(tmp_path / "output", "income") <= 0.3 + 1e-12
    manifest = manifest_of(release)
    assert manifest.protect == {"diagnosis": ProtectEntry(distinct=2), "income": ProtectEntry(distinct=3, t=0.3)}
    report = verify(str(tmp_path / "output"))
    assert report.passed and [check.name for check in report.checks][-2:] == [
        "protection of 'diagnosis'",
        "protection of 'income'",
    ]


def test_the_bytes_are_the_same_however_the_input_is_cut(tmp_path: Path) -> None:
    protect = {"income": {"t": 0.25}, "diagnosis": {"distinct": 2}}
    table = patients(600)
    made(tmp_path / "one", table, protect=protect)
    made(tmp_path / "three", table, parts=3, protect=protect)
    assert data_digests(tmp_path / "one" / "output") == data_digests(tmp_path / "three" / "output")


@pytest.mark.parametrize("output", [{"format": "csv", "csv": {"formulas": "escape"}}, {"format": "arrow"}])
def test_demands_are_on_values_as_they_are_released(tmp_path: Path, output: dict[str, Any]) -> None:
    """Two texts that escaping makes one are one value."""
    table = patients(300)
    draw = np.random.default_rng(1)
    signs = pa.array(draw.choice(["=a", "'=a", "b", None], 300, p=[0.4, 0.4, 0.1, 0.1]))
    table = table.set_column(table.column_names.index("diagnosis"), "diagnosis", signs)
    release = made(
        tmp_path, table, protect={"diagnosis": {"distinct": 2, "t": 0.5}}, output={"url": "output", **output}
    )
    assert verify(str(tmp_path / "output")).passed
    assert manifest_of(release).protect["diagnosis"].t == 0.5


def keep(X: Any, labels: Any, k: int, demands: BlockDemands, effort: Any, seed: int) -> tuple[Any, Any]:
    """As if protection did nothing."""
    return labels, labels


@pytest.mark.parametrize(
    ("protect", "sentence"),
    [
        (
            {"diagnosis": {"distinct": 3}},
            "distinct values: a combination has fewer than 3 distinct values of 'diagnosis'",
        ),
        (
            {"income": {"t": 0.1}},
            "closeness: the values of 'income' in a combination differ from the whole release's by",
        ),
    ],
)
def test_the_gate_stops_groups_that_do_not_hold_a_demand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, protect: dict[str, Any], sentence: str
) -> None:
    monkeypatch.setattr(demands, "protected_groups", keep)
    with pytest.raises(GateError, match=sentence) as stopped:
        made(tmp_path, patients(240), protect=protect)
    assert stopped.value.exit_code == 4
    assert not list((tmp_path / "output").rglob("*.parquet"))


@pytest.mark.parametrize(
    ("protect", "kind"),
    [({"*": {"inference": 0.05}}, "inference"), ({"linkage": 0.1}, "linkage")],
)
def test_the_gate_stops_what_is_measured_above_its_limit(tmp_path: Path, protect: dict[str, Any], kind: str) -> None:
    """The sentence names limit and column; by how much is in the work area alone."""
    with pytest.raises(GateError, match=rf"{kind}: more than the allowed share of 0\.") as stopped:
        made(tmp_path, patients(600), protect=protect)
    assert not list((tmp_path / "output").rglob("*.parquet"))
    (kept,) = (tmp_path / "work").rglob("check-files/protection-*.json")
    assert f"check-files/{kept.name} of the work area" in stopped.value.message
    figures = json.loads(kept.read_text())
    measured = figures[kind]["*" if kind == "linkage" else "diagnosis"]
    assert measured > 0.1 and str(measured)[:5] not in stopped.value.message


def test_limits_that_hold_are_no_promises(tmp_path: Path) -> None:
    release = made(tmp_path, patients(600), protect={"*": {"inference": 0.5}, "linkage": 0.5})
    assert manifest_of(release).protect == {}
    details = {check.name: check.detail for check in manifest_of(release).checks}
    assert details["inference"] == details["linkage"] == "as the spec allows"


def test_linkage_is_what_somebody_who_tries_all_combinations_expects(tmp_path: Path) -> None:
    """Who is whose is told by a number, which nobody else knows."""
    table, names = patients(300).append_column("number", pa.array(range(300))), ROLES["quasi_identifiers"]
    roles = {**ROLES, "confidential": [*ROLES["confidential"], "number"]}
    others = {"roles": roles, "acknowledge": {"nearly_unique": ["number"]}}
    made(tmp_path, table, protect={"linkage": 1.0}, **others)
    frame = table.to_pandas()
    released = released_table(tmp_path / "output").to_pandas().set_index("number").loc[frame.number].reset_index()
    groups = released.groupby(["region", *names]).size().reset_index(name="n")
    known, shown = (of[names].to_numpy(np.float64) / frame[names].std(ddof=0).to_numpy() for of in (frame, groups))
    mine = released.merge(groups.reset_index(), on=["region", *names], how="left")["index"].to_numpy()
    correct = []
    for i, region in enumerate(frame.region):
        there = np.flatnonzero(groups.region == region)
        distance = ((shown[there] - known[i]) ** 2).sum(axis=1)
        nearest = there[np.isclose(distance, distance.min(), rtol=1e-9)]
        correct.append((mine[i] in nearest) / groups.n.to_numpy()[nearest].sum())
    expected = float(np.mean(correct))
    assert 0.1 < expected < 0.4
    with pytest.raises(GateError, match="are expected to be linked rightly"):
        made(tmp_path / "less", table, protect={"linkage": expected - 1e-6}, **others)
    made(tmp_path / "more", table, protect={"linkage": expected + 1e-6}, **others)


@pytest.mark.parametrize(
    ("values", "protect", "sentence"),
    [
        (
            lambda n: ["a"] * n,
            {"diagnosis": {"distinct": 2}},
            "a block has fewer than 2 distinct values of this column",
        ),
        (
            lambda n: ["a" if i < n // 2 else "b" for i in range(n)],
            {"diagnosis": {"t": 0.1}},
            "differ from the whole release's by more than 0.1, so that no groups of it can be nearer",
        ),
    ],
)
def test_what_no_groups_could_hold_is_told_before_any_is_made(
    tmp_path: Path, values: Callable[[int], list[str]], protect: dict[str, Any], sentence: str
) -> None:
    table = patients(200).sort_by("region")
    table = table.set_column(table.column_names.index("diagnosis"), "diagnosis", pa.array(values(200)))
    with pytest.raises(DataError, match=sentence) as refused:
        made(tmp_path, table, protect=protect)
    assert refused.value.exit_code == 3 and refused.value.message.startswith("protect.diagnosis.")
    assert "or raise blocks.max_records where one blocking key has several blocks" in refused.value.message


def test_a_promise_that_files_do_not_keep_is_seen_by_who_verifies(tmp_path: Path) -> None:
    release = made(tmp_path, patients(300))
    manifest = manifest_of(release)
    claims = {"diagnosis": ProtectEntry(distinct=2), "income": ProtectEntry(t=0.05)}
    place = next((tmp_path / "output").rglob("manifest.json"))
    place.write_bytes(manifest.model_copy(update={"protect": claims}).to_bytes())
    checks = {check.name: check for check in verify(str(tmp_path / "output")).checks}
    assert not checks["protection of 'diagnosis'"].passed and not checks["protection of 'income'"].passed
    assert "combinations do not have at least 2 distinct values" in checks["protection of 'diagnosis'"].detail


def test_values_that_nobody_counted_stop_the_release(tmp_path: Path) -> None:
    """The distribution that workers were told is that of the files, or nothing is published."""
    release = start(write_release(tmp_path, [patients(240)], roles=ROLES, protect={"income": {"t": 0.3}}))
    run_stages(release, "survey", "plan", "scatter", "anonymize")
    run_stages(release, "validate")
    assert {check.name for check in release.checks} >= {"distributions", "closeness"}
    name = DISTRIBUTIONS.path(release.key, DISTRIBUTIONS.name)
    used = distributions_in(read_slice(release.work.read(name)))
    forge(release, name, to_bytes(table_of([*used[:-1], Distribution.of(pa.array([1, 2, 2]))])))
    with pytest.raises(GateError, match="values are not as often as they were counted in 'income'"):
        validate(release)


# --- Missing values --------------------------------------------------------------------------------------------


def with_missing(n: int) -> pa.Table:
    """Patients of whom those with a low rent rather have no income on file; a group of neighbours has none at all."""
    frame, draw = patients(n).to_pandas(), np.random.default_rng(2)
    missing = draw.random(n) < 0.5 * frame.rent.rank(pct=True, ascending=False)
    frame["income"] = frame.income.astype("Int64").mask(missing)
    return pa.Table.from_pandas(frame, preserve_index=False)


def shown_of(output: Path, column: str) -> tuple[float, float, int]:
    """How far combinations are among those who have a value, and in the share of those who have none; fewest values."""
    values = np.sort(released_table(output).to_pandas()[column].dropna().unique())
    counts = [
        (of[column].value_counts().reindex(values, fill_value=0), of[column].isna().mean())
        for _, of in by_combination(output)
    ]
    whole, without = sum(of for of, _ in counts), released_table(output).to_pandas()[column].isna().mean()
    level = (whole.cumsum() / whole.sum()).to_numpy()
    among = [np.abs(level - of.cumsum() / of.sum()).sum() / (len(values) - 1) for of, _ in counts if of.sum()]
    return max(among), max(abs(share - without) for _, share in counts), min(int((of > 0).sum()) for of, _ in counts)


def test_t_holds_among_those_with_a_value_and_of_the_share_of_those_without(tmp_path: Path) -> None:
    """A missing value as the least of all numbers hid how far incomes were: within 0.2 was 0.31 of those there are."""
    release = made(tmp_path, with_missing(400), protect={"income": {"t": 0.2, "distinct": 3}})
    among, without, distinct = shown_of(tmp_path / "output", "income")
    assert among <= 0.2 + 1e-12 and without <= 0.2 + 1e-12 and distinct >= 3
    assert manifest_of(release).protect == {"income": ProtectEntry(distinct=3, t=0.2)}


def test_the_gate_and_who_verifies_judge_missing_values_as_the_files_have_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Just below what pandas counts both refuse, and just above both pass."""
    made(tmp_path / "naive", with_missing(300))
    output = tmp_path / "naive" / "output"
    among, without, distinct = shown_of(output, "income")
    far = float(max(among, without))
    assert verify(str(output), demands=Demands(t={"income": far + 1e-9})).passed
    below = verify(str(output), demands=Demands(t={"income": far - 1e-9}, distinct={"income": max(2, distinct + 1)}))
    (check,) = [check for check in below.checks if not check.passed]
    assert check.name == "protection of 'income' demanded" and below.exit_code == 4
    monkeypatch.setattr(demands, "protected_groups", keep)
    made(tmp_path / "above", with_missing(300), protect={"income": {"t": far + 1e-9}})
    with pytest.raises(GateError, match="closeness: the values of 'income'"):
        made(tmp_path / "below", with_missing(300), protect={"income": {"t": far - 1e-9}})


def test_a_combination_without_any_value_has_no_distinct_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = patients(60)
    none = pa.array([None if age < 50 else "flu" for age in table["age"].to_pylist()])
    table = table.set_column(table.column_names.index("diagnosis"), "diagnosis", none)
    monkeypatch.setattr(BlockDemands, "impossible", lambda self: None)
    monkeypatch.setattr(demands, "protected_groups", keep)
    with pytest.raises(
        GateError, match="distinct values: a combination has fewer than 2 distinct values of 'diagnosis'"
    ):
        made(tmp_path, table, protect={"diagnosis": {"distinct": 2}})
