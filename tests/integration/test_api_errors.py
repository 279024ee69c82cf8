"""Every error that the Python functions raise speaks of their arguments, and of nothing that only a spec has."""

from __future__ import annotations

import ast
import re
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars
import pyarrow as pa
import pytest

import microagg_core.api
from covering import cover, each
from microagg_core import algorithms, lower_bound, microaggregate, partition
from microagg_core.data.kinds import encoding
from microagg_core.errors import DataError, MicroaggError, SpecError
from microagg_core.group.refine.refinement import refine

CANARY = 987654321.125
HERE = [*Path(microagg_core.api.__file__).parent.glob("*.py"), Path(encoding.__file__)]
#: What a spec or a command has, and a Python function has not.
FOREIGN = re.compile(
    r"\b(?:spec|yaml|role|roles|input|output|csv|acknowledge|totals_known|max_records|confidential)\b"
    r"|--\w|\b(?:undersized|missing|blocks|algorithm|refine): (?!must|takes|individual)\w|\bblocks\.\w",
    re.IGNORECASE,
)

FRAME = pd.DataFrame(
    {
        "x": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
        "gap": [1.0, None, 3.0, 4.0, 5.0, CANARY],
        "far": [1.0, np.inf, 3.0, 4.0, 5.0, CANARY],
        "text": list("canary"),
        "town": list("aaabbc"),
        "bytes": [b"canary"] * 6,
        "mixed": [1, "canary", 2.0, None, 3, 4],
    }
)
WIDE = pd.DataFrame(np.arange(64 * 63, dtype=float).reshape(64, 63)).replace(5.0, np.nan)
MANY = pd.DataFrame(
    {
        "x": np.arange(60.0),
        "key": np.arange(60),
        "half": np.repeat([f"t{i}" for i in range(30)], 2),
        "word": list("canary") * 10,
    }
)


def masking(frame: Any = FRAME, names: Any = ("x",), k: Any = 2, *more: Any, **others: Any) -> Callable[[], Any]:
    return lambda: microaggregate(frame, names, k, *more, **others)


def parting(X: Any = FRAME[["x"]], k: Any = 2, *more: Any, **others: Any) -> Callable[[], Any]:
    return lambda: partition(X, k, *more, **others)


