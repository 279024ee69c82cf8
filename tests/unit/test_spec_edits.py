"""The spec's ``edits``: rules that are read, and a sentence with its line for those that are not; what they count."""

from __future__ import annotations

import datetime
import math
import operator
import re
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pyarrow as pa
import pytest
import yaml
from hypothesis import assume, given
from hypothesis import strategies as st

from covering import each, examples
from microagg_core.errors import SpecError
from microagg_core.inspect.edits import RuleCount, count_of
from microagg_core.spec.columns import resolve_schema
from microagg_core.spec.edits import MOST_EDITS, Comparison, comparison_of
from microagg_core.spec.json_schema import spec_schema
from microagg_core.spec.loading import canonical, load_spec
from microagg_core.spec.release import ReleaseSpec

SPEC: dict[str, Any] = {
    "name": "patients",
    "k": 3,
    "input": {"url": "in.parquet"},
    "output": {"url": "out"},
    "work": {"url": "work"},
    "roles": {
        "identifiers": ["person"],
        "quasi_identifiers": ["birth", "dodth", "age"],
        "blocking": ["region"],
        "confidential": ["dox", "cost < limit", "diagnosis", "seen"],
        "drop": ["note"],
    },
}
SIGNS = {"<=": operator.le, "<": operator.lt, ">=": operator.ge, ">": operator.gt, "==": operator.eq, "!=": operator.ne}
NAMES = st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="`"), min_size=1, max_size=6)


def loaded(folder: Path, edits: Any) -> ReleaseSpec:
    path = folder / "release.yaml"
    path.write_text(yaml.safe_dump({**SPEC, "edits": edits}, sort_keys=False))
    return load_spec(str(path))


@examples(200)
@given(NAMES, st.sampled_from(sorted(SIGNS)), NAMES | st.decimals(-(10**9), 10**9, places=3), st.integers(0, 2))
def test_a_rule_reads_back_as_it_was_written(left: str, sign: Any, right: str | Decimal, spaces: int) -> None:
    """Any name between backticks, and a plain one without."""
    assume(left != right)
    space, shown = " " * spaces, str(right) if isinstance(right, Decimal) else f"`{right}`"
    assert comparison_of(f"{space}`{left}`{space}{sign}{space}{shown}") == Comparison(left, sign, right)
    if re.fullmatch(r"[a-z_]\w*", left):
        assert comparison_of(f"{left}{space}{sign}{shown}{space}") == Comparison(left, sign, right)


@each(
    "rule, why",
    [
        ("dodth", "must compare two columns, or a column and a number, by <=, <, >=, >, == or !="),
        ("dodth = dox", "must compare two columns"),
        ("dodth <= ", "must compare two columns"),
        ("0 <= age <= 120", "must compare two columns"),
        ("dodth <= `dox", "must compare two columns"),
        ("", "must not be empty"),
        (5, "must compare two columns"),
        ("1 < 2", "compares two numbers, and no column"),
        ("age < age", "compares 'age' with itself"),
        ("age < 1234567890123456789", "has a number of more than 18 digits"),
        ("age < 1e3", "'1e3' is no column of roles"),
        ("age < agee", "did you mean 'age'?"),
        ("age < person", "'person' has the role identifiers, so that it is not in the release"),
        ("age < note", "'note' has the role drop"),
        ("region != age", "'region' is a blocking column"),
        ("birth <= dodth", "stands there twice"),
        ({"rule": "age >= 0", "stop": "no"}, "is not what the spec wants here"),
        ({"rule": "age >= 0", "halt": True}, "is not a key the spec knows"),
    ],
)
def test_what_is_no_rule_is_refused_with_its_line(tmp_path: Path, rule: Any, why: str) -> None:
    with pytest.raises(SpecError) as caught:
        loaded(tmp_path, ["birth<=dodth", rule])
    (line,) = str(caught.value).splitlines()
    written = (tmp_path / "release.yaml").read_text().splitlines()
    number = written.index("edits:") + 3
    assert re.search(rf"release\.yaml:({number}|{number + 1}): edits\[1\]", line) and why in line


def test_schema_models_and_digests_agree(tmp_path: Path) -> None:
    edits = ["dodth <= dox", {"rule": "`cost < limit` > 0", "stop": True}]
    spec = loaded(tmp_path, edits)
    assert spec.model_dump(mode="json")["edits"] == edits
    assert ReleaseSpec.model_validate(spec.model_dump(mode="json")) == spec
    jsonschema.validate({**SPEC, "edits": edits}, spec_schema())
    assert '"edits"' in canonical(spec) and '"edits"' not in canonical(loaded(tmp_path, []))
    with pytest.raises(SpecError, match=f"edits: must have at most {MOST_EDITS} entries"):
        loaded(tmp_path, [f"age >= {n}" for n in range(MOST_EDITS + 1)])


