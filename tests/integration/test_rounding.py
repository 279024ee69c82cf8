"""How means are rounded: by default to one decimal more than the input needs, else as the spec says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from microagg_core.group.metrics.decimals import decimals_needed
from microagg_core.plain import to_plain
from microagg_flows.release import Release
from releasing.runs import data_digests, released_table, run_stages, start, write_release

N = 700


def incomes() -> pa.Table:
    """Prices, amounts in single precision, measured values, whole numbers as floats, and mostly zeros."""
    rng = np.random.default_rng(3)
    return pa.table(
        {
            "price": np.round(rng.gamma(2.0, 50.0, N), 2),
            "weight": np.round(rng.gamma(2.0, 5.0, N), 1).astype(np.float32),
            "measured": rng.normal(size=N),
            "count": rng.integers(0, 50, N).astype(np.float64),
            "whole": rng.integers(0, 50, N),
            "benefit": np.where(rng.random(N) < 0.8, 0.0, np.round(rng.gamma(2.0, 4000.0, N), 2)),
            "tag": [f"{i % 20:02d}" for i in range(N)],
        }
    )


NAMES = incomes().column_names[:-1]
ROLES = {"quasi_identifiers": NAMES, "confidential": ["tag"]}


def run(folder: Path, tables: list[pa.Table], **changes: Any) -> Release:
    return run_stages(start(write_release(folder, tables, roles=ROLES, **changes)))


def rule_of(release: Release) -> dict[str, Any]:
    assert release.published is not None
    return dict(release.published.manifest.rounding)


def test_floats_come_with_one_decimal_more_than_the_input(tmp_path: Path) -> None:
    release = run(tmp_path, [incomes()])
    released = released_table(tmp_path / "output")
    decimals = {"price": 3, "weight": 2, "count": 1, "benefit": 3}
    for name, most in decimals.items():
        texts = [str(value) for value in released[name].to_numpy()]
        assert max(len(text.split(".")[1]) for text in texts) == most, name
    assert decimals_needed(released["measured"].to_numpy()) is None
    assert released["whole"].type == pa.int64()
    rules = {"price": 0.001, "weight": 0.01, "count": 0.1, "benefit": 0.001}
    assert rule_of(release) == {**rules, "measured": "type", "whole": "type"}


def test_true_zeros_stay_and_nothing_turns_negative(tmp_path: Path) -> None:
    """A column of zeros mostly, beside large amounts, whose middle the zeros are far from."""
    run(tmp_path, [incomes()], rounding={"benefit": "type"})
    released = released_table(tmp_path / "output")["benefit"].to_numpy()
    assert released.min() == 0.0 and not np.signbit(released).any()
    assert ((released > 0) & (released < 1e-6)).sum() == 0


def test_the_spec_overrides_the_default(tmp_path: Path) -> None:
    rounding = {"price": "type", "weight": "none", "count": 5, "whole": "none", "benefit": 0.5}
    release = run(tmp_path, [incomes()], rounding=rounding)
    released = released_table(tmp_path / "output")
    assert decimals_needed(released["price"].to_numpy()) is None
    assert released["weight"].type == released["whole"].type == pa.float64()
    assert decimals_needed(released["whole"].to_numpy()) is None
    assert (released["count"].to_numpy() % 5 == 0).all()
    assert (released["benefit"].to_numpy() % 0.5 == 0).all()
    assert rule_of(release) == {**rounding, "measured": "type"}


def test_a_step_between_whole_numbers_releases_floats_whose_means_are_nearer(tmp_path: Path) -> None:
    own, tenths = (run(tmp_path / str(step), [incomes()], rounding={"whole": step}) for step in ("type", 0.1))
    released = released_table(tmp_path / "0.1" / "output")["whole"]
    assert tenths.published is not None and rule_of(tenths)["whole"] == 0.1
    types = {column.name: column.type for column in tenths.published.manifest.columns}
    assert types["whole"] == "double" == str(released.type)
    assert all(value == round(value, 1) for value in released.to_pylist())
    assert any(value != int(value) for value in released.to_pylist())
    lost = [(release.measured.figures.attributes or {})["whole"].l_sse for release in (own, tenths)]
    assert lost[0] is not None and lost[1] is not None and lost[1] < lost[0]


def test_decimals_are_those_of_the_whole_file_however_it_is_cut(tmp_path: Path) -> None:
    """One part has a price with a decimal more than all others: the release is the same."""
    table = incomes()
    prices = table["price"].to_pylist()
    prices[400] = 12.125
    table = table.set_column(0, "price", pa.array(prices))
    one = run(tmp_path / "one", [table])
    many = run(tmp_path / "many", [table.slice(start, 100) for start in range(0, N, 100)])
    assert rule_of(one) == rule_of(many) and rule_of(one)["price"] == 0.0001
    assert data_digests(tmp_path / "one" / "output") == data_digests(tmp_path / "many" / "output")


def test_the_plan_says_how_each_column_is_rounded(tmp_path: Path) -> None:
    spec = write_release(tmp_path, [incomes()], roles=ROLES, rounding={"count": 5, "whole": "none"})
    report = run_stages(start(spec), "survey", "plan").plan_report
    assert report is not None
    assert json.loads(json.dumps(to_plain(report)))["rounding"] == [
        "'price': to 3 decimals, one more than the input needs",
        "'weight': to 2 decimals, one more than the input needs",
        "'measured': to the last digit of double, because its values have no short decimals",
        "'count': to steps of 5, as the spec says",
        "'whole': not rounded, released as double, as the spec says",
        "'benefit': to 3 decimals, one more than the input needs",
    ]
