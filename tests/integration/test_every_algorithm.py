"""Every algorithm of the registry makes a release: planned by its own model, k-anonymous, and named in the manifest."""

from __future__ import annotations

from pathlib import Path

import pytest

from inputs.people import people
from microagg_core.group.algorithms import AlgorithmInfo, algorithms
from releasing.runs import ROLES, released_table, run_stages, start, write_release


@pytest.mark.parametrize("info", [pytest.param(info, id=name) for name, info in algorithms().items()])
def test_a_release(info: AlgorithmInfo, tmp_path: Path) -> None:
    k = min(3, info.max_k or 3)
    quasi_identifiers = ["x", "y"] if info.refuses(k, 2) is None else ["x"]
    roles = {**ROLES, "quasi_identifiers": quasi_identifiers, "drop": list({"x", "y"} - {*quasi_identifiers})}
    words = {parameter.name: parameter.words[0] for parameter in info.parameters if parameter.words}
    algorithm = {"name": info.name, **words}
    release = run_stages(start(write_release(tmp_path, [people(100)], k=k, roles=roles, algorithm=algorithm)))
    assert release.published is not None
    entry = release.published.manifest.algorithm
    assert (entry.name, entry.parameters) == (info.name, info.with_defaults(words))
    rows = released_table(tmp_path / "output").to_pandas()
    assert len(rows) == 100
    assert rows.groupby(["region", "town", *quasi_identifiers], dropna=False).size().min() >= k


def test_blocks_are_cut_to_what_an_algorithm_takes(tmp_path: Path) -> None:
    release = run_stages(start(write_release(tmp_path, [people(300)], algorithm="exhaustive")), "survey", "plan")
    assert release.plan_report is not None and release.plan_report.max_records == 20
    assert release.plan_report.largest[0].records <= 20 and release.planned.outline.rows.sum() == 300