#: Calls that are refused, with the class of the error.
CALLS: dict[str, tuple[Callable[[], Any], type[MicroaggError]]] = {
    "no k": (lambda: microaggregate(FRAME, ["x"]), SpecError),
    "half a k": (parting(k=2.5), SpecError),
    "k of 1": (parting(k=1), SpecError),
    "negative seed": (parting(seed=-1), SpecError),
    "negative random_state": (masking(random_state=-1), SpecError),
    "both seeds": (masking(seed=1, random_state=1), SpecError),
    "text for a seed": (masking(random_state="canary"), SpecError),
    "unknown algorithm": (masking(algorithm="x"), SpecError),
    "unknown parameter": (masking(gamma=1), SpecError),
    "wrong parameter": (masking(algorithm="v_mdav", gamma=-1), SpecError),
    "kind of no column": (masking(kinds={"y": "nominal"}), SpecError),
    "unknown kind": (masking(kinds={"x": "canary"}), SpecError),
    "one level": (masking(kinds={"x": ["canary"]}), SpecError),
    "a list of kinds": (masking(kinds=["canary"]), SpecError),
    "text without levels": (masking(names=["text"], kinds={"text": "ordinal"}), SpecError),
    "levels of another type": (masking(kinds={"x": ["1", "canary"]}), SpecError),
    "missing level": (masking(kinds={"x": ["1", "2"]}), DataError),
    "no importance": (masking(importance={"x": 0}), SpecError),
    "importance unstandardized": (masking(importance={"x": 2}, standardize=False), SpecError),
    "too large a k": (parting(k=3, algorithm="two_mu_approx"), SpecError),
    "too many attributes": (parting(np.zeros((9, 2)), 2, "univariate"), SpecError),
    "each on its own": (parting(np.zeros((9, 2)), 2, "individual_ranking"), SpecError),
    "no attribute": (parting(np.zeros((9, 0))), SpecError),
    "a bound of no attribute": (lambda: lower_bound(np.zeros((9, 0)), 2), SpecError),
    "unknown refinement": (masking(refine="canary"), SpecError),
    "unknown effort": (lambda: lower_bound([[1.0], [2.0]], 2, "off"), SpecError),
    "no threads": (masking(threads=0), SpecError),
    "no listener": (masking(progress="yes"), SpecError),
    "a line": (parting([1.0, 2.0]), SpecError),
    "ragged": (parting([[1.0], [2.0, 3.0]]), SpecError),
    "letters": (parting([["canary"]]), SpecError),
    "missing in a matrix": (parting([[1.0], [np.nan]]), DataError),
    "few records": (parting([[1.0]]), DataError),
    "few rows": (masking(k=9), DataError),
    "too many records": (masking(MANY, k=2, algorithm="exhaustive"), DataError),
    "too large a block": (masking(MANY, ["x"], 2, "exhaustive", missing="separate"), DataError),
    "a list": (masking([1, 2]), SpecError),
    "an array of one dimension": (masking(np.zeros(5)), SpecError),
    "an array of text": (masking(np.array([["canary"]])), SpecError),
    "columns of two lengths": (masking({"x": [1, 2], "y": [CANARY]}), SpecError),
    "a lazy frame": (masking(polars.LazyFrame({"x": [1]})), SpecError),
    "an array of Arrow": (masking(pa.chunked_array([[CANARY]])), SpecError),
    "large keys": (masking(np.array([[2**60, 1], [2**60 + 1, 2]]), [1]), DataError),
    "no column": (masking(names=[]), SpecError),
    "one name": (masking(names="x"), SpecError),
    "none": (masking(names=None), SpecError),
    "unknown column": (masking(names=["y"]), SpecError),
    "twice": (masking(names=["x", "x"]), SpecError),
    "two columns of a name": (masking(pd.DataFrame([[1.0, 2.0]] * 3, columns=["x", "x"])), SpecError),
    "numbers as text": (masking(pa.table({"x": ["1.5", "987654321", "n/a"]})), DataError),
    "categories sorted": (masking(names=["text"], algorithm="univariate"), SpecError),
    "mixed": (masking(names=["mixed"]), DataError),
    "objects": (masking(FRAME.assign(x=pd.Series([True] * 6, dtype=object))), DataError),
    "objects of Polars": (
        masking(polars.DataFrame({"x": polars.Series([object()] * 6, dtype=polars.Object), "y": [CANARY] * 6})),
        DataError,
    ),
    "missing": (masking(names=["gap"]), DataError),
    "categories sorted, in blocks": (masking(MANY, ["word"], 2, "univariate", blocking=["half"]), SpecError),
    "times without a date": (masking(FRAME.assign(x=pd.to_timedelta(range(6), unit="D"))), DataError),
    "complex": (masking(FRAME.assign(x=CANARY + 1j)), DataError),
    "no time": (masking(FRAME.assign(x=pd.to_datetime(["2020-01-01", None] * 3))), DataError),
    "no number": (masking(FRAME.assign(x=pd.array([1, None] * 3, dtype="Int64"))), DataError),
    "true k": (parting(k=True), SpecError),
    "one value for a column": (masking({"x": 1}), SpecError),
    "missing, in blocks": (masking(names=["gap"], blocking=["town"]), DataError),
    "infinite": (masking(names=["far"]), DataError),
    "infinite, in blocks": (masking(names=["far"], blocking=["town"]), DataError),
    "unknown missing": (masking(missing="drop"), SpecError),
    "unknown undersized": (masking(blocking=["town"], undersized="drop"), SpecError),
    "blocking by one name": (masking(blocking="town"), SpecError),
    "blocking by no column": (masking(blocking=["city"]), SpecError),
    "blocking by a quasi-identifier": (masking(blocking=["x"]), SpecError),
    "blocking by bytes": (masking(blocking=["bytes"]), DataError),
    "blocking by a mixture": (masking(blocking=["mixed"]), DataError),
    "blocking by a key": (masking(MANY, blocking=["key"]), DataError),
    "undersized is an error": (masking(blocking=["town"], undersized="error"), DataError),
    "nothing reaches k": (masking(MANY, k=3, blocking=["half"], undersized="suppress"), DataError),
    "too much withheld": (masking(k=2, blocking=["town"], undersized="suppress"), DataError),
    "too many patterns": (masking(WIDE, list(WIDE.columns), missing="separate"), SpecError),
    "as they are, in blocks": (masking(blocking=["town"], standardize=False), SpecError),
    "weight is averaged": (masking(weight="x"), SpecError),
    "weight beside blanked cells": (masking(FRAME.assign(w=2.0), weight="w", missing="blank"), SpecError),
    "weight of 0": (masking(FRAME.assign(w=[0.0, 1, 1, 1, 1, CANARY]), weight="w"), DataError),
    "each on its own, in blocks": (masking(MANY, ["x", "key"], 2, "individual_ranking", blocking=["half"]), SpecError),
}
#: What messages say, or end with.
MESSAGES = {
    "no k": "k: must be a whole number of at least 1 (got 0)",
    "half a k": "k: must be a whole number of at least 1 (got 2.5)",
    "k of 1": "mdav needs a k of at least 2 (got 1)",
    "negative seed": "seed: must be a whole number of at least 0 (got -1)",
    "unknown algorithm": f"algorithm: must be one of {', '.join(algorithms())} (got 'x')",
    "unknown parameter": "mdav takes no parameter 'gamma'",
    "wrong parameter": "gamma: must be a number of at least 0 or 'auto' (got -1)",
    "each on its own": "be k-anonymous (got 2); choose another algorithm, or mask a table with microaggregate",
    "no attribute": "mdav needs at least one attribute",
    "a bound of no attribute": "X: needs at least one attribute",
    "unknown refinement": "refine: must be off, fast or thorough (got 'canary')",
    "unknown effort": "effort: must be fast or thorough (got 'off')",
    "a line": "X: must have two dimensions, records and attributes (got 1)",
    "ragged": "X: must be a matrix, with as many numbers in each row",
    "letters": "X: must hold numbers (got an array of type <U6)",
    "missing in a matrix": "column 0 of X holds missing or infinite values; remove or replace them first",
    "few records": "the data have 1 records, fewer than k = 2; choose a smaller k or add records",
    "few rows": "the data have 6 records, fewer than k = 9; choose a smaller k or add records",
    "too many records": "exhaustive takes at most 20 records (got 60); choose another algorithm, or smaller blocks",
    "a list": "or a dictionary of columns (got list)",
    "an array of one dimension": "the table: must have two dimensions, records and attributes (got 1)",
    "an array of text": "the table: must hold numbers (got an array of type <U6)",
    "columns of two lengths": "the table: must have columns of one length, one value a record",
    "a lazy frame": "the table: is lazy and has no records yet; give what its collect() gives",
    "an array of Arrow": "the table: what ChunkedArray gives to Arrow has no columns; give a table",
    "large keys": "column 0 of the array holds whole numbers beyond",
    "no column": "quasi_identifiers: must be a list of at least one column name",
    "one name": "quasi_identifiers: must be a list of at least one column name",
    "unknown column": "quasi_identifiers: the table has no column 'y'",
    "twice": "quasi_identifiers: column 'x' is named 2 times; name it once",
    "two columns of a name": "quasi_identifiers: the table has 2 columns 'x'; rename them",
    "numbers as text": "most of its values are numbers",
    "categories sorted": "univariate sorts values, and nominal ones such as 'text' have no order",
    "mixed": "cannot be read as numbers, dates, timestamps or text",
    "objects": "Python objects",
    "missing": "'gap' has missing values",
    "times without a date": "is neither a number nor a category",
    "complex": "cannot be read as numbers, dates, timestamps or text",
    "no time": "has missing values",
    "no number": "has missing values",
    "true k": "k: must be a whole number of at least 1 (got True)",
    "one value for a column": "must have columns of one length, one value a record",
    "infinite": "'far' has infinite values",
}


