"""The spec's ``analyses``: formulas that are taken, and a sentence with its line for those that are not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema
import pyarrow as pa
import pytest
import yaml

from covering import each
from microagg_core.errors import SpecError
from microagg_core.spec.analyses import MOST_ANALYSES, MOST_TERMS, formula_columns
from microagg_core.spec.columns import resolve_schema
from microagg_core.spec.json_schema import spec_schema
from microagg_core.spec.loading import canonical, load_spec
from microagg_core.spec.release import ReleaseSpec

SPEC: dict[str, Any] = {
    "name": "people",
    "k": 3,
    "input": {"url": "in.parquet"},
    "output": {"url": "out"},
    "work": {"url": "work"},
    "roles": {
        "identifiers": ["person"],
        "quasi_identifiers": ["age", "income + more"],
        "blocking": ["region"],
        "confidential": ["education", "diagnosis", "photo"],
        "drop": ["note"],
    },
}


def loaded(folder: Path, analyses: Any, **others: Any) -> ReleaseSpec:
    path = folder / "release.yaml"
    path.write_text(yaml.safe_dump({**SPEC, **others, "analyses": analyses}, sort_keys=False))
    return load_spec(str(path))


@each(
    "text, outcome, terms",
    [
        ("income ~ age + education", "income", ("age", "education")),
        ("  income~age ", "income", ("age",)),
        ("`income + more` ~ `a~b` + years of school", "income + more", ("a~b", "years of school")),
        ("Einkommen ~ Größe", "Einkommen", ("Größe",)),
    ],
)
def test_a_formula_is_an_outcome_and_terms(text: str, outcome: str, terms: tuple[str, ...]) -> None:
    assert formula_columns(text) == (outcome, *terms)


@each(
    "text, why",
    [
        ("age", "must be an outcome and the columns that explain it"),
        ("~ age", "must be an outcome and the columns that explain it"),
        ("age ~ education +", "must be an outcome and the columns that explain it"),
        ("age ~ education ~ diagnosis", "must be an outcome and the columns that explain it"),
        ("age + education ~ diagnosis", "must be an outcome and the columns that explain it"),
        ("age ~ `education", "must be an outcome and the columns that explain it"),
        ("age ~ education + age", "has 'age' on both sides"),
        ("age ~ education + education", "names 'education' twice"),
        ("age ~ " + " + ".join(f"x{j}" for j in range(MOST_TERMS + 1)), f"must have at most {MOST_TERMS} terms"),
        ("age ~ log(education)", "'log(education)' is no column of roles; columns are joined by +"),
        ("age ~ eduction", "did you mean 'education'?"),
        ("age ~ person", "'person' has the role identifiers, so that nothing may be shown of it"),
        ("age ~ note", "'note' has the role drop"),
        ("region ~ age", "'region' is a blocking column, which may explain, and not be explained"),
        (5, "must be an outcome and the columns that explain it"),
        ("", "must not be empty"),
    ],
)
def test_what_is_no_formula_is_refused_with_its_line(tmp_path: Path, text: Any, why: str) -> None:
    with pytest.raises(SpecError) as caught:
        loaded(tmp_path, ["age ~ education", text])
    (line,) = str(caught.value).splitlines()
    written = (tmp_path / "release.yaml").read_text().splitlines()
    number = written.index("analyses:") + 3
    assert f"release.yaml:{number}: analyses[1]: " in line and why in line


def test_not_any_number_of_them(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=f"analyses: must have at most {MOST_ANALYSES} entries"):
        loaded(tmp_path, ["age ~ education"] * (MOST_ANALYSES + 1))
    with pytest.raises(SpecError, match="analyses: must be a list"):
        loaded(tmp_path, "age ~ education")


def test_they_decide_nothing_of_a_release(tmp_path: Path) -> None:
    assert canonical(loaded(tmp_path, [])) == canonical(loaded(tmp_path, ["age ~ education + region"]))


def test_schema_and_models_agree(tmp_path: Path) -> None:
    spec = loaded(tmp_path, ["age ~ education", "`income + more` ~ age"])
    assert ReleaseSpec.model_validate(spec.model_dump(mode="json")) == spec
    jsonschema.validate({**SPEC, "analyses": list(spec.analyses)}, spec_schema())
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**SPEC, "analyses": "age ~ education"}, spec_schema())


@each(
    "text, why",
    [
        ("diagnosis ~ age", r"analyses\[0\]: 'diagnosis' has the type string, and only a number"),
        ("age ~ photo", r"analyses\[0\]: 'photo' has the type binary, which cannot explain"),
        ("age ~ diagnosis + region", None),
        ("education ~ age", None),
    ],
)
def test_the_file_says_what_is_a_number(tmp_path: Path, text: str, why: str | None) -> None:
    types = {"person": pa.string(), "age": pa.int8(), "income + more": pa.float64(), "region": pa.int8()}
    types |= {"education": pa.int8(), "diagnosis": pa.string(), "photo": pa.binary(), "note": pa.string()}
    spec = loaded(tmp_path, [text])
    if why is None:
        resolve_schema(spec, pa.schema(types))
        return
    with pytest.raises(SpecError, match=why):
        resolve_schema(spec, pa.schema(types))
