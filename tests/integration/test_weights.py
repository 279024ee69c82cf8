"""Releases with survey weights: totals by pandas, a gate that refuses, one result however made, nights of a series."""

from __future__ import annotations

import datetime
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from microagg_core import microaggregate
from microagg_core.data.tables.slices import RECORD, read_slice
from microagg_core.errors import DataError, MicroaggError, SpecError
from microagg_core.inspect.contract import ReleasedFile
from microagg_core.inspect.gate import Inspected, make_checks, note_file
from microagg_core.release.steps.candidate import CANDIDATE, ORIGINS
from microagg_core.release.steps.checking import EXPECTED, notes_of_input, promise_of
from microagg_core.release.steps.demands import DISTRIBUTIONS
from microagg_core.series.attack.report import attack
from releasing.runs import NOW, data_digests, forge, released_table, run_stages, start, write_release, write_series

QUASI, WEIGHT, BLOCKING = ["age", "income", "born"], "w", ["region"]
ROLES = {
    "identifiers": ["id"],
    "quasi_identifiers": QUASI,
    "blocking": BLOCKING,
    "confidential": ["note"],
    "weight": WEIGHT,
}
MEANT = {"acknowledge": {"nearly_unique": ["note"]}}


def sample(n: int = 240, seed: int = 3, spread: float = 1.0) -> pa.Table:
    rng = np.random.default_rng(seed)
    day = datetime.date(1950, 1, 1)
    return pa.table(
        {
            "id": [f"P{i}" for i in range(n)],
            "region": rng.choice(["north", "south", "west"], n, p=[0.6, 0.35, 0.05]),
            "age": pa.array(rng.integers(18, 90, n), pa.int16()),
            "income": rng.lognormal(10, 1, n).round(2),
            "born": pa.array([day + datetime.timedelta(int(d)) for d in rng.integers(0, 20_000, n)]),
            "note": rng.choice(["a", "b", "c"], n),
            "w": rng.lognormal(5, spread, n),
        }
    )


def frame(table: pa.Table) -> pd.DataFrame:
    data = table.to_pandas()
    if "born" in data:
        data["born"] = pd.to_datetime(data["born"]).map(lambda at: at.toordinal())
    return data


