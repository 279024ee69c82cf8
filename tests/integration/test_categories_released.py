"""Releases with nominal and ordinal quasi-identifiers, recounted by pandas from what a reader has."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from microagg_core import microaggregate
from microagg_core.errors import DataError, GateError, SpecError
from microagg_core.release.steps.candidate import CANDIDATE
from releasing.runs import data_digests, forge, released_table, run_stages, start, write_release

LEVELS = ["none", "some", "more", "most"]
QUASI = ["age", "size", "job", "roof"]
ROLES: dict[str, Any] = {
    "identifiers": ["id"],
    "quasi_identifiers": ["age", "size", "job", {"name": "roof", "kind": "nominal"}],
    "confidential": ["row"],
}
MEANT = {"nearly_unique": ["row"], "fixes_quasi_identifier": ["row"], "completes_mean": ["row"]}


def people(n: int, first: int = 0, jobs: str = "abcdefgh") -> pa.Table:
    """Sizes are an ordered dictionary, roofs are codes of which 9 says that nobody knows; a few have no job."""
    rng = np.random.default_rng(first)
    job = pa.array([f"={letter}" for letter in rng.choice(list(jobs), n)], mask=rng.random(n) < 0.1)
    return pa.table(
        {
            "id": [f"P{i:05d}" for i in range(first, first + n)],
            "age": rng.integers(18, 90, n),
            "size": pa.DictionaryArray.from_arrays(rng.integers(0, 4, n), LEVELS, ordered=True),
            "job": job,
            "roof": rng.choice(np.array([1, 2, 3, 9], dtype=np.int8), n, p=[0.4, 0.3, 0.2, 0.1]),
            "row": [f"row{i:05d}" for i in range(first, first + n)],
        }
    )


def release(folder: Path, tables: list[pa.Table], **changes: Any) -> dict[str, Any]:
    meant = {"roles": ROLES, "acknowledge": MEANT, "missing": "separate", "blocks": {"max_records": 250}}
    run_stages(start(write_release(folder, tables, **{**meant, **changes})))
    (manifest,) = (folder / "output").glob("*/r0001/manifest.json")
    return dict(json.loads(manifest.read_text()))


def both(folder: Path, table: pa.Table) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The people as they came and as they are released, in one order."""
    came, released = (of.to_pandas().set_index("row") for of in (table, released_table(folder / "output")))
    return came.loc[released.index], released


def mode_of(own: pd.Series, everywhere: pd.Series) -> Any:
    counts = own.value_counts()
    return min(counts[counts == counts.max()].index, key=lambda value: (everywhere[value], value))


