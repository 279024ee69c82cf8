"""A slow, readable twin of every algorithm: plain Python, written from the rules, sharing nothing with the kernels.

Each twin takes the records as given and returns the groups as lists of record numbers. What decides a tie is
spelled out: a squared distance is added up attribute by attribute in order; the distance of a record from the
centroid of m records is that of m times the record from their total, which needs no division; a total is the
exact one, rounded once; and equal distances go to the lower record number.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from fractions import Fraction
from functools import cache
from itertools import accumulate, combinations

Point = Sequence[float]
Points = Sequence[Point] | Mapping[int, Point]
Groups = list[list[int]]

#: What V-MDAV's gamma 'auto' tries.
GAMMAS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.6, 0.8, 1.1, 1.3, 2.0)


def squared_distance(a: Point, b: Point) -> float:
    total = 0.0
    for x, y in zip(a, b, strict=True):
        total += (x - y) ** 2
    return total


def total(X: Sequence[Point], records: Iterable[int]) -> list[float]:
    """The exact sum of the records, rounded once."""
    columns = zip(*(X[i] for i in records), strict=True)
    return [float(sum(map(Fraction, column))) for column in columns]


def times(factor: int, point: Point) -> list[float]:
    return [factor * x for x in point]


def farthest_from_centroid(X: Sequence[Point], records: Collection[int]) -> int:
    scaled = {i: times(len(records), X[i]) for i in records}
    return farthest(scaled, records, total(X, records))


def farthest(X: Points, records: Iterable[int], point: Point) -> int:
    return min(records, key=lambda i: (-squared_distance(X[i], point), i))


def nearest(X: Sequence[Point], records: Iterable[int], point: Point, count: int) -> list[int]:
    return sorted(records, key=lambda i: (squared_distance(X[i], point), i))[:count]


def group_around(X: Sequence[Point], free: set[int], record: int, k: int) -> list[int]:
    """Take a record and its k-1 nearest out of the free ones."""
    group = [record, *nearest(X, free - {record}, X[record], k - 1)]
    free.difference_update(group)
    return group


def place_rest(X: Sequence[Point], groups: Groups, candidates: Groups, free: set[int], k: int) -> None:
    """Make a last group of k records or more; fewer all join the candidate whose centroid is nearest to theirs."""
    if len(free) >= k:
        groups.append(sorted(free))
    elif free:
        rest = times(k, total(X, free))
        in_order = sorted(candidates, key=min)
        min(in_order, key=lambda group: squared_distance(times(len(free), total(X, group)), rest)).extend(free)


def mdav(X: Sequence[Point], k: int) -> Groups:
    free = set(range(len(X)))
    groups: Groups = []
    while len(free) >= 2 * k:
        r = farthest_from_centroid(X, free)
        groups.append(group_around(X, free, r, k))
        s = farthest(X, free, X[r])
        groups.append(group_around(X, free, s, k))
    place_rest(X, groups, groups[-2:], free, k)
    return groups


def mdav_generic(X: Sequence[Point], k: int) -> Groups:
    free = set(range(len(X)))
    groups: Groups = []
    while len(free) >= 3 * k:
        r = farthest_from_centroid(X, free)
        groups.append(group_around(X, free, r, k))
        s = farthest(X, free, X[r])
        groups.append(group_around(X, free, s, k))
    if len(free) >= 2 * k:
        groups.append(group_around(X, free, farthest_from_centroid(X, free), k))
    return [*groups, sorted(free)]


def mdav_single(X: Sequence[Point], k: int) -> Groups:
    free = set(range(len(X)))
    groups: Groups = []
    while len(free) >= 2 * k:
        groups.append(group_around(X, free, farthest_from_centroid(X, free), k))
    return [*groups, sorted(free)]


def md(X: Sequence[Point], k: int) -> Groups:
    free = set(range(len(X)))
    groups: Groups = []
    while len(free) >= 2 * k:
        r, s = max(combinations(sorted(free), 2), key=lambda pair: squared_distance(X[pair[0]], X[pair[1]]))
        free.remove(s)
        groups.append(group_around(X, free, r, k))
        free.add(s)
        groups.append(group_around(X, free, s, k))
    place_rest(X, groups, groups, free, k)
    return groups


def join_nearest(X: Sequence[Point], groups: Groups, left_over: Iterable[int]) -> None:
    """Give each record to the group with the nearest centroid; those that join do not move the centroids."""
    closed = [(group, total(X, group), len(group)) for group in sorted(groups, key=min)]
    for i in sorted(left_over):
        nearest_one = min(closed, key=lambda g: squared_distance(times(g[2], X[i]), g[1]) / g[2] ** 2)
        nearest_one[0].append(i)


def _may_join(X: Sequence[Point], group: list[int], free: set[int], gamma: float) -> int | None:
    """The free record nearest to the group, if it is nearer to it than gamma times to any other free record."""
    to_group = {i: min(squared_distance(X[i], X[j]) for j in group) for i in free}
    candidate = min(free, key=lambda i: (to_group[i], i))
    others = [squared_distance(X[candidate], X[i]) for i in free if i != candidate]
    return candidate if to_group[candidate] < gamma * min(others, default=math.inf) else None


def sum_of_squares(X: Sequence[Point], groups: Groups) -> Fraction:
    """The exact sum of squared distances to the groups' centroids."""
    sse = Fraction(0)
    for group in groups:
        for column in zip(*(map(Fraction, X[i]) for i in group), strict=True):
            sse += sum(x * x for x in column) - sum(column) ** 2 / len(group)
    return sse


