"""Distances of groups from the whole, as their definitions have them."""

from __future__ import annotations

from fractions import Fraction

from microagg_core.arrays import Ints


def naive_distance(counts: list[int], group: list[int], is_ordered: bool) -> Fraction:
    """The distance of a group from the whole: among records with a value, and in the share of those without.

    Args:
        counts: records of the whole without a value, and with each value, in the values' order.
        group: the place of each record's value among them.
        is_ordered: whether the values have an order.
    """
    without = abs(Fraction(group.count(0), len(group)) - Fraction(counts[0], sum(counts)))
    valued = [place - 1 for place in group if place]
    return max(without, earth_movers(counts[1:], valued, is_ordered)) if valued else without


def earth_movers(counts: list[int], group: list[int], is_ordered: bool) -> Fraction:
    """The earth mover's distance, where all records have a value; places count from 0."""
    whole = [Fraction(count, sum(counts)) for count in counts]
    own = [Fraction(group.count(place), len(group)) for place in range(len(counts))]
    if not is_ordered:
        return sum((abs(p - q) for p, q in zip(whole, own, strict=True)), Fraction(0)) / 2
    moved, carried = Fraction(0), Fraction(0)
    for p, q in zip(whole, own, strict=True):
        carried += p - q
        moved += abs(carried)
    return moved / max(1, len(counts) - 1)


def naive_distances(counts: Ints, codes: Ints, labels: Ints, is_ordered: bool) -> list[Fraction]:
    """Those of all groups."""
    groups = [codes[labels == number].tolist() for number in range(int(labels.max()) + 1)]
    return [naive_distance(counts.tolist(), group, is_ordered) for group in groups]
