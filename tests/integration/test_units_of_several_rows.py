"""Households: the promise counted by hand, releases that are broken, one result however made, nights, an erasure."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Hashable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from microagg_core.data.tables.slices import RECORD, read_slice
from microagg_core.errors import DataError, InternalError
from microagg_core.inspect.contract import UNIT, ReleasedFile
from microagg_core.inspect.gate import Inspected, make_checks, note_file
from microagg_core.release.steps.candidate import CANDIDATE, ORIGINS
from microagg_core.release.steps.checking import EXPECTED, notes_of_input, promise_of
from microagg_core.release.steps.demands import DISTRIBUTIONS
from microagg_core.release.verify import verify
from microagg_core.series.eraser import forget
from reference.profiles import least_profile, profile, rows_of_units
from releasing.runs import NOW, data_digests, released_table, run_stages, start, write_release

KEYS = ["region", "age", "sex", "tenure"]
ROLES = {
    "identifiers": ["home", "person"],
    "quasi_identifiers": ["age", {"name": "sex", "kind": "nominal"}, {"name": "tenure", "kind": "nominal"}],
    "blocking": ["region"],
    "confidential": ["tag"],
}
LOOKS = ("nearly_unique", "jointly_unique", "fixes_quasi_identifier", "completes_mean")
UNITS: dict[str, Any] = {"id": "home", "row": "person", "rows": "several", "per_unit": ["tenure"]}
SPEC: dict[str, Any] = {"roles": ROLES, "unit": UNITS, "acknowledge": {look: ["tag"] for look in LOOKS}, "k": 3}


def households(n: int = 150, seed: int = 1) -> pd.DataFrame:
    """Persons in an order in which those of a household are far apart; ``tag`` is each person's own."""
    rng = np.random.default_rng(seed)
    sizes = rng.choice([1, 2, 3, 4, 5], n, p=[0.3, 0.3, 0.2, 0.17, 0.03])
    home = np.repeat(np.arange(n), sizes)
    data = pd.DataFrame(
        {
            "home": [f"H{i}" for i in home],
            "region": np.repeat(rng.choice(["north", "south"], n, p=[0.7, 0.3]), sizes),
            "tenure": np.repeat(rng.choice(["own", "rent", "free"], n), sizes),
            "age": rng.integers(0, 90, len(home)),
            "sex": rng.choice(["f", "m"], len(home)),
            "tag": np.arange(len(home)),
        }
    )
    data["person"] = [f"P{i}" for i in range(len(data))]
    return data.sample(frac=1, random_state=seed).reset_index(drop=True)


def as_table(data: pd.DataFrame) -> pa.Table:
    return pa.Table.from_pandas(data, preserve_index=False)


def combinations(released: pd.DataFrame) -> list[tuple[Hashable, ...]]:
    return list(released[KEYS].itertuples(index=False, name=None))


def with_homes(folder: Path, data: pd.DataFrame) -> pd.DataFrame:
    """Read the newest release, and whose each row is, by the tag that no one else has."""
    released = released_table(folder / "output").to_pandas()
    assert not set(released.columns) & {"home", "person", UNIT}
    return released.assign(home=data.set_index("tag")["home"].reindex(released["tag"]).to_numpy())


@pytest.mark.parametrize(
    ("seed", "changes"),
    [
        (1, {}),
        (2, {"k": 5, "refine": "off"}),
        (3, {"unit": {"id": "home", "rows": {"at_most": 3, "keep": "oldest", "by": "age"}}}),
        (4, {"blocks": {"max_records": 20}}),
        (5, {"algorithm": "v_mdav", "unit": {"id": ["home"], "rows": {"at_most": 2}}}),
        (6, {"roles": {**ROLES, "blocking": [], "quasi_identifiers": ["age", "sex", "region", "tenure"]}}),
        (7, {"unit": {"id": "home", "rows": {"at_most": 2, "keep": "newest"}}}),
    ],
    ids=["plain", "k5", "oldest", "cut", "first", "unblocked", "last"],
)
def test_every_profile_is_that_of_k_units(tmp_path: Path, seed: int, changes: dict[str, Any]) -> None:
    data, spec = households(300, seed), {**SPEC, **changes}
    run_stages(start(write_release(tmp_path, [as_table(data[:200]), as_table(data[200:])], **spec)))
    released = with_homes(tmp_path, data)
    assert least_profile(released["home"].tolist(), combinations(released)) >= spec["k"]
    whole = data.groupby("home").size()
    if isinstance(limit := spec["unit"]["rows"], dict):
        whole = whole.clip(upper=limit["at_most"])
        if "by" in limit:
            oldest = data.sort_values("age", kind="stable").groupby("home")["tag"].agg(lambda tags: set(tags[:3]))
            ages = data.set_index("tag")["age"]
            for home, tags in released.groupby("home")["tag"]:
                assert sorted(ages[list(tags)]) == sorted(ages[list(oldest[home])])
        if limit.get("keep") == "newest":
            last = data.groupby("home")["tag"].agg(lambda tags: set(tags[-2:]))
            assert all(set(tags) == last[home] for home, tags in released.groupby("home")["tag"])
    own = released.groupby("home").size()
    assert (own == whole[own.index]).all(), "a unit is released in part"
    assert len(whole) - len(own) == 0 or len(whole) - len(own) >= spec["k"]
    for column in ("age",):
        before = data.set_index("tag")[column][released["tag"]]
        assert released[column].mean() == pytest.approx(before.mean(), abs=0.5)
    if "tenure" in spec["unit"].get("per_unit", ()):
        assert released.groupby("home")["tenure"].nunique().max() == 1