def best_v_mdav(X: Sequence[Point], k: int) -> Groups:
    """The groups of the gamma with the least loss, of several the least gamma; a share of 1e-12 is no loss."""
    kept = v_mdav(X, k, GAMMAS[0])
    least = sum_of_squares(X, kept)
    for gamma in GAMMAS[1:]:
        groups = v_mdav(X, k, gamma)
        sse = sum_of_squares(X, groups)
        if sse < least * (1 - Fraction(1, 10**12)):
            kept, least = groups, sse
    return kept


def v_mdav(X: Sequence[Point], k: int, gamma: float | str = 0.2) -> Groups:
    if isinstance(gamma, str):
        return best_v_mdav(X, k)
    free = set(range(len(X)))
    middle = total(X, free)
    scaled = [times(len(X), x) for x in X]
    groups: Groups = []
    while len(free) >= k:
        group = group_around(X, free, farthest(scaled, free, middle), k)
        while gamma > 0 and free and len(group) < 2 * k - 1:
            joining = _may_join(X, group, free, gamma)
            if joining is None:
                break
            group.append(joining)
            free.remove(joining)
        groups.append(group)
    join_nearest(X, groups, free)
    return groups


def widest(X: Sequence[Point], records: Sequence[int]) -> int:
    """The attribute whose offsets from the first record vary most, the first of several; 0 if none varies."""
    variances = []
    for column in zip(*(X[i] for i in records), strict=True):
        offsets = [x - column[0] for x in column]
        sums, squares = list(accumulate(offsets))[-1], list(accumulate(x * x for x in offsets))[-1]
        variances.append((squares - sums * (sums / len(column))) / len(column))
    return max(range(len(variances)), key=lambda j: (max(variances[j], 0.0), -j))