def sums(data: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    weighted = data[["age", "income", "born"]].mul(data["w"], axis=0).assign(w=data["w"])
    return weighted.groupby([data[name] for name in by]).sum() if by else weighted.sum().to_frame().T


def released(folder: Path, tables: list[pa.Table], **changes: Any) -> pa.Table:
    run_stages(start(write_release(folder, tables, **{"roles": ROLES, **MEANT, **changes})))
    return released_table(folder / "output")


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> tuple[pa.Table, Path]:
    folder = tmp_path_factory.mktemp("published")
    return released(folder, [sample()]), folder


def test_totals_are_kept_and_nobody_dominates(published: tuple[pa.Table, Path]) -> None:
    table = published[0]
    before, after = frame(sample()), frame(table)
    for by in ([], BLOCKING):
        off = (sums(after, by) / sums(before, by) - 1).abs()
        assert off[["age", "income", "w"]].max().max() < 1e-12
        assert (sums(after, by)["born"] - sums(before, by)["born"]).abs().max() <= sums(before, by)["w"].max() / 2
    assert after.groupby([*BLOCKING, *QUASI, "w"]).size().min() >= 3
    assert str(table["age"].type) == str(table["w"].type) == "double" and table["born"].type == pa.date32()
    plain = frame(sample())[["age", "income"]].mean() / after[["age", "income"]].mean() - 1
    assert plain.abs().max() > 1e-6, "plain means are kept, so that groups are not weighted"
    weights = microaggregate(sample(), QUASI, 3, blocking=BLOCKING, weight=WEIGHT, refine="fast")
    largest = before["w"].groupby(weights.groups).max() / before["w"].groupby(weights.groups).sum()
    assert largest.max() <= 0.5 * (1 + 1e-9)


def test_python_gives_what_a_release_gives(published: tuple[pa.Table, Path]) -> None:
    masked = microaggregate(sample(), QUASI, 3, blocking=BLOCKING, weight=WEIGHT, refine="fast").data
    columns = published[0].column_names
    rows = [sorted(zip(*(t[name].to_pylist() for name in columns), strict=True)) for t in (masked, published[0])]
    assert rows[0] == rows[1]


def test_parts_do_not_show(published: tuple[pa.Table, Path], tmp_path: Path) -> None:
    whole = sample()
    released(tmp_path, [whole.slice(0, 50), whole.slice(50, 1), whole.slice(51)])
    assert data_digests(tmp_path / "output") == data_digests(published[1] / "output")


def test_the_manifest_says_what_is_kept_and_no_more(published: tuple[pa.Table, Path]) -> None:
    manifest = pd.read_json(published[1] / "output/2026-11-18/r0001/manifest.json", typ="series")
    columns = {column["name"]: column for column in manifest["columns"]}
    assert columns["w"]["role"] == "weight" and "weighted mean kept" in columns["age"]["claims"]
    losses, after = manifest["losses"], frame(published[0])
    mean = float(np.average(after["income"], weights=after["w"]))
    assert losses["weighted"]["means"]["income"] == pytest.approx(mean, rel=1e-5)
    # Plain variances and correlations of the input would tell of plain means beside the weighted ones.
    assert "correlation_change" not in losses and "variance_kept" not in losses["attributes"]["income"]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = write_release(tmp_path_factory.mktemp("made"), [sample()], roles=ROLES, **MEANT)
    return run_stages(start(path), "survey", "plan", "scatter", "anonymize")


Breaking = Callable[[pa.Table], pa.Table]


def wrong(release: Any, breaking: Breaking, beside: Breaking) -> list[str]:
    """What the gate would not let pass, had the files or what lies beside them been broken."""
    promise, noted = promise_of(release.planned, release.known(DISTRIBUTIONS)), []
    pieces = [release.written(output).pieces for output in (CANDIDATE, ORIGINS)]
    for number, (file, of_file) in enumerate(zip(*pieces, strict=True)):
        table = breaking(pq.read_table(Path(release.work.url) / file.name))
        origins = beside(read_slice(release.work.read(of_file.name)))
        parts = release.planned.survey.parts_of(np.asarray(origins[RECORD]).astype(np.int64))
        noted.append(note_file(ReleasedFile(promise, table.combine_chunks(), origins, parts, number)))
    checks = make_checks(promise, Inspected.of(noted), notes_of_input(release.written(EXPECTED)))
    return [f"{check.name}: {check.detail}" for check in checks if not check.passed]


def same(table: pa.Table) -> pa.Table:
    return table


def times(table: pa.Table, name: str, factor: float, where: Any) -> pa.Table:
    values = np.where(where, np.asarray(table[name]) * factor, np.asarray(table[name]))
    return table.set_column(table.column_names.index(name), name, pa.array(values, table[name].type))


def first_group(table: pa.Table) -> Any:
    return np.asarray(table["w"]) == table["w"][0].as_py()


@pytest.mark.parametrize(("column", "what"), [("age", "weighted total"), ("income", "weighted total"), ("w", "sum")])
def test_a_group_whose_total_is_off_stops_the_release(made: Any, column: str, what: str) -> None:
    """By more than 1e-9 of it, though the value lies within the range of its group."""
    assert wrong(made, same, same) == []

    def off(factor: float) -> list[str]:
        return wrong(made, lambda table: times(table, column, factor, first_group(table)), same)

    assert off(1 + 1e-11) == []
    first, *others = off(1 + 1e-7)
    assert first == f"weights: the {what} of {column!r} is not kept in 1 groups" or column == "w"
    assert any(f"the {what} of {column!r} is not kept in 1 groups" in line for line in (first, *others))


def test_plain_means_stop_the_release(made: Any) -> None:
    """What would be released without weights is within all ranges, and k-anonymous."""

    def plain(table: pa.Table) -> pa.Table:
        origins = pa.concat_tables([read_slice(made.work.read(p.name)) for p in made.written(ORIGINS).pieces])
        came = pd.Series(np.asarray(origins["q1"]))
        means = came.groupby(np.asarray(table["w"])).transform("mean")
        return table.set_column(table.column_names.index("income"), "income", pa.array(means))

    assert [line.split(":")[0] for line in wrong(made, plain, same)] == ["weights"]


def test_a_dominated_group_stops_the_release(made: Any) -> None:
    """Here in what lies beside the files, so that their values are not the input's either."""

    def heavy(origins: pa.Table) -> pa.Table:
        weights = np.asarray(origins["q3"]).copy()
        weights[0] *= 1e6
        return origins.set_column(origins.column_names.index("q3"), "q3", pa.array(weights))

    assert any("in 1 groups one record has more than half of the weight" in line for line in wrong(made, same, heavy))


LEVELS = ["none", "some", "more", "most"]


def test_categories_are_weighted_and_plain_ones_stop_the_release(tmp_path: Path) -> None:
    """Of each class of the release, and of its records as they came, by pandas; zeros are mended among themselves."""
    rng, table = np.random.default_rng(7), sample().drop_columns(["born"])
    zeros = rng.random(table.num_rows) < 0.4
    table = table.set_column(3, "income", pa.array(np.where(zeros, 0.0, np.asarray(table["income"]))))
    table = table.append_column("job", pa.array(rng.choice(list("abcdef"), table.num_rows)))
    table = table.append_column("size", pa.array(rng.choice(LEVELS, table.num_rows)))
    size, income = {"name": "size", "kind": "ordinal", "levels": LEVELS}, {"name": "income", "zeros": "separate"}
    quasi = ["age", "job", size, income]
    path = write_release(tmp_path, [table], roles={**ROLES, "quasi_identifiers": quasi}, **MEANT)
    release = run_stages(start(path), "survey", "plan", "scatter", "anonymize")
    assert wrong(release, same, same) == []
    pieces = [release.written(output).pieces for output in (CANDIDATE, ORIGINS)]
    after = pd.concat([pq.read_table(Path(release.work.url) / piece.name).to_pandas() for piece in pieces[0]])
    came = pd.concat([read_slice(release.work.read(piece.name)).to_pandas() for piece in pieces[1]])
    after, came = (data.reset_index(drop=True) for data in (after, came))
    came = came.rename(columns={f"q{j}": name for j, name in enumerate(["age", "income", "w", "job", "size"])})
    modes = {}
    for _, own in came.groupby(after.groupby(["region", "age", "income", "w", "job", "size"]).ngroup()):
        shown, half = after.loc[own.index[0]], own["w"].sum() / 2
        by_job, by_level = own.groupby("job")["w"].sum(), own.groupby("size")["w"].sum().reindex(LEVELS, fill_value=0)
        assert by_job[shown["job"]] == pytest.approx(by_job.max())
        reached = by_level.cumsum()
        assert reached[shown["size"]] >= half * (1 - 1e-9) and reached[shown["size"]] - by_level[shown["size"]] < half
        assert (own["income"] == 0).nunique() == 1, "zeros are grouped with other values"
        modes[shown["w"]] = own["job"].mode()[0]

    def plain(table: pa.Table) -> pa.Table:
        return table.set_column(
            table.column_names.index("job"), "job", pa.array(map(modes.get, table["w"].to_pylist()))
        )

    assert any(
        line.startswith("groups: ") and "'job' may not stand for" in line for line in wrong(release, plain, same)
    )


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (0.0, "weight 'w' has 1 values that are not above 0, or infinite"),
        (-2.0, "weight 'w' has 1 values that are not above 0, or infinite"),
        (float("inf"), "weight 'w' has 1 values that are not above 0, or infinite"),
        (None, "weight 'w' has 1 missing values"),
        (float("nan"), "weight 'w' has 1 missing values"),
    ],
)
def test_what_is_no_weight_is_refused(tmp_path: Path, value: float | None, says: str) -> None:
    table = sample()
    weights = table["w"].to_pylist()
    weights[7] = value
    broken = table.set_column(table.column_names.index("w"), "w", pa.array(weights, pa.float64()))
    with pytest.raises(DataError, match=says):
        released(tmp_path, [table.slice(0, 5), broken.slice(5)], missing="separate")