def test_how_the_input_lies_does_not_show(tmp_path: Path) -> None:
    data, digests = households().assign(age=lambda of: of["age"] // 30 * 30), []
    for name, cuts in (("one", [0, len(data)]), ("three", [0, 10, 200, len(data)])):
        (folder := tmp_path / name).mkdir()
        parts = [as_table(data[start:end]) for start, end in pairwise(cuts)]
        run_stages(start(write_release(folder, parts, **SPEC)))
        digests.append(data_digests(folder / "output"))
    assert digests[0] == digests[1]


def test_weights_of_units_keep_totals_and_none_dominates(tmp_path: Path) -> None:
    data, rng = households(200, 6), np.random.default_rng(6)
    weights = pd.Series(rng.lognormal(3, 1.2, 200), index=[f"H{i}" for i in range(200)])
    data["w"] = data["home"].map(weights)
    spec = {**SPEC, "roles": {**ROLES, "weight": "w"}, "blocks": {"undersized": "suppress"}}
    run_stages(start(write_release(tmp_path, [as_table(data)], **spec)))
    released = with_homes(tmp_path, data)
    before = data.set_index("tag").loc[released["tag"]]
    assert (before["age"] * before["w"]).sum() == pytest.approx((released["age"] * released["w"]).sum(), rel=1e-9)
    assert before["w"].sum() == pytest.approx(released["w"].sum(), rel=1e-9)
    assert least_profile(released["home"].tolist(), list(zip(*(released[c] for c in [*KEYS, "w"]), strict=True))) >= 3
    share = before["w"].to_numpy() / (released.groupby([*KEYS, "w"])["w"].transform("sum"))
    assert share.max() <= 0.5 + 1e-9
    data.loc[data["home"].duplicated(), "w"] *= 2
    with pytest.raises(DataError, match=r"weight 'w' has several values within \d+ units"):
        run_stages(start(write_release(tmp_path, [as_table(data)], **spec), identity="again"))


def test_every_position_holds_what_is_demanded(tmp_path: Path) -> None:
    data = households(200, 7)
    data["job"] = np.random.default_rng(7).choice(["none", "some", "full"], len(data), p=[0.6, 0.3, 0.1])
    roles = {**ROLES, "confidential": ["tag", "job"]}
    acknowledge = {look: ["tag", "job"] for look in LOOKS}
    spec = {**SPEC, "roles": roles, "acknowledge": acknowledge, "protect": {"job": {"distinct": 2}}}
    run_stages(start(write_release(tmp_path, [as_table(data)], **spec)))
    released = with_homes(tmp_path, data)
    assert least_profile(released["home"].tolist(), combinations(released)) >= 3
    assert released.groupby(KEYS)["job"].nunique().min() >= 2


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = write_release(tmp_path_factory.mktemp("made"), [as_table(households())], **SPEC)
    return run_stages(start(path), "survey", "plan", "scatter", "anonymize")


def failed(release: Any, files: list[tuple[pa.Table, pa.Table]]) -> set[str]:
    """Names of the checks that would stop the release of these files, with what lies beside them."""
    promise = promise_of(release.planned, release.known(DISTRIBUTIONS))
    noted = []
    for number, (table, origins) in enumerate(files):
        parts = release.planned.survey.parts_of(np.asarray(origins[RECORD]).astype(np.int64))
        noted.append(note_file(ReleasedFile(promise, table.combine_chunks(), origins, parts, number)))
    checks = make_checks(promise, Inspected.of(noted), notes_of_input(release.written(EXPECTED)))
    return {check.name for check in checks if not check.passed}


def candidates(release: Any) -> list[tuple[pa.Table, pa.Table]]:
    files, beside = (release.written(output).pieces for output in (CANDIDATE, ORIGINS))
    return [
        (pq.read_table(Path(release.work.url) / file.name), read_slice(release.work.read(of_file.name)))
        for file, of_file in zip(files, beside, strict=True)
    ]


def test_the_gate_counts_profiles_as_anybody_would(made: Any) -> None:
    """What is broken by chance, 200 times, is stopped if and only if the plainest count finds too few units."""
    (files,) = candidates(made)
    table, origins = files
    assert failed(made, [files]) == set()
    data, rng, stopped = table.to_pandas(), np.random.default_rng(3), 0
    units, everybody = np.asarray(origins[UNIT]), Counter[bool]()
    exactly = Counter[int]()
    for _ in range(200):
        broken = data.copy()
        rows = rng.choice(len(data), 2 if rng.random() < 0.5 else 1, replace=False)
        others = rng.choice(len(data), len(rows), replace=False)
        for column in KEYS[1:]:  # the rows of two combinations of a label are exchanged, or one is moved
            values = broken[column].to_numpy().copy()
            values[rows], values[others] = values[others].copy(), values[rows] if rng.random() < 0.5 else values[others]
            broken[column] = values
        if rng.random() < 0.3:  # a unit gets what is released of another of as many rows
            broken, of_unit = data.copy(), pd.Series(units).groupby(units).groups
            one, other = (of_unit[unit] for unit in rng.choice(np.unique(units), 2, replace=False))
            if len(one) == len(other):
                broken.loc[one, KEYS[1:]] = data.loc[other, KEYS[1:]].to_numpy()
        least = least_profile(units.tolist(), combinations(broken))
        exactly[least] += 1
        is_short = least < 3
        found = failed(made, [(pa.Table.from_pandas(broken, table.schema, preserve_index=False), origins)])
        assert ("profiles" in found) == is_short
        everybody[is_short] += 1
        stopped += is_short
    assert stopped > 50 and everybody[False] > 0 and exactly[2] > 3


def test_units_that_are_parted_or_lack_a_row_stop_the_release(made: Any) -> None:
    (files,) = candidates(made)
    table, origins = files
    sizes = Counter(np.asarray(origins[UNIT]).tolist())
    row = next(i for i, unit in enumerate(origins[UNIT].to_pylist()) if sizes[unit] > 1)
    rest = np.delete(np.arange(table.num_rows), row)
    two_files = [tuple(of.take(pa.array(rows)) for of in files) for rows in ([row], rest)]
    assert "profiles" in failed(made, two_files)  # type: ignore[arg-type]
    assert "profiles" in failed(made, [two_files[1]])  # type: ignore[list-item]
    # Of all units of a profile one row each in another file: in each of the two k units share what is there.
    units, every = origins[UNIT].to_pylist(), combinations(table.to_pandas())
    whose = {unit: profile(rows) for unit, rows in rows_of_units(units, every).items()}
    alike = [unit for unit, shared in whose.items() if shared == whose[units[row]]]
    apart = [
        next(i for i, at in enumerate(zip(units, every, strict=True)) if at == (unit, every[row])) for unit in alike
    ]
    parted = [
        tuple(of.take(pa.array(rows)) for of in files) for rows in (apart, np.delete(np.arange(len(table)), apart))
    ]
    assert failed(made, parted) == {"profiles"}  # type: ignore[arg-type]
    # A unit that is said to be another's: what lies beside the file is held against the input.
    wrong = np.asarray(origins[UNIT]).copy()
    wrong[row] = wrong[rest[0]] + 1_000_000
    other = origins.set_column(origins.column_names.index(UNIT), UNIT, pa.array(wrong))
    assert {"values", "profiles"} <= failed(made, [(table, other)])


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"unit": {**UNITS, "per_unit": ["sex"]}}, r"unit.per_unit: 'sex' has several values within \d+ units"),
        ({"unit": {**UNITS, "row": "person2"}}, r"unit.row: \d+ rows have the 'person2' of another row of their unit"),
        ({"k": 200}, "the input has 150 units, fewer than k=200"),
    ],
)
def test_units_that_are_not_as_the_spec_says(tmp_path: Path, changes: dict[str, Any], says: str) -> None:
    data = households().assign(person2="the same")
    spec = {**SPEC, "roles": {**ROLES, "identifiers": ["home", "person", "person2"]}, **changes}
    with pytest.raises(DataError, match=says):
        run_stages(start(write_release(tmp_path, [as_table(data)], **spec)))
    assert not (tmp_path / "output").exists()