def slabs(X: Sequence[Point], k: int) -> Groups:
    """Cut in two across the attribute that varies most, down to groups; equal values stay together where they can."""

    def cut(records: list[int]) -> Groups:
        size = len(records)
        if size < 2 * k:
            return [records]
        j = widest(X, records[:: 1 + size // 128])
        if len({X[i] for i in records[:: 1 + size // 128]}) == 1:
            j = widest(X, records)
        ordered = sorted(records, key=lambda i: (X[i][j], i))
        middle = k * (size // k // 2)
        borders = [at for at in range(k, size - k + 1) if X[ordered[at - 1]][j] != X[ordered[at]][j]]
        key = X[ordered[middle]][j]
        about = [at for at in borders if key in (X[ordered[at - 1]][j], X[ordered[at]][j])]
        border = min(about, key=lambda at: (abs(at - middle), at), default=middle)
        return cut(sorted(ordered[:border])) + cut(sorted(ordered[border:]))

    return cut(list(range(len(X))))


def mdav_plus(X: Sequence[Point], k: int) -> Groups:
    return v_mdav(X, k, gamma=0.0)


def pair_sum(X: Sequence[Point], group: list[int]) -> float:
    """Squared distances between all pairs, in the order of record numbers: the sum of squares times the size."""
    result = 0.0
    for i, j in combinations(sorted(group), 2):
        result += squared_distance(X[i], X[j])
    return result


def growth(X: Sequence[Point], record: int, group: list[int]) -> tuple[float, float]:
    """By how much the group's sum of squares grows when the record joins, as numerator and denominator."""
    size = len(group)
    return squared_distance(times(size, X[record]), total(X, group)), size * (size + 1.0)


def starts_group(X: Sequence[Point], free: set[int], record: int, k: int, joining: tuple[float, float]) -> bool:
    """Whether a group of its own costs no more, a record placed, than to join and let the nearest start one."""
    own = [record, *nearest(X, free - {record}, X[record], k - 1)]
    y = own[1]
    around_y = [y, *nearest(X, free - {record, y}, X[y], k - 1)]
    numerator, denominator = joining
    # pair_sum(own) / k / k <= (numerator / denominator + pair_sum(around_y) / k) / (k + 1)
    joined = k * k * numerator + k * pair_sum(X, around_y) * denominator
    return pair_sum(X, own) * (k + 1) * denominator <= joined


def mdav_star(X: Sequence[Point], k: int) -> Groups:
    free = set(range(len(X)))
    middle = total(X, free)
    scaled = [times(len(X), x) for x in X]
    groups: Groups = []
    while free:
        record = farthest(scaled, free, middle)
        if not groups or len(free) == k:
            groups.append(group_around(X, free, record, k))
            continue
        growths = [(growth(X, record, group), group) for group in sorted(groups, key=min)]
        joining, cheapest = min(growths, key=lambda g: g[0][0] / g[0][1])
        if len(free) > k and starts_group(X, free, record, k, joining):
            groups.append(group_around(X, free, record, k))
        else:
            cheapest.append(record)
            free.remove(record)
    return groups


def clearly_less(a: Fraction, b: Fraction) -> bool:
    """Less by more than the rounding of 32 digits."""
    return a < b - b / 2**80


def univariate(X: Sequence[Point], k: int) -> Groups:
    """Cuts of the sorted values that cost least, from the last to the first; of several, the first cut comes first."""
    x, n = [Fraction(value) for (value,) in X], len(X)
    first = next(value for value in x if value in (min(x), max(x)))
    sign = 1 if first == min(x) else -1
    order = sorted(range(n), key=lambda i: (sign * x[i], i))
    sums = [Fraction(0), *accumulate(x[i] for i in order)]
    squares = [Fraction(0), *accumulate(x[i] ** 2 for i in order)]
    costs, ends = {n: Fraction(0)}, {}
    for start in range(n - k, -1, -1):
        for end in range(start + k, min(start + 2 * k, n + 1)):
            if end in costs:
                cost = costs[end] + squares[end] - squares[start] - (sums[end] - sums[start]) ** 2 / (end - start)
                if start not in costs or clearly_less(cost, costs[start]):
                    costs[start], ends[start] = cost, end
    groups, start = [], 0
    while start < n:
        groups.append(order[start : ends[start]])
        start = ends[start]
    return groups


def exhaustive(X: Sequence[Point], k: int) -> Groups:
    """All partitions: the lowest record's group with every choice of others, then the rest likewise."""

    @cache
    def best(free: frozenset[int]) -> tuple[Fraction, Groups]:
        if not free:
            return Fraction(0), []
        lowest, *others = sorted(free)
        choices = [[*more, lowest] for size in range(k - 1, 2 * k - 1) for more in combinations(others[::-1], size)]
        found = None
        for group in sorted(choices):  # by the highest record, then the next
            rest = free.difference(group)
            if rest and len(rest) < k:
                continue
            cost, groups = best(rest)
            cost += Fraction(pair_sum(X, group)) / len(group)
            if found is None or clearly_less(cost, found[0]):
                found = cost, [group, *groups]
        assert found is not None
        return found

    return best(frozenset(range(len(X))))[1]


def weighted_means(values: Sequence[float], weights: Sequence[float], labels: Sequence[int]) -> list[Fraction]:
    """Exact weighted means of groups 0..g-1."""
    means = []
    for group in range(max(labels) + 1):
        members = [i for i, label in enumerate(labels) if label == group]
        above = sum(Fraction(weights[i]) * Fraction(values[i]) for i in members)
        means.append(above / sum(Fraction(weights[i]) for i in members))
    return means


def weighted_mode(own: Sequence[str], weights: Sequence[float], file: Sequence[str]) -> str:
    """The value with most weight, of decimals; of several the rarest of the file, and then the first by value."""
    everywhere, here = Counter(file), Counter[str]()
    for value, weight in zip(own, weights, strict=True):
        here[value] += Fraction(repr(weight))  # type: ignore[assignment]
    return min(here, key=lambda value: (-here[value], everywhere[value], value))


def weighted_median(own: Sequence[str], weights: Sequence[float], levels: Sequence[str]) -> str:
    """The lowest level such that at least half of the weight is not above it."""
    pairs = [(levels.index(value), Fraction(repr(weight))) for value, weight in zip(own, weights, strict=True)]
    half = sum(weight for _, weight in pairs) / 2
    return next(level for i, level in enumerate(levels) if sum(weight for place, weight in pairs if place <= i) >= half)