def refused(call: Callable[[], Any]) -> MicroaggError:
    with pytest.raises(MicroaggError) as error:
        call()
    return error.value


@each("what", CALLS)
def test_an_error_speaks_of_arguments_in_one_sentence(what: str) -> None:
    call, kind = CALLS[what]
    error = refused(call)
    assert type(error) is kind and MESSAGES.get(what, "") in error.message, error.message
    assert not FOREIGN.search(error.message), error.message
    assert "\n" not in error.message and not error.message.endswith(".")
    assert "canary" not in error.message.replace("(got 'canary')", "") and "987654321" not in error.message
    assert error.__suppress_context__ or error.__context__ is None


def places_that_raise() -> set[tuple[str, int]]:
    """Where sources of the functions raise, by file and first line."""
    return {
        (path.name, node.lineno)
        for path in HERE
        if path.name != "transforming.py"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Raise)
    }


def test_every_place_that_raises_is_met() -> None:
    met = set()
    for call, _ in CALLS.values():
        last = traceback.extract_tb(refused(call).__traceback__)[-1]
        met.add((Path(last.filename).name, last.lineno))
    assert places_that_raise() - met == set()


@each("name, bad", cover([*algorithms(), "refine"], [np.nan, np.inf, -np.inf]))
def test_what_groups_arrays_refuses_what_is_no_number(name: str, bad: float) -> None:
    """By the registry and by ``refine``, which check no arguments but these: kernels would leave their arrays."""
    X = np.random.default_rng(0).normal(size=(20, 1))
    X[7] = bad
    k = 2 if name == "refine" else algorithms()[name].max_k or 5
    with pytest.raises(DataError, match="missing or infinite values"):
        if name == "refine":
            refine(X, np.repeat(np.arange(10), 2), k)
        else:
            algorithms()[name].run(X, k)