def test_blocks_do_not_part_units(tmp_path: Path) -> None:
    data = households()
    data.loc[data.index[data["home"].duplicated()][0], "region"] = "west"
    with pytest.raises(DataError, match="blocking column 'region' has several values within 1 units"):
        run_stages(start(write_release(tmp_path, [as_table(data)], **SPEC)))


class Panel:
    """A series of nights of households; traces are counted by hand."""

    def __init__(self, folder: Path, mode: str) -> None:
        self.folder, self.data, self.traces = folder, households(400, 9), dict[Hashable, list[Hashable]]()
        key = folder / "series.key"
        key.write_text("the key of a test's series", encoding="utf-8")
        key.chmod(0o600)
        series = {"mode": mode, "key_file": key.name, **({"nights": 2} if mode == "rotation" else {})}
        self.spec, self.nights = {**SPEC, "series": series}, 0

    def night(self, present: pd.Series[bool]) -> pd.DataFrame:
        path = write_release(self.folder, [as_table(self.data[present])], **self.spec)
        now = NOW + datetime.timedelta(days=self.nights)
        run_stages(start(path, identity=f"n{self.nights}", now=now))
        released = with_homes(self.folder, self.data)
        rows = rows_of_units(released["home"].tolist(), combinations(released))
        for home in {*self.traces, *rows}:
            trace = self.traces.setdefault(home, [None] * self.nights)
            trace.append(profile(rows[home]) if home in rows else None)
        self.nights += 1
        assert min(Counter(map(tuple, self.traces.values())).values()) >= 3
        assert least_profile(released["home"].tolist(), combinations(released)) >= 3
        return released


