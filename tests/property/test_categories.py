"""Nominal and ordinal quasi-identifiers against twins that can be read: modes, medians, losses, the gate, links."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import polars
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from covering import examples
from microagg_core import microaggregate
from microagg_core.blocks.masking import loss_scale
from microagg_core.data.formats.released.csv import escape_formulas
from microagg_core.data.kinds.categories import CategoryKind
from microagg_core.data.kinds.encoding import Encoding, QuasiIdentifiers
from microagg_core.data.kinds.registry import completed, kind_of
from microagg_core.errors import DataError, SpecError
from microagg_core.group.metrics.losses import losses
from microagg_core.group.metrics.moments import Groups, moments_of, of_codes, of_repeated
from microagg_core.group.metrics.statistics import LossStatistics, attribute_losses, loss_statistics, losses_of
from microagg_core.group.points import Points
from microagg_core.inspect.candidates import SAME, Candidates
from microagg_core.inspect.checks.groups import Sharing, outside_ranges

LEVELS = ("none", "some", "more", "most")


def nominal(values: list[str]) -> CategoryKind:
    kind = completed(kind_of("job", pa.string()), pa.array(values, pa.string()))
    assert isinstance(kind, CategoryKind)
    return kind


def ordinal(values: list[str]) -> CategoryKind:
    kind = completed(kind_of("size", pa.string(), kind="ordinal", levels=LEVELS), pa.array(values))
    assert isinstance(kind, CategoryKind)
    return kind


def grouped(letters: Any) -> st.SearchStrategy[list[tuple[str, int]]]:
    """Records with a value and a group each; groups are 0, 1, ... without a gap."""
    return st.lists(st.tuples(st.sampled_from(letters), st.integers(0, 4)), min_size=1, max_size=40).map(_without_gaps)


def _without_gaps(records: list[tuple[str, int]]) -> list[tuple[str, int]]:
    numbers = {label: place for place, label in enumerate(dict.fromkeys(label for _, label in records))}
    return [(value, numbers[label]) for value, label in records]


def mode_of(own: list[str], file: list[str]) -> str:
    """The most frequent; of several the rarest of the file, and then the first by its code, here by its value."""
    everywhere, here = Counter(file), Counter(own)
    return min(here, key=lambda value: (-here[value], everywhere[value], value))


def median_of(own: list[str]) -> str:
    return LEVELS[sorted(map(LEVELS.index, own))[(len(own) - 1) // 2]]


@examples(60)
@given(grouped(list("abcde")), grouped(LEVELS))
def test_groups_get_their_mode_or_lower_median_and_the_gate_takes_nothing_else(
    texts: list[tuple[str, int]], sizes: list[tuple[str, int]]
) -> None:
    for records, make, twin in ((texts, nominal, mode_of), (sizes, ordinal, lambda own, _: median_of(own))):
        values, labels = [value for value, _ in records], np.array([label for _, label in records])
        kind = make(values)
        ticks, _ = kind.ticks(pa.array(values))
        released = kind.to_arrow(kind.representatives(ticks, Groups.of(labels))).to_pylist()
        for label, value in enumerate(released):
            own = [of for of, its in records if its == label]
            assert value == twin(own, values)
            for other in kind.categories:
                came, shown = (pa.chunked_array([pa.array(column)]) for column in (own, [other] * len(own)))
                found = outside_ranges(kind, came, shown, Sharing(np.zeros(len(own), dtype=np.uint64)))
                assert found == (0 if other == value else len(own))


@examples(60)
@given(grouped(list("abcde")), grouped(LEVELS))
def test_classes_of_several_groups_pass_the_gate(texts: list[tuple[str, int]], sizes: list[tuple[str, int]]) -> None:
    """A reader sees no groups: those with one released value are one class, and what holds of each holds of it."""
    for records, make in ((texts, nominal), (sizes, ordinal)):
        values, labels = [value for value, _ in records], np.array([label for _, label in records])
        kind = make(values)
        ticks, _ = kind.ticks(pa.array(values))
        released = kind.representatives(ticks, Groups.of(labels))[labels]
        classes = np.unique(released, return_inverse=True)[1]
        assert kind.fits(ticks, released, Groups.of(classes)).all()


def test_codes_are_by_frequency_and_levels_as_declared() -> None:
    kind = nominal(["b", "a", "c", "c", "b", "d"])
    assert (kind.categories, kind.counts) == (("b", "c", "a", "d"), (2, 2, 1, 1))
    sizes = ordinal(["more", "none", "more", "more", "most"])
    assert (sizes.categories, sizes.counts) == (LEVELS, (1, 0, 3, 1))
    assert sizes.offsets(np.array([0, 2, 3]), 0).tolist() == [1, 5, 9], "twice the midranks 0.5, 2.5, 4.5"
    whole = completed(kind_of("roof", pa.int8(), kind="ordinal"), pa.array([9, 2, 2, -1], pa.int8()))
    assert isinstance(whole, CategoryKind) and whole.categories == (-1, 2, 9)
    assert whole.to_arrow(np.array([2, 0])).equals(pa.array([9, -1], pa.int8()))
    codes = completed(kind_of("roof", pa.int8(), kind="nominal"), pa.array([9, 2, 2], pa.int8()))
    assert codes.is_coded and codes.ticks(pa.array([2, None, 9, 4], pa.int8()))[0].tolist() == [0, 0, 1, -1]


@pytest.mark.parametrize("held", [pa.float64(), pa.float32()])
def test_floats_that_are_whole_numbers_may_be_categories(held: pa.DataType) -> None:
    values = pa.array([2.0, -0.0, float("nan"), 0.0, None, 2.0, 7.0], held)
    for declared, categories in (("nominal", (0.0, 2.0, 7.0)), ("ordinal", (0.0, 2.0, 7.0))):
        kind = completed(kind_of("roof", held, kind=declared), values)
        assert isinstance(kind, CategoryKind) and (kind.categories, kind.counts) == (categories, (2, 2, 1))
        ticks, missing = kind.ticks(values)
        assert ticks[~missing].tolist() == [1, 0, 0, 1, 2] and missing.tolist() == [0, 0, 1, 0, 1, 0, 0]
        assert kind.to_arrow(ticks, missing).equals(pa.array([2, 0, None, 0, None, 2, 7], held))
        assert kind.shown(1) == "2"
        others = pa.chunked_array([pa.array([2.0, 2.5, float("inf"), 3.0], held)])
        rough = kind_of("roof", held, kind=declared)
        assert (rough.count_unusable(others), kind.count_unusable(others)) == (2, 3)
        assert rough.unusable[0] == "values that are no whole numbers"


def test_parts_of_a_file_make_the_same_codes() -> None:
    values = list("abcabcaadd")
    whole, kind = nominal(values), kind_of("job", pa.string())
    parts = [kind.more_traits(kind.NO_TRAITS, pa.array(part), np.zeros(0)) for part in (values[:3], values[3:], [])]
    assert kind.for_input(kind.all_traits(parts), of_codes(np.zeros(0, dtype=np.int64), 0)) == whole


def test_an_apostrophe_before_a_formula_is_no_other_category() -> None:
    kind = nominal(["=1+1", "-", "'quoted", "plain", "quoted"])
    released = pa.array(["'=1+1", "'-", "'quoted", "plain", "quoted", "'plain", "=1+1"])
    escaped = kind.read_from(escape_formulas)
    back = escaped.reader.ticks(released)[0]
    assert escaped.to_arrow(back[:5]).to_pylist() == ["=1+1", "-", "'quoted", "plain", "quoted"]
    assert back[5:].tolist() == [-1, -1] and escaped.reader.count_unusable(pa.chunked_array([released])) == 2
    assert kind.reader.ticks(released)[0].tolist()[:2] == [-1, -1], (
        "where nothing is escaped, texts are compared exactly"
    )
    with pytest.raises(DataError, match="'job' has categories that only differ by the apostrophe"):
        nominal(["=a", "'=a"]).read_from(escape_formulas)


@pytest.mark.parametrize(
    ("kind", "said", "why"),
    [
        (pa.date32(), {"kind": "nominal"}, "which cannot be nominal"),
        (pa.string(), {"kind": "number"}, "which cannot be number"),
        (pa.string(), {"kind": "ordinal"}, "whose order nobody knows; name its levels"),
        (pa.int8(), {"kind": "ordinal", "levels": ("1", "x")}, "a level of 'q' is no int8"),
        (pa.int8(), {"kind": "ordinal", "levels": ("1", "01")}, "two levels of 'q' are one value"),
        (pa.string(), {"rule": 0.5}, r"rounding\.q: is for means"),
    ],
)
def test_declarations_that_do_not_fit_are_refused(kind: pa.DataType, said: dict[str, Any], why: str) -> None:
    with pytest.raises((DataError, SpecError), match=why):
        kind_of("q", kind, **said)


def test_moments_of_codes_and_of_midranks_are_those_of_their_records() -> None:
    codes = np.array([0, 1, 1, 2, 2, 2])
    dense = Points(codes[:, None].astype(float), np.array([1.0])).dense()
    whole = of_codes(codes, 3)
    assert whole.deviation**2 == pytest.approx(((dense - dense.mean(axis=0)) ** 2).sum() / 6)
    assert of_codes(codes[:2], 2) + of_codes(codes[2:], 3) == whole
    values, counts = np.array([3, 10, 40]), np.array([2, 0, 5])
    expected = moments_of(np.repeat(values, counts))
    found = of_repeated(values, counts)
    assert (found.n, found.deviation) == (7, pytest.approx(expected.deviation))
    assert found.mean_from(0) == pytest.approx(expected.mean_from(0))


def mixed(n: int, seed: int) -> tuple[QuasiIdentifiers, np.ndarray]:
    """A number, a nominal of five and an ordinal column, and groups of records drawn at random."""
    rng = np.random.default_rng(seed)
    sizes = pa.DictionaryArray.from_arrays(rng.integers(0, 4, n), list(LEVELS), ordered=True)
    jobs = pa.array(rng.choice(list("abcde"), n, p=[0.5, 0.3, 0.1, 0.05, 0.05]))
    columns = {"age": pa.array(rng.normal(size=n)), "job": jobs, "size": sizes}
    return QuasiIdentifiers.of(columns), np.sort(rng.permutation(np.arange(n) // 5))


def released_statistics(
    encoding: Encoding, scale: Encoding, ticks: list[np.ndarray], labels: np.ndarray
) -> tuple[LossStatistics, np.ndarray]:
    groups = Groups.of(labels)
    released = [kind.representatives(of, groups) for kind, of in zip(encoding.kinds, ticks, strict=True)]
    columns = zip(encoding.kinds, released, encoding.origins, strict=True)
    after = scale.standardize(np.column_stack([kind.released_offsets(of, origin) for kind, of, origin in columns]))
    before = scale.standardize(encoding.offsets_of(ticks))
    missing = np.zeros(before.shape, dtype=np.bool_)
    return loss_statistics(before, after, missing, labels, scale.categories), np.array(released)


@pytest.mark.parametrize("seed", range(3))
def test_losses_are_those_of_a_column_a_category(seed: int) -> None:
    quasi, labels = mixed(200, seed)
    scale = quasi.encoding
    statistics, released = released_statistics(scale, scale, list(quasi.ticks), labels)
    dense = quasi.measured().dense()
    twin, found = losses(dense, labels), losses_of(statistics)
    # Of numbers and ranks the centre is the mean, and of the number that is what is released.
    assert (found.sse, found.sst) == pytest.approx((twin.sse, twin.sst))
    assert (found.sde, found.sdt) == pytest.approx((twin.sde, twin.sdt))
    assert losses(quasi.measured(), labels).document() == pytest.approx(twin.document())
    jobs = losses(Points(quasi.measured().X[:, [1]], scale.costs[[1]]).dense(), labels)
    assert attribute_losses(statistics)["l_sse"][1] == pytest.approx(jobs.l_sse)
    changed = [int(np.sum(quasi.ticks[j] != released[j][labels])) for j in (1, 2)]
    assert statistics.changed[0].tolist() == [0, *changed]
    half = len(labels) // 2
    two = [released_statistics(scale, scale, [t[rows] for t in quasi.ticks], labels[rows] - labels[rows][0])[0]
           for rows in (slice(None, half), slice(half, None))]  # fmt: skip
    assert (two[0] + two[1]).by_group[0] == pytest.approx(statistics.by_group[0])
    assert losses_of(two[0] + two[1]).sst == pytest.approx(found.sst)
    correlations = statistics.before.correlations()
    assert np.isnan(correlations[1, [0, 2]]).all() and correlations[0, 2] < 1


@examples(60)
@given(grouped(list("abcdefgh")))
def test_mismatches_lie_between_what_groups_lose_and_twice_that(records: list[tuple[str, int]]) -> None:
    values, labels = [value for value, _ in records], np.array([label for _, label in records])
    kind = nominal(values)
    ticks = kind.ticks(pa.array(values))[0]
    encoding = Encoding.from_moments((kind,), (kind.moments(ticks),))
    statistics, _ = released_statistics(encoding, encoding, [ticks], labels)
    lost, changed = statistics.squares[0, 0] * encoding.deviations[0] ** 2, statistics.changed[0, 0]
    assert lost - 1e-9 <= changed <= 2 * lost + 1e-9


def test_importance_moves_groups_and_not_the_scale_of_losses() -> None:
    quasi, _ = mixed(200, 0)
    kinds = tuple(replace(kind, importance=times) for kind, times in zip(quasi.encoding.kinds, (1, 4, 9), strict=True))
    weighted, plain = replace(quasi.encoding, kinds=kinds), quasi.encoding
    of_weighted, of_plain = (e.points(e.offsets_of(quasi.ticks)).dense() for e in (weighted, plain))
    apart = [((X[3] - X[7]) ** 2 @ np.repeat([1, 1, 1], [1, 5, 1])) for X in (of_weighted, of_plain)]
    each = (of_plain[3] - of_plain[7]) ** 2
    assert apart[0] == pytest.approx(each[0] + 4 * each[1:6].sum() + 9 * each[6])
    moments = [kind.moments(ticks) for kind, ticks in zip(kinds, quasi.ticks, strict=True)]
    assert loss_scale(weighted, moments) == plain


@examples(20)
@given(st.integers(0, 10**6))
def test_links_through_codes_are_those_of_comparing_all(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, m, costs = 30, 40, np.array([2.0, 0.0, 0.7])
    codes = [rng.integers(0, 4, n), rng.integers(0, 3, n), rng.integers(0, 5, n)]
    means, missing = np.column_stack(codes).astype(float), np.zeros((n, 3), dtype=np.bool_)
    missing[:, 1] = rng.random(n) < 0.2
    labels, sizes, own = np.sort(rng.integers(0, 3, n)), rng.integers(2, 6, n), rng.integers(0, n, m)
    values = np.column_stack([rng.integers(0, 5, m), rng.integers(0, 3, m), rng.integers(0, 5, m)]).astype(float)
    found = Candidates(means, missing, labels, sizes, costs).link(values, own)
    for i, place in enumerate(own.tolist()):
        rivals = [j for j in range(n) if labels[j] == labels[place] and (missing[j] == missing[place]).all()]
        squares = {
            j: sum(
                costs[a] * (means[j, a] != values[i, a]) if costs[a] else (means[j, a] - values[i, a]) ** 2
                for a in range(3)
                if not missing[j, a]
            )
            for j in rivals
        }
        limit = (np.sqrt(min(squares.values())) * (1 + SAME) + SAME) ** 2
        nearest = sum(int(sizes[j]) for j in rivals if squares[j] <= limit)
        right = 1 / nearest if squares[place] <= limit else 0.0
        assert (found[0][i], found[1][i]) == pytest.approx((right * sizes[place], right))


def test_the_python_functions_give_frames_of_their_own_types() -> None:
    sizes = ["none", "some", "some", "most", "more", "most"]
    frame = pd.DataFrame(
        {
            "job": ["cook", "cook", "nurse", "smith", "smith", "weaver"],
            "size": pd.Categorical(sizes, LEVELS, ordered=True),
            "town": pd.Categorical(["Ayr", "Ayr", "Bern", "Cork", "Cork", "Cork"]),
            "age": [1.0, 1, 1, 9, 9, 9],
        }
    )
    masked = microaggregate(frame, ["job", "size", "town", "age"], 3).data
    assert masked.dtypes.equals(frame.dtypes) and masked["job"].tolist() == ["cook"] * 3 + ["smith"] * 3
    assert masked["size"].tolist() == ["some"] * 3 + ["most"] * 3
    of_polars = polars.from_pandas(frame).with_columns(polars.col("size").cast(polars.Enum(LEVELS)))
    again = microaggregate(of_polars, ["job", "size", "town", "age"], 3, blocking=[]).data
    assert again.schema == of_polars.schema and again["size"].to_list() == masked["size"].tolist()
    table = pa.Table.from_pandas(frame)
    back = microaggregate(table, ["job", "size", "town", "age"], 3, missing="separate").data
    assert back.schema.types == table.schema.types and back["size"].to_pylist() == masked["size"].tolist()
    assert microaggregate(frame, ["job", "size", "town", "age"], 3, bound=True).bound.sse > 0
