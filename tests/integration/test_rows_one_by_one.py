"""Visits of patients that are released one by one: units counted by hand, what ties them, and what is broken."""

from __future__ import annotations

import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from microagg_core.data.tables.slices import RECORD, read_slice, to_bytes
from microagg_core.errors import DataError, GateError
from microagg_core.inspect.contract import UNIT
from microagg_core.release.steps.candidate import ORIGINS
from releasing.runs import NOW, data_digests, forge, released_table, run_stages, start, write_release

KEYS = ["month", "age", "sex"]
ROLES: dict[str, Any] = {
    "identifiers": ["patient", "visit"],
    "quasi_identifiers": ["age", {"name": "sex", "kind": "nominal"}],
    "blocking": ["month"],
    "confidential": ["tag", "cost", "ill"],
}
TAGS = {look: ["tag"] for look in ("nearly_unique", "fixes_quasi_identifier", "completes_mean")}
SPEC: dict[str, Any] = {
    "roles": ROLES,
    "unit": {"id": "patient", "row": "visit", "rows": "several", "rows_tied": "impossible"},
    "acknowledge": {**TAGS, "nearly_unique": ["tag", "cost"], "jointly_unique": ["tag", "cost", "ill"]},
    "k": 3,
}


def visits(n: int = 300, seed: int = 1) -> pd.DataFrame:
    """Visits in any order: patients have up to 30, in any months; ``tag`` is each visit's own, and tells nothing."""
    rng = np.random.default_rng(seed)
    sizes = np.minimum(rng.geometric(0.3, n), 30)
    patient, rows = np.repeat(np.arange(n), sizes), sizes.sum()
    data = pd.DataFrame(
        {
            "patient": [f"P{i}" for i in patient],
            "visit": [f"V{i}" for i in range(rows)],
            "month": rng.choice(["jan", "feb", "mar", "apr", "nov", "dec"], rows, p=[0.3, 0.3, 0.2, 0.16, 0.03, 0.01]),
            "age": np.repeat(rng.integers(0, 95, n), sizes) + rng.integers(0, 2, rows),
            "sex": np.repeat(rng.choice(["f", "m"], n), sizes),
            "tag": rng.permutation(rows),
            "cost": rng.lognormal(5, 1, rows).round(2),
            "ill": rng.choice(["flu", "gout", "no"], rows, p=[0.3, 0.1, 0.6]),
        }
    )
    return data.sample(frac=1, random_state=seed).reset_index(drop=True)


def as_table(data: pd.DataFrame) -> pa.Table:
    return pa.Table.from_pandas(data, preserve_index=False)


def with_patients(folder: Path, data: pd.DataFrame) -> pd.DataFrame:
    """Read the newest release, and whose each row is, by the tag that no other has."""
    released = released_table(folder / "output").to_pandas()
    assert not set(released.columns) & {"patient", "visit", UNIT}
    return released.assign(patient=data.set_index("tag")["patient"].reindex(released["tag"]).to_numpy())


def least_units(released: pd.DataFrame, keys: list[str]) -> int:
    return int(released.groupby(keys, dropna=False)["patient"].nunique().min())


@pytest.mark.parametrize(
    ("seed", "changes"),
    [
        (1, {}),
        (2, {"k": 6, "refine": "off"}),
        (3, {"blocks": {"max_records": 40}}),
        (4, {"blocks": {"undersized": "suppress"}, "k": 15}),
        (5, {"unit": {**SPEC["unit"], "rows": {"at_most": 4}}, "algorithm": "v_mdav"}),
        (6, {"roles": {**ROLES, "blocking": [], "quasi_identifiers": ["age", "sex", "month"]}, "k": 10}),
        (7, {"roles": {**ROLES, "quasi_identifiers": ["sex"], "blocking": ["month", "age"]}}),
    ],
    ids=["plain", "k6", "cut", "withheld", "at most", "unblocked", "keys of few"],
)
def test_every_combination_is_that_of_k_units(tmp_path: Path, seed: int, changes: dict[str, Any]) -> None:
    data, spec = visits(300, seed), {**SPEC, **changes}
    run_stages(start(write_release(tmp_path, [as_table(data[:200]), as_table(data[200:])], **spec)))
    released = with_patients(tmp_path, data)
    assert least_units(released, KEYS) >= spec["k"]
    groups = released.groupby(KEYS, dropna=False)
    assert (groups.size() > groups["patient"].nunique()).any(), "no unit has two rows alike, so rows were counted"
    gone = data[~data["tag"].isin(released["tag"])]
    if "at_most" in str(spec["unit"]):
        assert (released.groupby("patient").size() == data.groupby("patient").size().clip(upper=4)).all()
    elif "suppress" in str(changes):
        assert gone["patient"].nunique() >= spec["k"] and set(gone["month"]) == {"nov", "dec"}
    else:
        assert gone.empty


