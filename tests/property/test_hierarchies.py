"""Hierarchies of any shape against twins that can be read: what groups and merged keys get, and links to parents."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from covering import examples
from microagg_core.blocks.strata import StrataRules, plan_strata
from microagg_core.data.hierarchies import ROOT, Hierarchy
from microagg_core.data.kinds.hierarchical import HierarchicalKind
from microagg_core.data.kinds.registry import completed, kind_of
from microagg_core.data.trees import CodedTree
from microagg_core.errors import DataError
from microagg_core.group.metrics.moments import Groups
from microagg_core.inspect.candidates import Candidates
from microagg_core.inspect.checks.groups import Sharing, outside_ranges
from twins import naive_strata

LEAVES = [str(number) for number in range(7)]


@st.composite
def hierarchies(draw: st.DrawFn) -> Hierarchy:
    """Seven leaves, and up to four parents, each below the root or one before it."""
    parents = [f"P{number}" for number in range(draw(st.integers(1, 4)))]
    above = [(name, draw(st.sampled_from([ROOT, *parents[:place]]))) for place, name in enumerate(parents)]
    above += [(leaf, draw(st.sampled_from([ROOT, *parents]))) for leaf in LEAVES]
    for name in reversed(parents):  # of which none is a leaf
        if name not in {parent for _, parent in above}:
            above = [(code, parent) for code, parent in above if code != name]
    return Hierarchy.of((code, parent, "") for code, parent in above)


def below(hierarchy: Hierarchy, code: str) -> set[str]:
    """The leaves that are this one or below it."""
    return {leaf for leaf in hierarchy.leaves if code in hierarchy.path(leaf)}


def least_common(hierarchy: Hierarchy, values: set[str]) -> str:
    """Of all codes that have all values, the one that has fewest others; of those the deepest."""
    having = [code for code in {ROOT, *hierarchy.parent_of} if values <= below(hierarchy, code)]
    return min(having, key=lambda code: (len(below(hierarchy, code)), -len(hierarchy.path(code))))


def mode_of(own: list[tuple[str, float]], file: list[str]) -> str:
    """The value of most weight; of several the rarest of the file, then the first."""
    weight_of = {value: sum(weight for other, weight in own if other == value) for value, _ in own}
    return min(weight_of, key=lambda value: (-weight_of[value], file.count(value), value))


def released_for(hierarchy: Hierarchy, own: list[tuple[str, float]], file: list[str]) -> str:
    """What a group of values and weights gets."""
    mode, parent = mode_of(own, file), least_common(hierarchy, {value for value, _ in own})
    total, lost = sum(weight for _, weight in own), sum(weight for value, weight in own if value != mode)
    share = (len(below(hierarchy, parent)) - 1) / (len(hierarchy.leaves) - 1)
    return parent if total * share < lost - 1e-7 else mode


def kind_with(hierarchy: Hierarchy, values: pa.Array) -> HierarchicalKind:
    kind = completed(kind_of("job", values.type, kind="nominal", hierarchy=hierarchy), values)
    assert isinstance(kind, HierarchicalKind)
    return kind


RECORDS = st.lists(st.tuples(st.sampled_from(LEAVES), st.integers(0, 4)), min_size=1, max_size=30)


@examples(150)
@given(hierarchies(), RECORDS, st.sampled_from([pa.string(), pa.int8(), pa.float64()]), st.booleans())
def test_groups_get_what_the_twin_says_and_the_gate_takes_nothing_that_is_neither(
    hierarchy: Hierarchy, records: list[tuple[str, int]], held: pa.DataType, is_weighted: bool
) -> None:
    values = [value for value, _ in records]
    labels = np.unique([label for _, label in records], return_inverse=True)[1]
    weights = np.arange(len(values)) % 3 + 1.0 if is_weighted else np.ones(len(values))
    column = pa.array(values).cast(held)
    kind = kind_with(hierarchy, column)
    ticks, _ = kind.ticks(column)
    groups = Groups.of(labels, weights if is_weighted else None)
    codes = kind.representatives(ticks, groups)
    released = kind.to_arrow(codes).to_pylist()
    for label, value in enumerate(released):
        own = [(of, weight) for of, its, weight in zip(values, labels, weights, strict=True) if its == label]
        assert value == released_for(hierarchy, own, values)
    # A reader sees classes: groups that have one value are one, and may have it.
    shown = codes[labels]
    classes = np.unique(shown, return_inverse=True)[1].reshape(-1)
    assert kind.fits(ticks, shown, Groups.of(classes, groups.weights)).all()
    back, missing = kind.reader.ticks(kind.to_arrow(shown))
    assert back.tolist() == shown.tolist() and not missing.any()
    if is_weighted:
        return
    for label in range(len(released)):
        own_texts = [value for value, its in zip(values, labels, strict=True) if its == label]
        may_be = mode_of([(value, 1.0) for value in own_texts], values), least_common(hierarchy, set(own_texts))
        came, sharing = column.filter(pa.array(labels == label)), Sharing(np.zeros(len(own_texts), dtype=np.uint64))
        for code in range(len(kind.tree.leaves)):
            shown_as = pa.chunked_array([[kind.shown(code)] * len(own_texts)])
            wrong = outside_ranges(kind, pa.chunked_array([came]), shown_as, sharing)
            assert (wrong == 0) == (kind.shown(code) in may_be), "all or none of a class"


def test_a_missing_value_may_be_a_category_and_has_no_parent_but_the_root() -> None:
    jobs = Hierarchy.of([("a", "P", ""), ("b", "P", ""), ("c", "", ""), ("d", "", "")])
    column = pa.array(["a", "b", "a", None, None, "a", "b", None])
    kind = completed(kind_of("job", pa.string(), hierarchy=jobs, null_is_category=True), column)
    ticks, missing = kind.ticks(column)
    groups = Groups.of(np.array([0, 0, 1, 1, 1, 2, 2, 2]))
    released = kind.to_arrow(kind.representatives(ticks, groups))
    assert not missing.any() and released.to_pylist() == ["P", None, "b"], "of three that are as frequent the rarest"
    assert kind.reader.ticks(released)[0].tolist() == kind.representatives(ticks, groups).tolist()


@examples(100)
@given(hierarchies(), st.integers(2, 9), st.data())
def test_merged_keys_join_the_nearest_and_get_their_least_common_parent(
    hierarchy: Hierarchy, k: int, data: st.DataObject
) -> None:
    pairs = st.tuples(st.sampled_from([*LEAVES, None]), st.sampled_from(["a", "b", None]))
    keys = data.draw(st.lists(pairs, min_size=1, max_size=14, unique=True))
    rows = data.draw(st.lists(st.integers(1, 9), min_size=len(keys), max_size=len(keys)))
    first = sorted({key[0] for key in keys}, key=lambda v: (v is None, v or ""))
    second = sorted({key[1] for key in keys}, key=lambda v: (v is None, v or ""))
    numbers = {code: place for place, code in enumerate([*first, *hierarchy.parents])}
    deepest = max(len(hierarchy.path(code)) for code in [*{key[0] for key in keys} - {None}, ROOT, *hierarchy.parents])

    def coded(key: tuple[str | None, str | None]) -> tuple[int, ...]:
        above = [] if key[0] is None else hierarchy.path(key[0])[1:-1]
        path = [numbers[code] for code in above]
        path += [numbers[key[0]]] * (deepest - len(path))
        return (0, *path, second.index(key[1]))

    ordered = sorted(zip(keys, rows, strict=True), key=lambda pair: coded(pair[0]))
    expected = Counter[tuple[Any, ...]]()
    for places, size, _ in naive_strata.merged([coded(key) for key, _ in ordered], [n for _, n in ordered], k, 1):
        own = {ordered[place][0][0] for place in places}
        label = naive_strata.label([(ordered[place][0][1],) for place in places], [second])
        texts = {value for value in own if value is not None}
        parent = next(iter(own)) if len(own) == 1 else ROOT if None in own else least_common(hierarchy, texts)
        if size >= k:
            expected[parent, *label] += size
    columns = [pa.array([key[j] for key in keys], pa.string()) for j in range(2)]
    names = ["pattern", "b0", "b1", "rows"]
    table = pa.table([pa.array(np.zeros(len(keys), dtype=np.uint64)), *columns, pa.array(rows)], names=names)
    rules = StrataRules(k, hierarchies=(hierarchy, None))
    try:
        made = plan_strata(table, rules, [pa.string(), pa.string()])
    except DataError:
        assert not expected
        return
    labels = zip(*(made.labels[f"b{j}"].to_pylist() for j in range(2)), strict=True)
    assert dict(zip(labels, made.rows_of_labels().tolist(), strict=True)) == dict(expected)


@examples(30)
@given(hierarchies(), st.integers(0, 10**6))
def test_who_knows_a_value_takes_parents_of_it_for_no_mismatch(hierarchy: Hierarchy, seed: int) -> None:
    rng, tree = np.random.default_rng(seed), CodedTree.of(hierarchy, LEAVES)
    names, costs, n = [*LEAVES, *hierarchy.parents], np.array([2.0, 0.7]), 20
    means = np.column_stack([rng.integers(0, len(names), n), rng.integers(0, 3, n)]).astype(float)
    missing = np.column_stack([rng.random(n) < 0.2, np.zeros(n, dtype=np.bool_)])
    labels, sizes, own = np.sort(rng.integers(0, 2, n)), rng.integers(2, 6, n), rng.integers(0, n, 30)
    values = np.column_stack([rng.integers(0, len(LEAVES), 30), rng.integers(0, 3, 30)]).astype(float)
    found = Candidates(means, missing, labels, sizes, costs, [tree, None]).link(values, own)
    for i, place in enumerate(own.tolist()):
        known = set(hierarchy.path(LEAVES[int(values[i, 0])]))
        apart = {
            j: 2.0 * (not missing[j, 0] and names[int(means[j, 0])] not in known) + 0.7 * (means[j, 1] != values[i, 1])
            for j in range(n)
            if labels[j] == labels[place] and missing[j, 0] == missing[place, 0]
        }
        near = [j for j in apart if apart[j] <= min(apart.values()) + 1e-6]
        right = 1 / sizes[near].sum() if place in near else 0.0
        assert (found[0][i], found[1][i]) == pytest.approx((right * sizes[place], right))