def test_roles_of_a_weight(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="'age' stands in quasi_identifiers and in weight"):
        released(tmp_path, [sample()], roles={**ROLES, "weight": "age"})
    with pytest.raises(DataError, match="weight 'note' has the type string, and weights are numbers"):
        released(tmp_path, [sample()], roles={**ROLES, "weight": "note", "confidential": ["w"]}, acknowledge={})


def test_whole_numbers_missing_values_and_a_step(tmp_path: Path) -> None:
    """Weights of whole numbers; totals of what is there; a rounding step that is asked for is kept to."""
    table = sample()
    ages = [None if i % 3 == 0 else age for i, age in enumerate(table["age"].to_pylist())]
    table = table.set_column(2, "age", pa.array(ages, pa.int16()))
    table = table.set_column(6, "w", pa.array(np.ceil(np.asarray(table["w"])).astype(np.int32)))
    after = frame(released(tmp_path, [table], missing="separate", rounding={"income": 100}))
    before = frame(table)
    assert after["age"].isna().sum() == before["age"].isna().sum()
    assert sums(after, [])["age"].iloc[0] == pytest.approx(sums(before, [])["age"].iloc[0], rel=1e-12)
    assert sums(after, [])["w"].iloc[0] == pytest.approx(before["w"].sum(), rel=1e-12)
    assert (after["income"] % 100 == 0).all()


def test_a_region_of_one_heavy_record_joins_another(tmp_path: Path) -> None:
    table = sample()
    in_west = np.flatnonzero(np.asarray(table["region"]) == "west")
    weights = np.asarray(table["w"]).copy()
    weights[in_west[0]] = 10 * weights[in_west].sum()
    heavy = table.set_column(6, "w", pa.array(weights))
    after = released(tmp_path, [heavy])
    assert set(after["region"].to_pylist()) == {"north", "south|west"}
    masked = microaggregate(heavy, QUASI, 3, blocking=BLOCKING, weight=WEIGHT).data
    assert set(masked["region"].to_pylist()) == {"north", "south|west"}


