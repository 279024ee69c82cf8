"""Rules between columns and sets of columns that may be known, counted in whole releases against pandas."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from microagg_core.errors import GateError
from microagg_core.pages.operator.inputs import read_inputs
from microagg_core.pages.operator.page import operator_page
from microagg_core.release.audit import read_portrait
from microagg_core.release.manifest import Manifest
from microagg_core.release.verify import verify
from microagg_core.spec.loading import load_spec
from microagg_flows.record import RunRecord
from microagg_flows.release import Release
from microagg_flows.releasing import Order, plan_release
from releasing.runs import released_table, run_stages, start, write_release, write_series

NIGHT = datetime.datetime(2026, 11, 19, 3, 0, tzinfo=datetime.UTC)
ROLES = {
    "identifiers": ["id"],
    "quasi_identifiers": ["entry", "exit", "age"],
    "blocking": ["region"],
    "confidential": ["death", "job", "cost"],
}
MEANT: dict[str, Any] = {
    "roles": ROLES,
    "acknowledge": {
        "nearly_unique": ["death", "cost"],
        "jointly_unique": ["death", "job", "cost"],
        "fixes_quasi_identifier": ["death", "job", "cost"],
        "completes_mean": ["death", "cost"],
    },
}
EDITS = ["entry <= exit", "exit <= death", "age >= 18", "cost < 1000.5"]
BROKEN = {
    "entry <= exit": lambda t: t["entry"] > t["exit"],
    "exit <= death": lambda t: t["exit"] > t["death"],
    "age >= 18": lambda t: t["age"] < 18,
    "cost < 1000.5": lambda t: ~(t["cost"] < 1000.5),
}


def patients(n: int = 900, first: int = 0) -> pa.Table:
    """Nobody enters after an exit, or exits after death; some have not died, and some cost more than they may."""
    rng = np.random.default_rng([7, first])
    entry = rng.integers(0, 3000, n)
    exit_ = entry + rng.integers(0, 2000, n)
    death = (exit_ + rng.integers(0, 300, n)).astype(float)
    days = [np.datetime64("2000-01-01") + values for values in (entry, exit_)]
    died = np.datetime64("2000-01-01") + death.astype(np.int64)
    return pa.table(
        {
            "id": [f"P{first + i}" for i in range(n)],
            "entry": pa.array(days[0].astype("datetime64[D]")),
            "exit": pa.array(days[1].astype("datetime64[D]")),
            "death": pa.array(died.astype("datetime64[s]"), mask=rng.random(n) < 0.3),
            "age": rng.integers(17, 90, n),
            "region": rng.choice(["north", "south"], n),
            "job": rng.choice(["cook", "judge", "smith"], n),
            "cost": rng.gamma(2, 200, n),
        }
    )


def share_of(table: pd.DataFrame, rule: str) -> tuple[int, int]:
    """Rows with both values of a rule, and those of them that break it."""
    columns = [name for name in table if name in rule.split()]
    both = table.dropna(subset=columns)
    return len(both), int(BROKEN[rule](both).sum())


def as_frame(table: pa.Table) -> pd.DataFrame:
    frame = table.to_pandas()
    return frame.assign(**{name: pd.to_datetime(frame[name]) for name in ("entry", "exit", "death")})


def manifest_of(release: Release) -> Manifest:
    assert release.published is not None
    return release.published.manifest


def test_rules_are_counted_before_and_after_as_pandas_counts_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("microagg_core.blocks.packing.FILE_BYTES", 16_384)
    parts = [patients(400), patients(500, first=400)]
    release = run_stages(start(write_release(tmp_path, parts, **MEANT, edits=EDITS)))
    before, after = as_frame(pa.concat_tables(parts)), as_frame(released_table(tmp_path / "output"))
    manifest = manifest_of(release)
    assert len(manifest.parts) > 2
    portrait = read_portrait(release.work, manifest)
    assert portrait is not None and list(portrait.edits) == EDITS
    for entry, (rule, count) in zip(manifest.edits or (), portrait.edits.items(), strict=True):
        assert (count.before.compared, count.before.broken) == share_of(before, rule)
        assert (count.after.compared, count.after.broken) == share_of(after, rule) == (entry.compared, entry.broken)
        assert entry.before is not None and entry.within is not None
        assert abs(entry.before - count.before.share) <= entry.within
        assert entry.within * entry.compared >= 2 * manifest.k, "as many more or less look the same"
    counts = portrait.edits
    assert counts["entry <= exit"].after.broken == 0, "means of one group keep it"
    assert counts["exit <= death"].before.broken == 0 < 50 < counts["exit <= death"].after.broken
    assert counts["cost < 1000.5"].before == counts["cost < 1000.5"].after
    assert_told(tmp_path, release, counts["exit <= death"].in_words("exit <= death"))
    assert verify(str(tmp_path / "output")).passed


def assert_told(folder: Path, release: Release, words: str) -> None:
    manifest = manifest_of(release)
    assert words in (release.published.warnings if release.published else ())
    page = operator_page(read_inputs(release.work, manifest)).decode()
    assert words.replace(" %", "\u00a0%").replace("'", "&#39;").replace("<", "&lt;") in page
    public = (folder / "output" / "2026-11-18" / "r0001" / "README.md").read_text()
    assert "`exit <= death`" in public and "some rows break them" in public


def test_a_rule_that_is_told_wrong_is_found_by_who_verifies(tmp_path: Path) -> None:
    run_stages(start(write_release(tmp_path, [patients(300)], **MEANT, edits=EDITS[1:2])))
    path = next((tmp_path / "output").rglob("manifest.json"))
    manifest = json.loads(path.read_text())
    manifest["edits"][0]["broken"] -= 1
    path.write_text(json.dumps(manifest))
    report = verify(str(tmp_path / "output"))
    assert {check.name for check in report.checks if not check.passed} == {"edits"} and report.exit_code == 4


@pytest.mark.parametrize("rule, passes", [("exit <= death", False), ("age >= 18", True)])
def test_a_rule_may_stop_a_release(tmp_path: Path, rule: str, passes: bool) -> None:
    path = write_release(tmp_path, [patients(300)], **MEANT, edits=[{"rule": rule, "stop": True}])
    if passes:
        assert "edits" in [check.name for check in manifest_of(run_stages(start(path))).checks]
        return
    with pytest.raises(GateError, match=r"edits: 'exit <= death' is broken by .* released, and by 0 % as they came"):
        run_stages(start(path))
    assert not (tmp_path / "output").exists()


def test_a_plan_tells_which_rules_and_sets_a_release_would_break(tmp_path: Path) -> None:
    known = [["age", "job"], ["region", "age"], ["job"], ["cost", "job"]]
    path = write_release(tmp_path, [patients(600)], **MEANT, edits=EDITS, known=known)
    outcome = plan_release(Order(str(path)), RunRecord())
    asked = outcome.expectation.asked if outcome.expectation else None
    assert asked is not None and asked.is_whole
    rules = [words for words in asked.remarks if words.startswith("'")]
    assert [words.split("'")[1] for words in rules] == ["exit <= death"]
    assert "with 'death' among the quasi-identifiers both are means" in rules[0]
    sets = [words.split(":")[0] for words in asked.remarks if words.startswith("known")]
    assert sets == ["known [age, job]", "known [cost, job]"]
    assert any("known [cost, job]: 'cost' has values that fewer than k=3" in words for words in outcome.report.unwise)


def test_few_whole_numbers_are_asked_about_until_the_spec_says_what_they_are(tmp_path: Path) -> None:
    """Over all parts together; floats that are whole are whole numbers; 21 numbers, days and 0.5 are none of codes."""
    rng = np.random.default_rng(8)
    columns = {"roof": [1, 2, 9], "heat": [1.0, 4.0], "age": range(21), "half": [0.5, 1.0], "born": range(3)}
    drawn = {name: rng.choice(list(of), 600) for name, of in columns.items()}
    drawn["heat"][:200] = np.nan
    table = pa.table({**drawn, "born": pa.array(drawn["born"].astype(np.int32)).cast(pa.date32())})
    table = table.append_column("id", pa.array([f"P{i}" for i in range(600)]))
    parts, roles = [table.slice(i, 150) for i in range(0, 600, 150)], {"identifiers": ["id"]}
    path = write_release(tmp_path, parts, roles={**roles, "quasi_identifiers": list(columns)}, missing="separate")
    release = run_stages(start(path))
    asked = [words.split("'")[1] for words in (release.published.warnings if release.published else ())]
    report = release.plan_report
    assert sorted(asked) == ["heat", "roof"] and report is not None
    assert any("'roof' has 3 distinct whole numbers: number, ordinal or nominal?" in words for words in report.unwise)
    said = [{"name": "roof", "kind": "nominal"}, {"name": "heat", "kind": "number"}, "age", "half", "born"]
    path = write_release(tmp_path / "said", parts, roles={**roles, "quasi_identifiers": said}, missing="separate")
    release = run_stages(start(path))
    assert release.published is not None and release.published.warnings == ()
    assert set(released_table(tmp_path / "said" / "output")["roof"].to_pylist()) <= {1, 2, 9}


def test_known_sets_are_counted_over_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("microagg_core.blocks.packing.FILE_BYTES", 4096)
    known = [["age"], ["region", "job"], ["job"]]
    release = run_stages(start(write_release(tmp_path, [patients(900)], **MEANT, known=known)))
    manifest, after = manifest_of(release), released_table(tmp_path / "output").to_pandas()
    assert len(manifest.parts) > 5 and [list(names) for names in manifest.known or ()] == known
    assert all(after.groupby(names).size().min() >= manifest.k for names in known)
    report = verify(str(tmp_path / "output"))
    assert report.passed and "k-anonymity of [region, job]" in [check.name for check in report.checks]
    assert "So is every combination of `region` and `job`" in next(tmp_path.rglob("output/**/README.md")).read_text()


def test_a_release_with_a_known_set_below_k_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One rare job, in one file; and a set with more combinations than are held."""
    monkeypatch.setattr("microagg_core.blocks.packing.FILE_BYTES", 4096)
    table = patients(900)
    jobs = pa.array(["archbishop", "archbishop", *table["job"].to_pylist()[2:]])
    table = table.set_column(table.column_names.index("job"), "job", jobs)
    path = write_release(tmp_path, [table], **MEANT, known=[["job"], ["age", "region"]])
    with pytest.raises(GateError) as caught:
        run_stages(start(path))
    says = caught.value.message
    assert "known sets: 1 combinations of [job] have fewer than k=3 units; make 'job' a quasi-identifier" in says
    assert "archbishop" not in says and not (tmp_path / "output").exists()
    monkeypatch.setattr("microagg_core.inspect.kanonymity.MOST_SPREAD", 20)
    path = write_release(tmp_path, [patients(900)], **MEANT, known=[["cost"]])
    with pytest.raises(GateError, match=r"known sets: \[cost\] has more than .* combinations, which are not counted"):
        run_stages(start(path))
    assert not (tmp_path / "output").exists()


