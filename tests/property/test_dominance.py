"""Dominance: what the largest groups make of losses, however it is combined; and that no way leads around the rule."""

from __future__ import annotations

from functools import reduce
from operator import add

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from covering import examples
from microagg_core.arrays import Floats, Ints
from microagg_core.data.kinds.nominal import NominalKind
from microagg_core.data.kinds.registry import kind_of
from microagg_core.group.metrics.figures import AttributeFigures, Figures
from microagg_core.group.metrics.losses import masked_by, standardize
from microagg_core.group.metrics.moments import moments_of, of_counts
from microagg_core.group.metrics.statistics import LossStatistics, loss_statistics, losses_of, significant
from microagg_core.inspect.portrait.contract import Counted, Portrait, Summary
from microagg_core.inspect.published import (
    REST_OF_LARGEST,
    Dominated,
    hiding,
    hiding_decimals,
    published_figures,
    with_categories,
    with_summaries,
)
from microagg_core.plain import from_json, to_json


def drawn(seed: int, n: int, p: int, tail: float) -> tuple[Floats, Floats, Ints]:
    """Standardized records with few that have most, their means by groups of about four, and the groups."""
    rng = np.random.default_rng(seed)
    values = rng.pareto(tail, (n, p)) if tail else rng.normal(size=(n, p))
    values[:, 1:] = rng.normal(size=(n, p - 1))
    Z = standardize(values)
    labels = np.empty(n, dtype=np.int64)
    labels[np.argsort(Z[:, 0])] = np.arange(n) // 4
    return Z, masked_by(Z, labels), labels


def total_and_largest_two(sums: dict[int, float]) -> list[float]:
    return [sum(sums.values()), *[*sorted(sums.values(), reverse=True), 0.0, 0.0][:2]]