def nights(folder: Path, n: int) -> tuple[Path, list[pd.DataFrame], list[pd.DataFrame]]:
    """A series of the same people under other weights each night; the inputs, and what is released with their ids."""
    table = sample(60, spread=0.4).drop_columns("born")
    table = table.append_column("tag", table["id"])
    roles = {**ROLES, "quasi_identifiers": ["age", "income"], "confidential": ["note", "tag"]}
    path = write_series(folder, [table])
    path = write_release(
        folder, [table], roles=roles, unit=["id"], acknowledge={"nearly_unique": ["tag"]}, refine="off",
        series={"mode": "atoms", "key_file": "series.key"},
    )  # fmt: skip
    inputs, outputs = [], []
    for night in range(n):
        weights = np.asarray(table["w"]) * np.random.default_rng(night).lognormal(0, 0.3 * bool(night), 60)
        tonight = table.set_column(table.column_names.index("w"), "w", pa.array(weights))
        pq.write_table(tonight, folder / "input" / "part-0.parquet")
        inputs.append(tonight.to_pandas().set_index("id"))
        run_stages(start(path, identity=f"n{night}", now=NOW + datetime.timedelta(days=night)))
        outputs.append(released_table(folder / "output").to_pandas().set_index("tag").loc[inputs[0].index])
    return path, inputs, outputs


def solved(equations: np.ndarray) -> int:
    """Count records that follow from linear equations whose coefficients are known: unit vectors in their row space."""
    _, singular, rows = np.linalg.svd(equations)
    space = rows[: int((singular > 1e-9 * singular.max()).sum())]
    return int(((space**2).sum(axis=0) > 1 - 1e-9).sum())


def test_two_nights_weights_of_an_atom_solve_for_nobody(tmp_path: Path) -> None:
    """Who knows all weights has an equation of every released mean: with those of one night they tell of nobody.

    Were an atom averaged anew, by each night's weights, its nights' equations would solve for all of it.
    """
    path, inputs, outputs = nights(tmp_path, 4)
    keys = ["region", "age", "income", "w"]
    for night in outputs[1:]:
        assert night[keys].equals(outputs[0][keys]), "what was released of an atom changed"
    atoms = outputs[0].groupby(keys).ngroup().to_numpy()
    assert np.bincount(atoms).min() == 3
    members = [atoms == atom for atom in range(atoms.max() + 1)]
    # Ours: the weights of the first night, whatever the later ones are; and the sum of weights, which is one more.
    first = inputs[0]["w"].to_numpy()
    ours = np.array([first * of for of in members for _ in outputs])
    anew = np.array([night["w"].to_numpy() * of for of in members for night in inputs])
    plain_too = np.vstack([ours, [np.ones(len(first)) * of for of in members]])
    assert solved(ours) == 0
    assert solved(anew) >= 3 * sum(of.sum() == 3 for of in members)
    assert all(_least_support(plain_too[:, of]) < of.sum() for of in members), "a plain mean beside would leave k-1"
    for of in members:
        released_mean = float(outputs[-1].loc[of, "income"].iloc[0])
        assert released_mean == pytest.approx(np.average(inputs[0].loc[of, "income"], weights=first[of]), rel=1e-12)
    with pytest.raises(SpecError, match="weighted means, and the attack solves equations of plain ones"):
        attack([str(path.parent / "output" / f"n{night}") for night in (0, 1)])


def _least_support(equations: np.ndarray) -> int:
    """Fewest records in a combination of two kinds of equations of a group: one record is eliminated at a time."""
    rows = equations[np.abs(equations).max(axis=1) > 0]
    a, b = rows[0], rows[-1]
    return min(int((np.abs(a * b[i] - b * a[i]) > 1e-9).sum()) for i in range(len(a)))


def test_a_survivor_with_tonights_weight_stops_the_night(tmp_path: Path) -> None:
    path, _, _ = nights(tmp_path, 1)
    release = run_stages(start(path, identity="n1", now=NOW), "survey", "plan", "scatter", "anonymize")
    name, table = next(
        (piece.name, table)
        for piece in release.written(CANDIDATE).pieces
        if (table := pq.read_table(io.BytesIO(release.work.read(piece.name)))).num_rows
    )
    sink = io.BytesIO()
    pq.write_table(times(table, "w", 1.25, first_group(table)), sink)
    forge(release, name, sink.getvalue())
    with pytest.raises(MicroaggError, match="gate"):
        run_stages(release, "validate", "measure", "publish")