@each(
    "known, where, why",
    [
        ([["age"], ["dox", "region"], ["region", "dox"]], "known[2]", "is there twice"),
        ([["age", "age"]], "known[0][1]", "'age' is named twice"),
        ([["age", "person"]], "known[0][1]", "'person' has the role identifiers, so that it is not in the release"),
        ([["nobody"]], "known[0][0]", "'nobody' is no column"),
        ([[]], "known[0]", "must name at least one column"),
        (["age"], "known[0]", "must be a list"),
    ],
)
def test_known_sets_that_are_none_are_refused_with_their_place(
    tmp_path: Path, known: Any, where: str, why: str
) -> None:
    path = tmp_path / "release.yaml"
    path.write_text(yaml.safe_dump({**SPEC, "known": known}, sort_keys=False))
    with pytest.raises(SpecError) as caught:
        load_spec(str(path))
    (line,) = str(caught.value).splitlines()
    assert f": {where}: " in line and why in line
    assert '"known"' not in canonical(loaded(tmp_path, []))


@each(
    "rule, why",
    [
        ("age != diagnosis", "'diagnosis' has the type string, and only numbers, dates and times are compared"),
        ("dodth > 0", "'dodth' is a date or a time, and it is compared with a number"),
        ("dodth <= age", "'dodth' is a date or a time, and 'age' is a number"),
        ("dox <= seen", "'dox' is a date or a time, and 'seen' is a time with a zone"),
        ("dodth <= dox", None),
        ("`cost < limit` >= age", None),
    ],
)
def test_the_file_says_what_can_be_compared(tmp_path: Path, rule: str, why: str | None) -> None:
    types = {name: pa.string() for name in ("person", "region", "diagnosis", "note")}
    types |= {"birth": pa.date32(), "dodth": pa.date32(), "dox": pa.timestamp("s"), "age": pa.int8()}
    types |= {"cost < limit": pa.decimal128(9, 2), "seen": pa.timestamp("s", "UTC")}
    spec = loaded(tmp_path, [rule])
    if why is None:
        resolve_schema(spec, pa.schema(types))
        return
    with pytest.raises(SpecError, match=rf"edits\[0\]: {why}"):
        resolve_schema(spec, pa.schema(types))


WHOLE = {pa.int8(): (-128, 127), pa.int64(): (-(2**63), 2**63 - 1), pa.uint64(): (0, 2**64 - 1)}
VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    **{kind: st.integers(*ends) | st.sampled_from([0, 1, 2, 127]) for kind, ends in WHOLE.items()},
    pa.float64(): st.floats() | st.sampled_from([0.0, 1.5, 2.0]),
    pa.decimal128(9, 2): st.decimals(-9, 9, places=2) | st.sampled_from([Decimal("1.50"), Decimal(2)]),
    pa.decimal128(38, 9): st.decimals(-(10**20), 10**20, places=9, allow_nan=False),
}
TIMES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.date32(): st.dates(datetime.date(1, 1, 1)),
    pa.date64(): st.dates(datetime.date(1969, 12, 30), datetime.date(1970, 1, 2)),
    pa.timestamp("s"): st.datetimes().map(lambda moment: moment.replace(microsecond=0)),
    pa.timestamp("us"): st.datetimes() | st.datetimes(datetime.datetime(1969, 12, 30), datetime.datetime(1970, 1, 2)),
}


def exact(value: Any, *, as_float: bool) -> Any:
    if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
        return datetime.datetime.combine(value, datetime.time())
    if isinstance(value, datetime.datetime) or value in (math.inf, -math.inf):
        return value
    return float(value) if as_float else Fraction(value)


@pytest.mark.parametrize("sign", sorted(SIGNS))
@pytest.mark.parametrize("family", [VALUES, TIMES], ids=["numbers", "times"])
def test_a_rule_counts_what_python_counts(family: dict[pa.DataType, st.SearchStrategy[Any]], sign: Any) -> None:
    """Row by row in exact numbers; beside floats, in floats. A missing value, or NaN, is not compared."""

    @examples(60)
    @given(st.sampled_from(list(family)), st.sampled_from(list(family)), st.integers(0, 8), st.data())
    def check(left: pa.DataType, right: pa.DataType, n: int, data: st.DataObject) -> None:
        drawn = [data.draw(st.lists(st.none() | family[held], min_size=n, max_size=n)) for held in (left, right)]
        columns = {name: pa.array(of, held) for name, of, held in zip("ab", drawn, (left, right), strict=True)}
        both = [pair for pair in zip(*drawn, strict=True) if not any(v is None or v != v for v in pair)]
        as_float = pa.float64() in (left, right)
        kept = [SIGNS[sign](*(exact(value, as_float=as_float) for value in pair)) for pair in both]
        assert count_of(Comparison("a", sign, "b"), columns) == RuleCount(len(both), kept.count(False))
        limit = Decimal(data.draw(st.sampled_from(["0", "1.5", "-3", "127"])))
        if family is VALUES:
            there = [value for value in drawn[0] if value is not None and value == value]
            beside = pa.types.is_floating(left)
            pairs = [(exact(value, as_float=beside), exact(limit, as_float=beside)) for value in there]
            broken = sum(not SIGNS[sign](*pair) for pair in pairs)
            assert count_of(Comparison("a", sign, limit), columns) == RuleCount(len(there), broken)

    check()


def test_columns_in_chunks_count_as_whole_ones() -> None:
    a, b = np.arange(6), np.arange(6)[::-1]
    columns = {"a": pa.chunked_array([a[:2], a[2:]]), "b": pa.chunked_array([b[:5], b[5:]])}
    assert count_of(Comparison("a", "<", "b"), columns) == RuleCount(6, 3)