@examples(300)
@given(st.integers(50, 5000), st.floats(0, 1), st.floats(0, 1), st.integers(2, 30))
def test_zeros_told_leave_open_how_many_lie_in_other_groups(n: int, of_all: float, of_zeros: float, k: int) -> None:
    """A reader counts the released zeros, and knows of each other group that somebody in it has a value."""
    before = round(n * of_all)
    after, fewest = round(before * of_zeros), max(k, 10)
    figures = Figures(attributes={"x": AttributeFigures()})
    summary = Summary("x", None, n, Counted(before, after), Counted(before, after), (None,) * 5, (0.0,) * 5)
    made = with_summaries(figures, Portrait(n, n, summaries=(summary,)), k, fewest)
    own = (made.attributes or {})["x"]
    assert own.zeros == significant(100 * after / n) and "attributes.x.quantiles_before.5" in str(made.withheld)
    if own.zeros_before is None:
        assert "attributes.x.zeros_before, " in str(made.withheld)
        return
    within = (made.coarser or {}).get("attributes.x.zeros_before", 0.0)
    possible = [c for c in range(after, n + 1) if abs(100 * c / n - own.zeros_before) <= within + 1e-9]
    possible = [c for c in possible if c <= n - (n - after) // k]
    assert abs(100 * before / n - own.zeros_before) <= within + 1e-9
    assert len(possible) > fewest or before in (0, n)


def test_one_group_with_zeros_and_a_value_does_not_give_the_value_away() -> None:
    """Of 400 people 399 earn nothing; one group of five has all the money, so four of them earn nothing."""
    summary = Summary("x", None, 400, Counted(399, 395), Counted(1, 5), (None,) * 5, (0.0,) * 5)
    figures = Figures(attributes={"x": AttributeFigures()})
    made = with_summaries(figures, Portrait(400, 400, summaries=(summary,)), 5, 10)
    assert made.attributes is not None and made.attributes["x"].zeros == 98.75
    assert made.attributes["x"].zeros_before is None


@examples(50)
@given(st.integers(0, 2**32 - 1), st.integers(4, 90), st.integers(1, 4), st.integers(1, 4))
def test_contributions_are_those_of_a_loop_however_blocks_are_combined(seed: int, n: int, p: int, blocks: int) -> None:
    Z, masked, labels = drawn(seed, n, p, 1.5)
    parts = []
    for block in range(blocks):
        mine = np.flatnonzero(labels % blocks == block)
        if len(mine):
            of_block = np.unique(labels[mine], return_inverse=True)[1]
            means = masked[mine[np.unique(of_block, return_index=True)[1]]]
            parts.append(loss_statistics(Z[mine], means, np.zeros((len(mine), p), dtype=bool), of_block))
    whole = from_json(LossStatistics, to_json(reduce(add, parts)))
    d = Z - masked
    groups = {int(g): np.flatnonzero(labels == g) for g in np.unique(labels)}
    for j in range(p):
        of_squares = {g: float((d[rows, j] ** 2).sum()) for g, rows in groups.items()}
        assert whole.squares[:, j].tolist() == pytest.approx(total_and_largest_two(of_squares))
        of_differences = {g: float(np.abs(d[rows, j]).sum()) for g, rows in groups.items()}
        assert whole.differences[:, j].tolist() == pytest.approx(total_and_largest_two(of_differences))
    distances = {g: float(np.sqrt((d[rows] ** 2).sum(axis=1)).sum()) for g, rows in groups.items()}
    assert whole.whole[:, 1].tolist() == pytest.approx(total_and_largest_two(distances))
    for place, (i, j) in enumerate(zip(*np.triu_indices(p, 1), strict=True)):
        products = {g: abs(float((d[rows, i] * d[rows, j]).sum())) for g, rows in groups.items()}
        assert whole.products[:, place].tolist() == pytest.approx(total_and_largest_two(products), abs=1e-12)


@given(st.floats(1e-9, 1e9), st.floats(0, 1), st.floats(0, 1))
def test_rounding_hides_what_the_rest_does_not(total: float, of_first: float, of_second: float) -> None:
    first = total * of_first
    second = min(first, (total - first) * of_second)
    sum_of_groups = Dominated(total, first, second)
    rest = total - first - second
    published = hiding(total, sum_of_groups.lacking)
    if published is not None:
        assert abs(published.value - total) <= max(published.within, 0.5e-5 * total) * (1 + 1e-9)
        assert rest + published.within >= REST_OF_LARGEST * first * (1 - 1e-6)
    else:
        assert rest < REST_OF_LARGEST * first


@given(st.floats(0, 1), st.floats(1e-9, 1))
def test_decimals_hide_as_much(value: float, lacking: float) -> None:
    published = hiding_decimals(value, lacking)
    if published is not None:
        assert abs(published.value - value) <= published.within * (1 + 1e-9)
        assert published.within >= lacking * (1 - 1e-9)
    else:
        assert lacking > 0.05


Interval = tuple[float, float]


def known(losses: Figures, name: str, value: float | None) -> Interval | None:
    if value is None:
        return None
    within = (losses.coarser or {}).get(name, 1e-5 * abs(value))
    return value - within, value + within


def ways_to_the_loss(losses: Figures, j: int, names: list[str], n: int) -> list[Interval]:
    """Between which bounds the loss of an attribute lies, in percent: by itself, by what is kept, and by totals."""
    attributes = losses.attributes or {}
    ways = [known(losses, f"attributes.{names[j]}.l_sse", attributes[names[j]].l_sse)]
    kept = known(losses, f"attributes.{names[j]}.variance_kept", attributes[names[j]].variance_kept)
    ways.append((100 - kept[1], 100 - kept[0]) if kept else None)
    totals = [known(losses, "sse", losses.sse)]
    share = known(losses, "l_sse", losses.l_sse)
    totals.append((share[0] * n * len(names) / 100, share[1] * n * len(names) / 100) if share else None)
    if losses.gap is not None and losses.lower_bound is not None:
        sse = losses.lower_bound / (1 - losses.gap / 100)
        totals.append((sse * (1 - 1e-4), sse * (1 + 1e-4)))
    for total in totals:
        low, high = total or (0.0, 100.0 * n)
        for other in names[:j] + names[j + 1 :]:
            of_other = known(losses, f"attributes.{other}.l_sse", attributes[other].l_sse) or (0.0, 100.0)
            low, high = low - of_other[1] * n / 100, high - of_other[0] * n / 100
        ways.append((100 * low / n, 100 * high / n))
    return [way for way in ways if way is not None]


def published(Z: Floats, masked: Floats, labels: Ints) -> tuple[LossStatistics, Figures, list[str]]:
    """What the losses are, and what is published of them, of which attributes."""
    n, p = Z.shape
    means = masked[np.unique(labels, return_index=True)[1]]
    statistics = loss_statistics(Z, means, np.zeros((n, p), dtype=bool), labels)
    names = [f"x{j}" for j in range(p)]
    kinds = [kind_of(name, pa.float64()) for name in names]
    sse = losses_of(statistics).sse
    bound = significant(sse / 2)
    proved = Figures(lower_bound=bound, gap=100 * (sse - bound) / sse)
    moments = [moments_of(column) for column in masked.T]
    return (
        statistics,
        published_figures(
            statistics, len(np.unique(labels)), kinds, list(zip(moments, moments, strict=True)), proved, 10
        ),
        names,
    )


#: A reader is to come no nearer to a record than this share of its distance from its group's mean, ...
NEAREST = 0.1
#: ... who knows what the second-largest group makes of a sum, and that of all but the two largest to within a fifth.
GUESSED = 0.2


@pytest.mark.parametrize("k", [2, 3, 4, 5])
def test_a_reader_stays_a_tenth_off_in_values_whatever_the_tail(k: int) -> None:
    """From losses to sums within groups, less what he knows and guesses, to the two outliers of the largest group.

    How its records lie to each other he knows as well, but not how far apart.
    """
    rng, n_dominated, n_exact = np.random.default_rng(k), 0, 0
    for seed in range(150):
        n, p, tail = int(rng.integers(110, 400)), int(rng.integers(1, 4)), float(rng.choice([1.0, 2.0, 5.0, 50.0]))
        Z = drawn(seed, n, p, tail)[0]
        labels = np.minimum(np.argsort(np.argsort(Z[:, seed % p])) // k, n // k - 1)
        masked = masked_by(Z, labels)
        losses, names = published(Z, masked, labels)[1:]
        x, mean = Z[:, 0], masked[:, 0]
        largest = labels == np.bincount(labels, (x - mean) ** 2).argmax()
        outliers = np.flatnonzero(largest)[np.argsort(-np.abs(x - mean)[largest])[:2]]
        sums = [(1, known(losses, "attributes.x0.il1s", (losses.attributes or {})["x0"].il1s), n * np.sqrt(2))]
        sums += [(2, way, n / 100) for way in ways_to_the_loss(losses, 0, names, n)]
        guesses = []
        for power, way, unit in sums:
            contributed = np.bincount(labels, np.abs(x - mean) ** power)
            *rest, second, first = np.sort(contributed)
            if way is None or first != contributed[labels[outliers[0]]]:
                continue
            others = [second + sum(rest) * (1 + GUESSED), second + sum(rest) * (1 - GUESSED)]
            wide = [(max(0.0, end * unit - of) / first) ** (1 / power) for end, of in zip(way, others, strict=True)]
            guesses.append(mean[outliers] + np.outer(wide, (x - mean)[outliers]))
            n_dominated, n_exact = n_dominated + (first > sum(rest)), n_exact + (way[1] - way[0] < 1e-3)
        off = [np.abs(guess - x[outliers]).max(axis=0) / np.abs(x - mean)[outliers] for guess in guesses]
        assert (np.array(off) >= NEAREST * (1 - 1e-3)).all(), (seed, n, p, tail)
    assert n_dominated > 50 and n_exact > 50


@examples(300)
@given(st.integers(0, 2**32 - 1), st.integers(80, 300), st.integers(1, 4), st.sampled_from([0.0, 0.8, 1.5, 3.0]))
def test_no_way_leads_around_a_figure_with_few_digits(seed: int, n: int, p: int, tail: float) -> None:
    Z, masked, labels = drawn(seed, n, p, tail)
    statistics, losses, names = published(Z, masked, labels)
    for j in range(p):
        lacking = Dominated(*statistics.squares[:, j].tolist()).lacking
        ways = ways_to_the_loss(losses, j, names, n)
        low, high = max(way[0] for way in ways), min(way[1] for way in ways)
        true = 100 * statistics.squares[0, j] / n
        assert low <= true * (1 + 1e-4) and high >= true * (1 - 1e-4)
        assert high - low >= 2 * 100 * lacking / n * (1 - 1e-3)


@examples(300)
@given(st.lists(st.integers(0, 400), min_size=2, max_size=6), st.integers(2, 30), st.data())
def test_what_is_told_of_categories_leaves_enough_counts_open(counts: list[int], k: int, data: st.DataObject) -> None:
    """A reader knows the released counts, and that what is told is of enough records."""
    n, fewest = sum(counts), max(k, 10)
    if not n:
        return
    released = [0] * len(counts)
    for code, count in enumerate(counts):
        other = data.draw(st.integers(0, len(counts) - 1)) if count < n / 2 else code
        released[other] += count
    kind = NominalKind("x", pa.string(), categories=tuple("abcdef"[: len(counts)]), counts=tuple(counts))
    figures = Figures(attributes={"x": AttributeFigures()})
    made = with_categories(figures, [kind], [(of_counts(counts), of_counts(released))], k, fewest)
    assert made.attributes is not None
    shares = made.attributes["x"].shares or ()
    assert {of.category for of in shares} >= {c for c, count in zip(kind.categories, released, strict=True) if count}
    for of in shares:
        before = counts[kind.categories.index(of.category)]
        if of.share_before is None:
            continue
        assert before >= fewest and of.within is not None
        assert abs(of.share_before - 100 * before / n) <= of.within * (1 + 1e-9)
        near = [c for c in range(fewest, n + 1) if abs(100 * c / n - of.share_before) <= of.within * (1 + 1e-9)]
        assert len(near) > fewest or before == n
