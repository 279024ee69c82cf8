"""What an operator's page is made of, by hand: figures that no run has to be made for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from microagg_core.compare.trial import ColumnExpected, Expected
from microagg_core.inspect.portrait.contract import Correlations, Distribution, Fit, Mean, Pair, Portrait, Regression
from microagg_core.pages.comparison_report import Expectation
from microagg_core.pages.operator.inputs import ReportInputs
from microagg_core.release.manifest import Manifest


def manifest(names: list[str], **changes: Any) -> Manifest:
    """Of a release with these quasi-identifiers and a diagnosis."""
    columns = [{"name": name, "type": "double", "role": "quasi_identifier"} for name in names]
    columns += [{"name": "town", "type": "string", "role": "blocking"}]
    columns += [{"name": "diagnosis", "type": "string", "role": "confidential"}]
    attributes = {name: {"unit": None, "l_sse": 1.0 + i, "il1s": 0.1, "mean": 5.0} for i, name in enumerate(names)}
    losses = {"records": 1000, "sse": 20.0, "sst": 1000.0, "l_sse": 2.0, "lower_bound": 12.0, "gap": 40.0}
    document = {
        "name": "people",
        "id": "2026",
        "created": "2026-11-18T03:00:00Z",
        "k": 5,
        "unit": "row",
        "rows": 1000,
        "suppressed": "at least k",
        "columns": columns,
        "format": "parquet",
        "algorithm": {"name": "mdav", "parameters": {}},
        "seed": 0,
        "undersized": "merge",
        "missing": "separate",
        "losses": {**losses, "attributes": attributes},
        "software": {"microagg": "0.1.0"},
        "revision": "r0001",
        "parts": [
            {"name": f"data/part-00000-{'ab' * 8}-{'0' * 12}.parquet", "rows": 1000, "bytes": 9, "sha256": "ab" * 32}
        ],
    }
    return Manifest.model_validate({**document, **changes})


def portrait(names: list[str], bins: int = 18) -> Portrait:
    """Bells before, and somewhat narrower ones after."""
    x = np.arange(bins)
    before, after = (np.round(400 * np.exp(-(((x - bins / 2) / w) ** 2))).astype(int) for w in (5.0, 4.0))
    edges = tuple(float(10 * i) for i in range(1, bins))
    words = tuple(f"{edge:g}" for edge in edges)
    p = len(names)
    c = np.where(np.eye(p) > 0, 1.0, np.sin(np.add.outer(np.arange(p), np.arange(p))) / 2)
    cells = ((12, 30, 11), (40, 90, 20), (0, 25, 60))
    pair = Pair("a", "b", (0, 1, 2, 3), (0, 10, 20, 30), ("0", "1", "2", "3"), ("0", "10", "20", "30"), cells,
                (Mean(1.5, 15.0, 7), Mean(0.5, 25.0, 5)))  # fmt: skip
    fit = Fit(1000, (10.0, 0.5), (1.0, 0.1), 0.4)
    return Portrait(
        1000,
        1000,
        tuple(
            Distribution(name, None, edges, words, tuple(before.tolist()), tuple(after.tolist()), 3 * (i % 2))
            for i, name in enumerate(names)
        ),
        (pair,),
        Correlations(tuple(names), c, c * 0.9),
        (Regression(f"{names[0]} ~ age", ("constant", "age"), fit, Fit(1000, (11.0, 0.3), (1.1, 0.12), 0.35)),),
        ("'odd' has fewer than 10 values, too few to be shown",),
    )


def expectation() -> Expectation:
    def of(k: int, loss: float, right: float, certain: float) -> Expected:
        columns = {"diagnosis": ColumnExpected(certain, 0.05)}
        return Expected(
            k, "mdav", {}, "fast", 1000, 7, True, 1000, 30, loss, None, (), None, None, 150, k, 2 * k, 0.5, 0.5, 1.0,
            own_nearest=0.9, expected_correct=right, by_chance=0.01, unique_before=0.99, certain=columns, broken=(),
        )  # fmt: skip

    expected = (of(2, 1.0, 0.4, 0.5), of(5, 2.0, 0.16, 0.3), of(10, 4.0, 0.08, 0.1))
    return Expectation(5, 30, expected, ("k=40: too few records",), (), False)


def blocks(n: int) -> pa.Table:
    """Some blocks, the later ones with more loss a record."""
    records = 7 + np.arange(n) % 40
    return pa.table(
        {
            "block": np.arange(n),
            "records": records,
            "sse": records * (0.01 + np.arange(n) / n),
            "lower_bound": records * 0.005,
            "groups": records // 5,
        }
    )


def inputs(names: list[str] | None = None, n_blocks: int = 30, **changes: Any) -> ReportInputs:
    """Everything that a page can have."""
    names = names or ["a", "b", "<i>age</i> & $more$"]
    intruders = [
        {"knows": names, "noise": 0.0, "own_nearest": 0.9, "expected_correct": 0.164},
        {"knows": names[:1], "noise": 0.1, "own_nearest": 0.5, "expected_correct": 0.04},
    ]
    certain = {"records_certain": 0.316, "groups_certain": 0.2, "by_chance": 0.042, "commonest_value": 0.3}
    inference = {"diagnosis": {**certain, "fewer_than": {"3": {"records": 0.4}}, "largest_distance": 0.2}}
    risk = {
        "records": 1000,
        "linkage": {**intruders[0], "asked": 1000, "by_chance": 0.01, "intruders": intruders},
        "inference": inference,
        "uniqueness": {"before": 0.99, "after": 0.0},
        "sizes": {"smallest": 5, "largest": 40, "groups": 150, "histogram": {"5": 100, "6": 40, "40": 10}},
    }
    plan = {
        "records": 1007, "withheld": 7, "held": 0, "undersized_keys": 3, "merged_blocks": 2, "split_rows": 400,
        "blocks": n_blocks, "max_records": 200, "joined_values": {"town": 41}, "withheld_words": (),
        "unwise": ["quasi-identifier 'a' is constant and could be dropped"],
        "largest": [], "changed": [{"block": n_blocks - 1, "reason": "merged from 2 keys"}],
    }  # fmt: skip
    stages = [
        {"name": name, "says": "done", "seconds": 1.5, "cpu_seconds": 1.0, "peak_bytes": 2**28}
        for name in ("survey", "anonymize")
    ]
    everything: dict[str, Any] = {
        "plan": plan,
        "checks": tuple({"name": name, "passed": True, "detail": "5"} for name in ("k_anonymity", "means")),
        "risk": risk,
        "blocks": blocks(n_blocks),
        "portrait": portrait(names),
        "expectation": expectation(),
        "run": {"stages": stages, "compared": {"kernel_seconds": {"estimate": 2.0, "actual": 1.5}}},
        "origin": {"spec": "ab" * 32, "data": "cd" * 32},
    }
    return ReportInputs(manifest(names), **{**everything, **changes})
