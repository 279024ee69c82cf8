"""The spec's ``protect``: what can be demanded, and a sentence for what cannot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from covering import each
from microagg_core.errors import SpecError
from microagg_core.spec.json_schema import spec_schema
from microagg_core.spec.loading import canonical, load_spec
from microagg_core.spec.release import ReleaseSpec

SPEC: dict[str, Any] = {
    "name": "people",
    "k": 3,
    "input": {"url": "in.csv"},
    "output": {"url": "out"},
    "work": {"url": "work"},
    "unit": ["person"],
    "roles": {
        "identifiers": ["person"],
        "quasi_identifiers": ["age"],
        "confidential": ["diagnosis", "income", "linkage"],
    },
}
EXAMPLE = {"diagnosis": {"distinct": 2}, "income": {"t": 0.15}, "*": {"inference": 0.05}, "linkage": 0.2}


def loaded(folder: Path, protect: Any, **others: Any) -> ReleaseSpec:
    path = folder / "release.yaml"
    path.write_text(yaml.safe_dump({**SPEC, **others, "protect": protect}))
    return load_spec(str(path))


def test_columns_and_links_stand_side_by_side(tmp_path: Path) -> None:
    protect = loaded(tmp_path, EXAMPLE).protect
    assert protect is not None and protect.linkage == 0.2
    demands = protect.of_columns(["diagnosis", "income", "linkage"])
    assert [(d.distinct, d.t, d.inference) for d in demands.values()] == [
        (2, None, 0.05),
        (None, 0.15, 0.05),
        (None, None, 0.05),
    ]


def test_a_column_may_be_called_linkage(tmp_path: Path) -> None:
    protect = loaded(tmp_path, {"linkage": {"distinct": 2}}).protect
    assert protect is not None and protect.linkage is None
    assert protect.of_columns(["linkage"])["linkage"].distinct == 2


def test_a_spec_is_the_same_when_it_was_written_out(tmp_path: Path) -> None:
    validator = jsonschema.Draft202012Validator(spec_schema())
    for protect in (EXAMPLE, {"linkage": {"distinct": 2}}, {}, None):
        spec = loaded(tmp_path, protect)
        assert ReleaseSpec.model_validate(spec.model_dump(mode="json")) == spec
        assert validator.is_valid({**SPEC, "protect": protect})


def test_demands_decide_the_release_and_none_leave_it_what_it_was(tmp_path: Path) -> None:
    assert "protect" not in canonical(loaded(tmp_path, None))
    assert canonical(loaded(tmp_path, EXAMPLE)) != canonical(loaded(tmp_path, {**EXAMPLE, "linkage": 0.3}))


@each(
    "protect, sentence",
    [
        ({"diagnosis": {"distinct": 4}}, "protect.diagnosis.distinct: must be at most k = 3, as many as a group's"),
        ({"diagnosis": {"distinct": 1}}, "protect.diagnosis.distinct: must be at least 2 (got 1)"),
        ({"income": {"t": 0}}, "protect.income.t: must be greater than 0"),
        ({"income": {"t": 1.5}}, "protect.income.t: must be less than 1"),
        ({"income": {"t": "low"}}, "protect.income.t: must be a number (got 'low')"),
        ({"income": {"closeness": 0.1}}, "closeness: is nothing that can be demanded of a column; that is distinct, t"),
        ({"income": 0.1}, "protect.income: must be a mapping with some of the keys distinct, t, inference"),
        ({"income": {}}, "protect.income: must be a mapping with some of the keys distinct, t, inference"),
        ({"age": {"distinct": 2}}, "protect.age: is not a confidential column"),
        ({"linkage": 2}, "protect.linkage: must be at most 1"),
        ({"*": {"inference": -0.1}}, "inference: must be at least 0"),
        ([1], "protect: must be a mapping, such as {diagnosis: {distinct: 2}, linkage: 0.2}"),
    ],
)
def test_what_cannot_be_demanded_is_told_in_a_sentence(tmp_path: Path, protect: Any, sentence: str) -> None:
    with pytest.raises(SpecError) as refused:
        loaded(tmp_path, protect)
    assert sentence in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("mode", ["atoms", "rotation"])
def test_series_whose_groups_stay_cannot_promise_it(tmp_path: Path, mode: str) -> None:
    series = {"mode": mode, **({"nights": 3} if mode == "rotation" else {})}
    with pytest.raises(SpecError, match=f"protect: is not for mode: {mode}, in which groups stay as they are"):
        loaded(tmp_path, EXAMPLE, series=series)
    assert loaded(tmp_path, EXAMPLE, series={"mode": "disjoint"}).protect is not None
