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
MANY = pd.DataFrame({"x": np.arange(60.0), "key": np.arange(60), "half": np.repeat([f"t{i}" for i in range(30)], 2)})


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
    "text": (masking(names=["text"]), DataError),
    "text of Arrow": (masking(pa.table({"x": ["canary", "b"]})), DataError),
    "mixed": (masking(names=["mixed"]), DataError),
    "objects": (masking(FRAME.assign(x=pd.Series([True] * 6, dtype=object))), DataError),
    "objects of Polars": (
        masking(polars.DataFrame({"x": polars.Series([object()] * 6, dtype=polars.Object), "y": [CANARY] * 6})),
        DataError,
    ),
    "missing": (masking(names=["gap"]), DataError),
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
    "each on its own, in blocks": (
        masking(MANY, ["x", "key"], 2, "individual_ranking", blocking=["half"]),
        SpecError,
    ),
}


def refused(call: Callable[[], Any]) -> MicroaggError:
    with pytest.raises(MicroaggError) as error:
        call()
    return error.value


@pytest.mark.parametrize("what", CALLS)
def test_an_error_speaks_of_arguments_in_one_sentence(what: str) -> None:
    call, kind = CALLS[what]
    error = refused(call)
    assert type(error) is kind
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


@pytest.mark.parametrize(
    "message",
    [
        "fill them in, or set missing: separate",
        "use merge or suppress, or say blocks.totals_known: file",
        "declare its type under input.csv.types",
        "run again with --replace",
        "roles.blocking: there is no such column",
    ],
)
def test_words_of_a_spec_are_seen(message: str) -> None:
    assert FOREIGN.search(message)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", [*algorithms(), "refine"])
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