@pytest.mark.parametrize("mode", ["atoms", "rotation", "disjoint"])
def test_nights_of_a_panel(tmp_path: Path, mode: str) -> None:
    """Households come and leave, persons of known ones come, leave and are back: each trace is that of k households."""
    panel, rng = Panel(tmp_path, mode), np.random.default_rng(4)
    home, born = panel.data["home"], pd.Series(rng.choice(4, len(panel.data), p=[0.9, 0.04, 0.03, 0.03]))
    joins = home.map(pd.Series(rng.choice(4, home.nunique(), p=[0.6, 0.15, 0.15, 0.1]), index=home.unique()))
    late = set[int]()
    for night in range(4):
        known = {of for of, trace in panel.traces.items() if any(trace)}
        late |= set(panel.data["tag"][(born == night) & home.isin(known) & (joins < night)])
        away = pd.Series(rng.random(len(home)) < 0.02 * (night > 0))
        left = home.isin(rng.choice(home.unique(), 3 * night, replace=False))
        released = panel.night((joins <= night) & (born <= night) & ~away & ~left)
        assert not late & set(released["tag"]), "a row more tells a household from those who share its others"
    assert len(late) > 10


def test_an_erased_household_takes_all_of_its_rows_and_stays_away(tmp_path: Path) -> None:
    panel = Panel(tmp_path, "atoms")
    everybody = pd.Series(True, index=panel.data.index)
    released = panel.night(everybody)
    home = released["home"].value_counts().index[0]
    (tmp_path / "who.csv").write_text(f"home\n{home}\n")
    report = forget(str(tmp_path / "release.yaml"), str(tmp_path / "who.csv"), True, NOW)
    rows = int((panel.data["home"] == home).sum())
    assert (report.listed, report.named, report.forgotten, report.done) == (1, rows, rows, True)
    for file in (tmp_path / "output").rglob("data/*"):
        tags = set(pq.read_table(file)["tag"].to_pylist())
        assert not tags & set(panel.data["tag"][panel.data["home"] == home])
    assert verify(str(tmp_path / "output")).passed
    left = with_homes(tmp_path, panel.data)
    assert least_profile(left["home"].tolist(), combinations(left)) >= 3
    # The same household with other persons is who was erased.
    again = panel.data["home"] == home
    panel.data.loc[again, ["person", "tag"]] = [[f"Q{i}", 10_000 + i] for i in range(rows)]
    path = write_release(tmp_path, [as_table(panel.data)], **panel.spec)
    run_stages(start(path, identity="n1", now=NOW + datetime.timedelta(days=1)))
    assert home not in set(with_homes(tmp_path, panel.data)["home"])


def test_rows_that_came_on_other_nights_stop_a_night(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Should late rows of a known unit ever be grouped, they are found without the others of their unit."""
    panel = Panel(tmp_path, "atoms")
    home = panel.data["home"]
    late = panel.data.index.isin(panel.data[home.map(home.value_counts()) > 1].drop_duplicates("home").index)
    panel.night(pd.Series(~late))
    monkeypatch.setattr("microagg_core.series.match._Meeting._close_late_rows", lambda meeting: None)
    with pytest.raises(InternalError, match="the rows of a unit are not together in their block"):
        panel.night(pd.Series(True, index=home.index))
