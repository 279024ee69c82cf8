"""Tables masked block by block from Python: what comes out is what a release of the same table publishes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from inputs.people import people
from microagg_core import microaggregate
from microagg_core.errors import DataError
from releasing.runs import released_table, run_stages, start, write_release

QUASI = ["x", "y"]
BLOCKING = ["region", "town"]
ROLES = {"identifiers": ["id"], "quasi_identifiers": QUASI, "blocking": BLOCKING, "confidential": ["n", "note"]}
MEANT = {name: ["n", "note"] for name in ("nearly_unique", "jointly_unique", "fixes_quasi_identifier")}


def records(n: int, n_missing: int = 0) -> pa.Table:
    """People with a number each, some of whom lack a quasi-identifier."""
    table = people(n).drop_columns(["amount"]).append_column("n", pa.array(np.arange(n)))
    y = table["y"].to_numpy().copy()
    y[np.random.default_rng(1).choice(n, n_missing, replace=False)] = np.nan
    return table.set_column(table.column_names.index("y"), "y", pa.array(y, from_pandas=True))


def released(folder: Path, table: pa.Table, **changes: Any) -> pd.DataFrame:
    """What a run publishes, in the order of the records' numbers."""
    rounding = dict.fromkeys(QUASI, "none")
    spec = {"roles": ROLES, "rounding": rounding, "acknowledge": {**MEANT, "nearly_unique": ["n"]}, **changes}
    run_stages(start(write_release(folder, [table], **spec)))
    return released_table(folder / "output").to_pandas().sort_values("n", ignore_index=True)


def bits(frame: pd.DataFrame) -> dict[str, list[Any]]:
    """All values, floats to the last digit, missing ones as None."""
    return {name: [None if pd.isna(v) else v for v in frame[name].tolist()] for name in (*QUASI, *BLOCKING, "n")}


@pytest.mark.parametrize(
    ("table", "names", "undersized", "missing", "refine"),
    [
        (records(600, n_missing=40), ["y", "x"], "merge", "separate", "fast"),
        (records(2000), QUASI, "suppress", "separate", "off"),
        (records(600, n_missing=40), ["y", "x"], "merge", "blank", "fast"),
        (records(900, n_missing=30), QUASI, "suppress", "blank", "off"),
    ],
)
def test_blocks_are_those_of_a_release_to_the_last_digit(
    table: pa.Table, names: list[str], undersized: str, missing: str, refine: str, tmp_path: Path
) -> None:
    """In whatever order columns are named."""
    out = released(tmp_path, table, refine=refine, missing=missing, blocks={"undersized": undersized}, seed=7)
    masked = microaggregate(
        table, names, 3, blocking=BLOCKING, undersized=undersized, missing=missing, refine=refine, seed=7
    )
    blanked = out["y"].isna().sum() - table["y"].take(out["n"].to_numpy()).null_count
    assert masked.blanked.get("y", 0) == blanked and (blanked > 0) == (missing == "blank")
    assert bits(masked.data.to_pandas()) == bits(out)
    assert list(masked.by_attribute) == names
    assert (len(masked.withheld) > 0) == (undersized == "suppress")
    assert sorted([*masked.withheld, *out["n"]]) == list(range(table.num_rows))
    assert np.bincount(masked.groups).min() >= 3


def test_no_group_crosses_a_combination_that_is_not_merged() -> None:
    frame = records(900).to_pandas()
    masked = microaggregate(frame, QUASI, 4, blocking=["region"], undersized="error", refine="fast", bound=True)
    pd.testing.assert_series_equal(masked.data["region"], frame["region"])
    assert frame.groupby(masked.groups)["region"].nunique().max() == 1
    assert np.bincount(masked.groups).min() >= 4
    firsts = pd.Series(masked.groups).drop_duplicates().tolist()
    assert firsts == sorted(firsts) == list(range(len(firsts)))
    # Losses, by an own computation.
    before = frame[QUASI].to_numpy(np.float64)
    moved = (masked.data[QUASI].to_numpy() - before) / before.std(axis=0)
    assert masked.losses.sse == pytest.approx((moved**2).sum(), rel=1e-9)
    assert masked.losses.sst == pytest.approx(2 * len(frame), rel=1e-9)
    assert list(masked.by_attribute.values()) == pytest.approx(100 * (moved**2).mean(axis=0), rel=1e-9)
    assert masked.bound is not None and 0 < masked.bound.sse <= masked.losses.sse


def test_a_missing_value_stays_missing_and_the_rest_is_masked_among_its_like() -> None:
    frame = records(300, n_missing=30).to_pandas()
    masked = microaggregate(frame, QUASI, 3, missing="separate")
    lacking = frame["y"].isna()
    assert masked.data["y"].isna().equals(lacking)
    assert frame.groupby(masked.groups)["y"].apply(lambda y: y.isna().nunique()).max() == 1
    mean = frame["x"].astype(float).groupby(masked.groups).transform("mean")
    assert masked.data["x"].to_numpy() == pytest.approx(mean.to_numpy(), rel=1e-12)


