"""The registry: what it says, what it refuses, and what it does not load."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest

import microagg_core
from covering import each
from inputs.strategies import EDGES, SEARCHING, VALUES
from microagg_core import algorithms
from microagg_core.errors import InternalError
from microagg_core.group.algorithms import AlgorithmInfo
from twins import TWINS


def test_reading_the_registry_loads_no_compiler() -> None:
    script = "import sys, microagg_core; microagg_core.algorithms(); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert not {"numba", "numpy", "pandas", "microagg_core.spec.release"} & set(loaded.split())


def test_the_registry_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        algorithms()["mine"] = algorithms()["mdav"]  # type: ignore[index]
    with pytest.raises(FrozenInstanceError):
        algorithms()["mdav"].min_k = 1  # type: ignore[misc]
    with pytest.raises(AttributeError, match="no attribute 'anonymise'"):
        microagg_core.anonymise  # noqa: B018


@each("info", algorithms().values())
def test_every_algorithm_describes_itself(info: AlgorithmInfo) -> None:
    assert algorithms()[info.name] is info
    assert info.summary and "\n" not in info.summary
    assert "Choose it" in info.description and "Time grows" in info.description
    assert info.min_k >= 2
    shown = json.loads(json.dumps(info.document()))
    assert shown["name"] == info.name and shown["cost"]["seconds"] > 0
    assert [p["name"] for p in shown["parameters"]] == list(info.with_defaults({}))


@each("info", algorithms().values())
def test_every_algorithm_is_tested(info: AlgorithmInfo) -> None:
    assert (info.name in TWINS) != (info.name in SEARCHING), "write its slow readable twin, in tests/twins"
    assert {parameter.name for parameter in info.parameters} <= set(VALUES) & set(EDGES)


@each("info", algorithms().values())
def test_cost_and_memory_grow_with_the_data(info: AlgorithmInfo) -> None:
    few, many = (10, 20) if info.max_records else (1000, 2000)
    for model in (info.cost_seconds, info.memory_bytes):
        assert 0 < model(few, 4, 5) < model(many, 4, 5) < math.inf
        assert model(100_000, 4, 5) <= model(100_000, 8, 5)
    assert info.memory_bytes(few, 4, 5) >= 8 * few * 4, "every algorithm works on a copy"


@each("value", [-1, -1e-9, float("nan"), float("inf"), 10**400, "1", "", None, True])
def test_a_parameter_out_of_range_is_named(value: object) -> None:
    with pytest.raises(ValueError) as error:
        algorithms()["v_mdav"].check_parameters({"gamma": value})
    assert str(error.value) == f"gamma: must be a number of at least 0 or 'auto' (got {value!r})"
    with pytest.raises(ValueError, match=r"gamma: .*; v_mdav takes no parameter 'alpha'$"):
        algorithms()["v_mdav"].check_parameters({"gamma": value, "alpha": 1})


def test_defaults_are_filled_in_and_given_values_kept() -> None:
    assert algorithms()["v_mdav"].with_defaults({}) == {"gamma": 0.2}
    assert algorithms()["v_mdav"].with_defaults({"gamma": 1}) == {"gamma": 1.0}
    assert algorithms()["v_mdav"].with_defaults({"gamma": np.int64(1)}) == {"gamma": 1.0}
    assert algorithms()["v_mdav"].with_defaults({"gamma": "auto"}) == {"gamma": "auto"}
    assert algorithms()["mdav"].with_defaults({}) == {}


def test_what_cannot_be_done_is_refused_in_a_sentence() -> None:
    narrow = replace(algorithms()["mdav"], max_k=4, max_attributes=1)
    assert narrow.refuses(4, 1) is None
    assert narrow.refuses(1, 1) == "mdav needs a k of at least 2 (got 1)"
    assert narrow.refuses(5, 1) == "mdav needs a k of at most 4 (got 5)"
    assert narrow.refuses(4, 0) == "mdav needs at least one attribute"
    assert narrow.refuses(4, 2) == "mdav takes at most 1 attribute(s) (got 2)"


@each("labels", [[0, 0, 0, 1], [-1, -1, 0, 0], [0, 0, 0, 0]])
def test_groups_outside_the_promised_sizes_never_get_out(labels: list[int]) -> None:
    broken = replace(algorithms()["mdav"], groups=lambda X, k, *, seed: np.array(labels))
    with pytest.raises(InternalError, match="made a group outside its sizes, 2 to 3"):
        broken.run(np.zeros((4, 1)), 2)