def test_of_survivors_rules_and_sets_are_counted_as_released(tmp_path: Path) -> None:
    meant = {name: value for name, value in MEANT.items() if name != "roles"}
    changes = {"roles": ROLES, **meant, "edits": EDITS[:2], "known": [["job"]]}
    path = write_series(tmp_path, [patients(300)])
    spec = json.loads(json.dumps(load_spec(str(path)).series.model_dump(mode="json")))  # type: ignore[union-attr]
    path = write_release(tmp_path, [patients(300)], unit=["id"], series=spec, **changes)
    run_stages(start(path))
    write_release(tmp_path, [patients(300), patients(300, first=300)], unit=["id"], series=spec, **changes)
    release = run_stages(start(path, now=NIGHT))
    manifest, after = manifest_of(release), as_frame(released_table(tmp_path / "output"))
    assert manifest.rows == len(after) > 500 and manifest.known == (("job",),)
    for entry in manifest.edits or ():
        assert (entry.compared, entry.broken) == share_of(after, entry.rule) and entry.before is None
    portrait = read_portrait(release.work, manifest)
    arrivals = as_frame(patients(300, first=300))
    assert portrait is not None
    assert all(
        (count.before.compared, count.before.broken) == share_of(arrivals, rule)
        for rule, count in portrait.edits.items()
    )