def test_a_proved_method_certifies_all_blocks_together() -> None:
    frame = records(200).to_pandas()
    masked = microaggregate(frame, QUASI, 2, "two_mu_approx", blocking=["region"], undersized="error")
    certificate = masked.losses.certificate
    assert certificate is not None and certificate.sse == masked.losses.sse
    moved = (masked.data[QUASI] - frame[QUASI]) / frame[QUASI].std(ddof=0)
    assert certificate.sse == pytest.approx(float((moved.to_numpy() ** 2).sum()), rel=1e-9)
    assert certificate.bound <= 4 * certificate.sse and certificate.ratio <= 2


def test_small_combinations_are_refused_where_that_is_asked_for() -> None:
    frame = records(300).to_pandas()
    sizes = frame.groupby(BLOCKING).size()
    message = f"{(sizes < 3).sum()} of {len(sizes)} combinations of blocking= and of missing values have fewer than k=3"
    with pytest.raises(DataError, match=message):
        microaggregate(frame, QUASI, 3, blocking=BLOCKING, undersized="error")


def test_blocking_columns_of_any_type_make_blocks() -> None:
    frame = records(300).to_pandas()
    plain = microaggregate(frame, QUASI, 3, blocking=["region"], undersized="error")
    for values in (
        frame["region"].astype("category"),
        frame["region"].astype("string"),
        frame["region"].astype(object),
        frame["region"].astype("string[pyarrow]"),
    ):
        again = microaggregate(frame.assign(region=values), QUASI, 3, blocking=["region"], undersized="error")
        assert again.groups.tolist() == plain.groups.tolist()
        assert again.data["region"].dtype == values.dtype
    numbers = frame["region"].map({"east": 0.0, "north": 1.0, "south": np.nan})
    again = microaggregate(frame.assign(region=numbers), QUASI, 3, blocking=["region"], undersized="error")
    assert again.groups.tolist() == plain.groups.tolist()


@pytest.mark.parametrize("blocking", [["region"], []])
def test_kinds_and_importance_are_those_of_a_release(blocking: list[str], tmp_path: Path) -> None:
    rng, n = np.random.default_rng(2), 500
    table = records(n).append_column("roof", pa.array(rng.choice([1.0, 2.0, 9.0], n)))
    table = table.append_column("size", pa.array(rng.choice(["S", "M", "L"], n)))
    quasi: list[Any] = ["x", {"name": "y", "weight": 3}, {"name": "roof", "kind": "nominal", "weight": 0.5}]
    quasi.append({"name": "size", "kind": "ordinal", "levels": ["S", "M", "L"]})
    roles = {**ROLES, "quasi_identifiers": quasi, "blocking": blocking}
    roles["drop"] = [name for name in BLOCKING if name not in blocking]
    blocks = {"undersized": "error"}
    out = released(tmp_path, table, roles=roles, refine="fast", blocks=blocks, seed=3)
    options: dict[str, Any] = {"blocking": blocking, "undersized": "error", "refine": "fast", "seed": 3, "bound": True}
    said = {"kinds": {"roof": "nominal", "size": ["S", "M", "L"]}, "importance": {"y": 3, "roof": 0.5}}
    masked = microaggregate(table, ["x", "y", "roof", "size"], 3, **said, **options)
    for name in ("x", "y", "roof", "size"):
        assert masked.data[name].to_pylist() == out[name].tolist()
    (file,) = (tmp_path / "output").glob("*/r0001/manifest.json")
    losses = json.loads(file.read_text())["losses"]
    within = losses["coarser"].get("sse", 1e-5 * losses["sse"])
    assert abs(masked.losses.sse - losses["sse"]) <= within and masked.losses.sst == pytest.approx(losses["sst"])
    assert masked.bound is not None and masked.bound.sse <= masked.losses.sse
    plain = microaggregate(table, ["x", "y", "roof", "size"], 3, kinds=said["kinds"], **options)
    assert masked.by_attribute["y"] < plain.by_attribute["y"]
    assert not plain.data.equals(masked.data)


def test_kinds_without_blocks_give_frames_of_their_own_types() -> None:
    rng = np.random.default_rng(2)
    frame = pd.DataFrame({"roof": rng.choice([1, 2, 9], 60), "size": rng.choice(["S", "M"], 60), "x": rng.random(60)})
    masked = microaggregate(frame, ["roof", "size", "x"], 4, kinds={"roof": "nominal", "size": ["S", "M"]})
    assert masked.data.dtypes.equals(frame.dtypes) and set(masked.data["roof"]) <= {1, 2, 9}
    own = frame["roof"].groupby(masked.groups)
    assert (own.apply(lambda of: (of == of.mode()[0]).sum()) == own.apply(
        lambda of: (of == masked.data["roof"][of.index]).sum()
    )).all()  # fmt: skip
    sizes = (frame["size"] == "M").groupby(masked.groups)
    assert ((masked.data["size"] == "M") == (sizes.transform("mean") > 0.5)).all(), "the lower median"