def test_what_is_released_is_recounted(tmp_path: Path) -> None:
    table = people(2000)
    manifest = release(tmp_path, [table], k=12)
    came, released = both(tmp_path, table)
    classes = released.groupby(QUASI, dropna=False, observed=True).ngroup()
    assert classes.value_counts().min() >= 12 and (came["job"].isna() == released["job"].isna()).all()
    attributes = manifest["losses"]["attributes"]
    for name in ("job", "roof"):
        there = came[name].notna()
        everywhere = came[name].value_counts()
        modes = came[there].groupby(classes[there])[name].agg(mode_of, everywhere=everywhere)
        assert (modes[classes[there]].to_numpy() == released.loc[there, name].to_numpy()).all()
        changed = (came.loc[there, name] != released.loc[there, name]).mean() * 100
        assert attributes[name]["mismatches"] == pytest.approx(changed, rel=1e-5)
        shares = [of.loc[there, name].value_counts(normalize=True) for of in (came, released)]
        moved = shares[0].sub(shares[1], fill_value=0).abs().sum() * 50
        within = manifest["losses"]["coarser"][f"attributes.{name}.margins"]
        assert abs(attributes[name]["margins"] - moved) <= within and 2 * within / 100 * there.sum() >= 12
        assert attributes[name]["categories_kept"] == released[name].nunique()
        told = {of["category"]: of for of in attributes[name]["shares"]}
        for category, after in shares[1].items():
            of, before = told[str(category)], 100 * shares[0][category]
            assert of["share"] == pytest.approx(100 * after, rel=1e-5) and "share_before" in of
            assert abs(of["share_before"] - before) <= of["within"] and of["within"] / 100 * there.sum() >= 6
        unit = (1 - (shares[0] ** 2).sum()) / 2
        assert attributes[name]["l_sse"] * unit <= changed <= 2 * attributes[name]["l_sse"] * unit
        assert "mean" not in attributes[name] or attributes[name]["mean"] is None
    size, after = (of["size"].astype(pd.CategoricalDtype(LEVELS)).cat.codes for of in (came, released))
    medians = size.groupby(classes).agg(lambda own: sorted(own)[(len(own) - 1) // 2])
    assert (medians[classes].to_numpy() == after.to_numpy()).all()
    counts = np.bincount(size, minlength=4)
    ranks = np.cumsum(counts) - counts / 2
    apart = np.abs(ranks[size] - ranks[after]).mean() / len(size) * 100
    assert attributes["size"]["rank_displacement"] == pytest.approx(apart, rel=1e-5)
    assert manifest["losses"]["lower_bound"] <= manifest["losses"]["sse"]
    assert {c["name"]: c.get("claims") for c in manifest["columns"]} == {
        "age": None,
        "size": ["a value of the group", "median of the group", "order kept"],
        "job": ["a value of the group", "most frequent of the group"],
        "roof": ["a value of the group", "most frequent of the group"],
        "row": None,
    }
    (page,) = (tmp_path / "output").glob("*/r0001/README.md")
    text = page.read_text()
    assert "means of `age` over all" in text and "most frequent value of its group" in text
    assert "of the variation of" in text and "records with another category" in text and "means of `job`" not in text


@pytest.mark.parametrize(("missing", "quasi"), [("blank", ["age", "job"]), ("separate", ["job"])])
def test_a_column_of_text_without_any_value_is_released_without_any(
    tmp_path: Path, missing: str, quasi: list[str]
) -> None:
    whole = people(60).select(["id", "age", "row"])
    table = whole.append_column("job", pa.nulls(60, pa.string()))
    roles = {**ROLES, "quasi_identifiers": quasi, "drop": [name for name in ("age",) if name not in quasi]}
    release(tmp_path, [table], k=5, missing=missing, roles=roles)
    _, released = both(tmp_path, table)
    assert len(released) == 60 and released["job"].isna().all()


def test_margins_compare_shares_where_cells_are_blanked(tmp_path: Path) -> None:
    whole = people(800)
    job = pa.array(whole["job"].fill_null("=a").to_pylist(), mask=np.arange(800) < 3)
    table = whole.set_column(whole.column_names.index("job"), "job", job)
    manifest = release(tmp_path, [table], k=12, missing="blank", blocks={})
    came, released = both(tmp_path, table)
    assert came["job"].isna().sum() == 3 and released["job"].isna().sum() >= 12
    shares = [of["job"].value_counts(normalize=True) for of in (came, released)]
    moved = shares[0].sub(shares[1], fill_value=0).abs().sum() * 50
    losses = manifest["losses"]
    within = losses.get("coarser", {}).get("attributes.job.margins", 1e-5 * moved)
    assert losses["attributes"]["job"]["margins"] == pytest.approx(moved, abs=within)


def test_parts_make_the_same_bytes_and_csv_the_same_rows(tmp_path: Path) -> None:
    table = people(900)
    for name, tables in {"one": [table], "two": [table.slice(0, 333), table.slice(333)]}.items():
        release(tmp_path / name, tables)
    assert data_digests(tmp_path / "one" / "output") == data_digests(tmp_path / "two" / "output")
    release(tmp_path / "csv", [table], output={"url": "output", "format": "csv", "csv": {"formulas": "escape"}})
    (file,) = (tmp_path / "csv" / "output").glob("*/r0001/data/*.csv")
    rows = pd.read_csv(file).set_index("row")
    parquet = released_table(tmp_path / "one" / "output").to_pandas().set_index("row").loc[rows.index]
    assert rows["job"].str.startswith("'=").sum() == rows["job"].notna().sum() > 800
    assert rows["job"].str.removeprefix("'").fillna("").equals(parquet["job"].fillna("").astype(rows["job"].dtype))
    assert (rows[["age", "roof"]] == parquet[["age", "roof"]]).all(axis=None)


def test_a_column_of_importance_changes_less_and_the_bound_holds(tmp_path: Path) -> None:
    table, lost = people(2000), {}
    for weight in (1, 20):
        job = {"name": "job", "weight": weight} if weight > 1 else "job"
        roles = {**ROLES, "quasi_identifiers": ["age", "size", job, ROLES["quasi_identifiers"][3]]}
        manifest = release(tmp_path / str(weight), [table], roles=roles, k=12)
        lost[weight] = manifest["losses"]["attributes"]["job"]["mismatches"]
        assert manifest["losses"]["lower_bound"] <= manifest["losses"]["sse"]
        assert {c["name"]: c.get("importance") for c in manifest["columns"]}["job"] == (20 if weight > 1 else None)
    assert lost[20] < 0.6 * lost[1]


def _other(column: str, value: Any) -> Callable[[pa.Table], pa.Table]:
    """A whole class with another value, which some of its records may have."""

    def breaking(table: pa.Table) -> pa.Table:
        frame = table.to_pandas()
        own = frame.groupby(QUASI, dropna=False).ngroup()
        chosen = (own == own[frame[column].notna() & (frame[column] != value)].iloc[0]).to_numpy()
        values = [value if is_chosen else v for is_chosen, v in zip(chosen, table[column].to_pylist(), strict=True)]
        place = table.column_names.index(column)
        return table.set_column(place, column, pa.array(values, table.schema.field(place).type))

    return breaking


@pytest.mark.parametrize(
    ("breaking", "why"),
    [
        (_other("job", "=h"), "values of 'job' may not stand for the records that share them"),
        (_other("size", "none"), "values of 'size' may not stand for the records that share them"),
        (_other("roof", 7), "released quasi-identifiers are not finite, or no category of the input"),
    ],
)
def test_the_gate_stops_what_is_no_mode_or_median(
    breaking: Callable[[pa.Table], pa.Table], why: str, tmp_path: Path
) -> None:
    changes = {"roles": ROLES, "acknowledge": MEANT, "missing": "separate"}
    made = start(write_release(tmp_path, [people(400)], **changes))
    run_stages(made, "survey", "plan", "scatter", "anonymize")
    name = made.written(CANDIDATE).pieces[0].name
    sink = pa.BufferOutputStream()
    pq.write_table(breaking(pq.read_table(Path(made.work.url) / name)), sink)
    forge(made, name, sink.getvalue().to_pybytes())
    with pytest.raises(GateError, match=why):
        run_stages(made, "validate")


def test_values_that_are_no_level_and_numbers_as_text_are_refused(tmp_path: Path) -> None:
    sizes = {"name": "size", "kind": "ordinal", "levels": LEVELS[1:]}
    table = people(60)
    with pytest.raises(DataError, match=r"'size' has \d+ values that are none of its levels .*; name all levels"):
        release(
            tmp_path / "level", [table], roles={**ROLES, "quasi_identifiers": [sizes], "drop": ["age", "job", "roof"]}
        )
    codes = table.set_column(1, "age", table["age"].cast(pa.string()))
    with pytest.raises(DataError, match="'age' is text, and most of its values are numbers"):
        release(tmp_path / "text", [codes])
    with pytest.raises(SpecError, match="univariate sorts values, and nominal ones such as 'job'"):
        roles = {**ROLES, "quasi_identifiers": ["job"], "drop": ["age", "size", "roof"]}
        release(tmp_path / "sorted", [table], roles=roles, algorithm="univariate")


def test_a_later_night_has_categories_of_its_own_and_no_atom_changes(tmp_path: Path) -> None:
    first, more = people(300), people(120, first=300, jobs="abxyz")
    key = tmp_path / "series.key"
    key.write_text("the key of a test's series", encoding="utf-8")
    key.chmod(0o600)
    changes = {"acknowledge": MEANT, "missing": "separate", "unit": ["id"]}
    changes["series"] = {"mode": "atoms", "key_file": key.name}
    path = write_release(tmp_path, [first], roles=ROLES, **changes)
    run_stages(start(path, identity="one"))
    before = released_table(tmp_path / "output").to_pandas().set_index("row")
    pq.write_table(more, tmp_path / "input" / "part-1.parquet")
    run_stages(start(path, identity="two"))
    after = released_table(tmp_path / "output").to_pandas().set_index("row")
    kept = before.index.intersection(after.index)
    assert len(kept) == 300 and after.loc[kept, QUASI].equals(before.loc[kept, QUASI])
    assert after.loc[after.index.difference(kept), "job"].isin(["=x", "=y", "=z"]).any()
    # Of which the roof would be a number.
    path = write_release(tmp_path, [first], roles={**ROLES, "quasi_identifiers": QUASI}, **changes)
    with pytest.raises(SpecError, match="groups got the mode of 'roof' and would get its mean"):
        run_stages(start(path, identity="three"))


def test_a_column_that_names_its_records_is_no_category() -> None:
    table = pa.table({"who": [f"person {i}" for i in range(60)], "age": list(range(60))})
    with pytest.raises(DataError, match="'who' looks like an identifier: most records have a value of their own"):
        microaggregate(table, ["who", "age"], 3)
    assert len(microaggregate(table.slice(0, 20), ["who", "age"], 3).groups) == 20
