"""What a result shows of itself, seeds by both names, and which version this is."""

from __future__ import annotations

import re
import tomllib
from html.parser import HTMLParser
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import microagg_core
from microagg_core import lower_bound, microaggregate, partition
from microagg_core.group.metrics.losses import standardize

CANARY = 987654321.125
NAMES = ["<b>pay</b>", "age & more"]


@pytest.fixture
def people() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({NAMES[0]: rng.normal(size=40), NAMES[1]: rng.integers(18, 90, 40) + CANARY})
    return frame.assign(note="canary")


class Cells(HTMLParser):
    """The texts of a page, and the tags that are open at its end."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_a_notebook_shows_figures_and_no_record(people: pd.DataFrame) -> None:
    masked = microaggregate(people, NAMES, 4, bound=True)
    page = Cells()
    page.feed(masked._repr_html_())
    assert page.open == []
    sizes = np.bincount(masked.groups)
    shown = dict(zip(page.texts[0::2], page.texts[1::2], strict=True))
    assert shown["k"] == "4" and shown["records"] == "40"
    assert shown["groups"] == f"{len(sizes)} of {sizes.min()} to {sizes.max()}"
    assert shown["loss"] == f"{masked.losses.l_sse:.4g} %"
    assert shown[NAMES[0]] == f"{masked.by_attribute[NAMES[0]]:.4g} %"
    assert "gap" in shown["no groups lose less than"]
    for text in (masked._repr_html_(), repr(masked)):
        assert "canary" not in text and "9876543" not in text
        for value in masked.data[NAMES[0]]:
            assert f"{value:.5f}" not in text
    assert re.sub(r"\d", "9", repr(masked)).startswith("Microaggregated(k: 9, records: 99, groups: ")


def test_the_bound_is_that_of_the_standardized_attributes(people: pd.DataFrame) -> None:
    masked = microaggregate(people, NAMES, 4, bound=True)
    assert masked.bound is not None
    assert masked.bound.sse == pytest.approx(lower_bound(standardize(people[NAMES].to_numpy()), 4).sse, rel=1e-6)
    assert microaggregate(people, NAMES, 4).bound is None
    each = microaggregate(people, NAMES, 4, "individual_ranking", bound=True)
    assert each.bound is not None and 0 < each.bound.sse <= each.losses.sse
    assert "groups of its own" in repr(each) and each._repr_html_()


def test_many_attributes_are_not_all_shown() -> None:
    masked = microaggregate(np.random.default_rng(0).normal(size=(60, 40)), k=3)
    assert "and 10 that lose less" in masked._repr_html_()


def test_a_seed_has_two_names() -> None:
    X = np.random.default_rng(0).normal(size=(60, 3))
    seeded = partition(X, 3, "mu_approx", seed=11).tolist()
    assert partition(X, 3, "mu_approx", random_state=11).tolist() == seeded
    assert partition(X, 3, "mu_approx", random_state=np.int64(11)).tolist() == seeded
    assert partition(X, 3, "mu_approx").tolist() == partition(X, 3, "mu_approx", seed=0).tolist() != seeded
    for draws in (np.random.default_rng, np.random.RandomState):
        first, again = draws(5), draws(5)
        one = partition(X, 3, "mu_approx", random_state=first).tolist()
        assert (
            microaggregate(X, k=3, algorithm="mu_approx", standardize=False, random_state=again).groups.tolist() == one
        )
        assert partition(X, 3, "mu_approx", random_state=first).tolist() != one


def test_the_version_is_that_of_the_project() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert microagg_core.__version__ == version("microagg") == project["version"]
    assert {"__version__", "MicroaggregationTransformer", "partition"} <= set(dir(microagg_core))