@pytest.mark.parametrize("sampled", [200_000, 100], ids=["all", "some"])
def test_cuts_leave_k_units(tmp_path: Path, sampled: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Patients come twenty times, at one age: what is cut at ages would have the visits of two or three."""
    monkeypatch.setattr("microagg_core.release.steps.cuts._SAMPLE_ROWS", sampled)
    data = visits(900, 2)[:800].assign(patient=[f"P{i % 40}" for i in range(800)], age=[i % 40 for i in range(800)])
    roles = {**ROLES, "blocking": [], "quasi_identifiers": ["age"], "drop": ["month", "sex"]}
    spec = {**SPEC, "roles": roles, "blocks": {"max_records": 50}, "k": 7}
    made = run_stages(start(write_release(tmp_path, [as_table(data)], **spec)))
    assert least_units(with_patients(tmp_path, data), ["age"]) >= 7
    assert 1 < made.planned.outline.n_blocks <= 5


def test_how_the_input_lies_does_not_show(tmp_path: Path) -> None:
    data, digests = visits(), []
    for name, cuts in (("one", [0, len(data)]), ("three", [0, 10, 200, len(data)])):
        (folder := tmp_path / name).mkdir()
        run_stages(start(write_release(folder, [as_table(data[a:b]) for a, b in pairwise(cuts)], **SPEC)))
        digests.append(data_digests(folder / "output"))
    assert digests[0] == digests[1]


def of_patient(data: pd.DataFrame, seed: int, values: list[Any]) -> pd.Series[Any]:
    """A value of each patient."""
    drawn = np.random.default_rng(seed).choice(values, data["patient"].nunique())
    return data["patient"].map(dict(zip(data["patient"].unique(), drawn, strict=True)))


def tied(how: str) -> pd.DataFrame:
    data = visits(400, 8)
    rng = np.random.default_rng(8)
    if how == "equal":
        data["cost"] = of_patient(data, 1, np.round(rng.lognormal(5, 1, 400), 2).tolist())
    elif how == "near":
        data["cost"] = (
            of_patient(data, 1, rng.lognormal(5, 1, 400).tolist()) * rng.uniform(0.99, 1.01, len(data))
        ).round(2)
    elif how == "few values":
        data["ill"] = of_patient(data, 1, ["flu", "gout", "no"])
    elif how == "two at once":  # each by itself is chance, and which patient it is shows in whether they go together
        data["ill"] = rng.choice(["flu", "no"], len(data))
        flips = of_patient(data, 1, [0, 1]) == 1
        data["cost"] = np.where((data["ill"] == "flu") ^ flips, 1.0, 2.0)
    elif how == "the row before":
        data["ill"], before = data["cost"].round(2), data.groupby("patient")["cost"].shift()
        data["ill"] = np.where(before.isna(), rng.lognormal(5, 1, len(data)).round(2), before)
    return data


@pytest.mark.parametrize(
    ("how", "columns"),
    [
        ("equal", "'cost'"),
        ("near", "'cost'"),
        ("few values", "'ill'"),
        ("two at once", "'cost' with 'ill'"),
        ("the row before", "'cost' with 'ill'"),
    ],
)
def test_what_ties_rows_stops_the_release(tmp_path: Path, how: str, columns: str) -> None:
    looks = {look: ["tag", "cost", "ill"] for look in [*SPEC["acknowledge"], "ties_few_records"]}
    path = write_release(tmp_path, [as_table(tied(how))], **{**SPEC, "acknowledge": looks})
    with pytest.raises(GateError, match=f"ties: values of {columns} are more alike in rows of a unit"):
        run_stages(start(path))
    assert not (tmp_path / "output").exists()


def test_what_a_combination_says_is_no_tie(tmp_path: Path) -> None:
    """What goes with the sex, or with the age, is alike in visits of a patient, and tells no more than these."""
    data, rng = visits(500, 9), np.random.default_rng(9)
    data["age"] = of_patient(data, 2, [20, 40, 60, 80])
    data["cost"] = (rng.lognormal(5, 1, len(data)) * np.where(data["sex"] == "f", 1, 40)).round(2)
    data["ill"] = np.where(rng.random(len(data)) < data["age"] / 100, "gout", "no")
    run_stages(start(write_release(tmp_path, [as_table(data)], **SPEC)))
    assert least_units(with_patients(tmp_path, data), KEYS) >= 3


def test_the_gate_finds_units_that_are_said_to_be_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups of k rows that are not of k units stop at the gate, and so does a file whose rows are given to others."""
    data = visits()
    path = write_release(tmp_path, [as_table(data)], **SPEC)
    monkeypatch.setattr("microagg_core.release.steps.demands.groups_of_units", lambda points, labels, *_, **__: labels)
    with pytest.raises(GateError, match=r"k-anonymity: \d+ combinations have fewer than k=3 units"):
        run_stages(start(path))

    monkeypatch.undo()
    release = run_stages(start(path, identity="other"), "survey", "plan", "scatter", "anonymize")
    for piece in release.written(ORIGINS).pieces:
        origins = read_slice(release.work.read(piece.name))
        own = origins.set_column(origins.column_names.index(UNIT), UNIT, origins[RECORD])
        forge(release, piece.name, to_bytes(own))
    with pytest.raises(GateError, match="values: values differ from the input's in part 0"):
        run_stages(release, "validate")


def test_a_night_releases_nothing_more_of_known_units(tmp_path: Path) -> None:
    data = visits(400, 3)
    key = tmp_path / "series.key"
    key.write_text("the key of a test's series", encoding="utf-8")
    key.chmod(0o600)
    spec = {**SPEC, "series": {"mode": "disjoint", "key_file": key.name}}
    late, first = data["patient"].isin([f"P{i}" for i in range(250, 400)]), data["visit"].str.endswith(("1", "2", "3"))
    seen = set[str]()
    for night, rows in enumerate((~late & ~first, pd.Series(True, index=data.index))):
        path = write_release(tmp_path, [as_table(data[rows])], **spec)
        run_stages(start(path, identity=f"n{night}", now=NOW + datetime.timedelta(days=night)))
        released = with_patients(tmp_path, data)
        assert least_units(released, KEYS) >= 3 and not seen & set(released["patient"])
        seen |= set(released["patient"])
    assert len(seen) > 350


def test_whose_values_differ_within_units_may_be_anything_but_per_unit(tmp_path: Path) -> None:
    whole = {**SPEC, "unit": {**SPEC["unit"], "rows_tied": "possible"}}
    with pytest.raises(DataError, match="blocking column 'month' has several values within"):
        run_stages(start(write_release(tmp_path, [as_table(visits())], **whole)))
