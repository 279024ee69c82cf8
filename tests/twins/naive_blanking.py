"""Blanking as one would do it with a few records: every way of letting patterns grow, and nearness record by record."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

#: How many of the records of a pattern get a larger one.
Way = dict[tuple[int, int], int]


def least_cells(counts: dict[int, int], k: int, p: int) -> int:
    """The fewest cells that any way blanks, so that k records share each pattern and no few cells are blanked alone."""
    return min(sum(blanked(way, p)) for way in _ways(sorted(counts.items()), p) if is_safe(way, counts, k, p))


def _ways(counts: list[tuple[int, int]], p: int) -> Iterator[Way]:
    if not counts:
        yield {}
        return
    (pattern, n), *others = counts
    larger = [other for other in range(1 << p) if other & pattern == pattern]
    for shares in _shares(n, len(larger)):
        own = {(pattern, other): rows for other, rows in zip(larger, shares, strict=True) if rows}
        for way in _ways(others, p):
            yield {**own, **way}


def _shares(n: int, places: int) -> Iterator[tuple[int, ...]]:
    if places == 1:
        yield (n,)
        return
    for first in range(n + 1):
        for rest in _shares(n - first, places - 1):
            yield (first, *rest)


def blanked(way: Way, p: int) -> list[int]:
    """Cells that a way blanks, by quasi-identifier."""
    return [sum(n for (before, after), n in way.items() if (after ^ before) >> j & 1) for j in range(p)]


def is_safe(way: Way, counts: dict[int, int], k: int, p: int) -> bool:
    """Whether k records share each pattern, and none, k, or all that there are, of a quasi-identifier's cells go."""
    sizes: dict[int, int] = {}
    for (_, after), n in way.items():
        sizes[after] = sizes.get(after, 0) + n
    has = [sum(n for pattern, n in counts.items() if not pattern >> j & 1) for j in range(p)]
    enough = all(n in (0, has[j]) or n >= k for j, n in enumerate(blanked(way, p)))
    return enough and min(sizes.values()) >= k


def moved(
    points: Sequence[Sequence[float]],
    costs: Sequence[float],
    stratum: Sequence[int],
    moves: Sequence[tuple[int, int, int]],
    lacks: list[int],
) -> list[int]:
    """The stratum of each record, once the nearest have moved, one record at a time."""

    def apart(a: Sequence[float], b: Sequence[float], j: int) -> float:
        return (a[j] != b[j]) * costs[j] if costs[j] else (a[j] - b[j]) ** 2

    found = list(stratum)
    for source, target, rows in moves:
        seen = [j for j in range(len(points[0])) if not lacks[target] >> j & 1]
        there = [record for record, place in enumerate(found) if place == source]
        own = [record for record, place in enumerate(found) if place == target] or there[:1]
        far = {r: sum(apart(points[r], points[o], j) for j in seen for o in own) for r in there}
        for record in sorted(there, key=lambda r: (far[r], r))[:rows]:
            found[record] = target
    return found
