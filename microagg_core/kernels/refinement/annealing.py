"""Local search over groups: moves and swaps between neighbours; groups dissolved, made and remade, first uphill too.

Records are visited in order, each with one neighbour drawn at random: it moves to the neighbour's group if its own
has more than k, or changes places with a member of it. A change is made when it costs less than a random
threshold, whose mean, the temperature, falls to 0. The last sweeps go downhill only, and try everything.
"""

from __future__ import annotations

from microagg_core.arrays import Floats, Ints, ShortInts, UInt64s
from microagg_core.kernels.machine_code.jit import inlined, uncounted
from microagg_core.kernels.refinement.changing_groups import (
    Grouping,
    move,
    move_cost,
    squared_distance,
    swap,
    swap_cost,
    total_sse,
)
from microagg_core.kernels.refinement.drafts import GroupDraft
from microagg_core.kernels.refinement.rebuilding import GATHER, REGROUP, rebuild
from microagg_core.kernels.tools.random_draws import draw


@inlined
def _exchange(g: Grouping, x: int, b: int, k: int, limit: float, random: UInt64s) -> None:
    """Move x to another group b, or swap it with one of b's members, if that costs less than the limit."""
    x_to_b = squared_distance(g.X, x, g.centre, b)
    if g.size[g.label[x]] > k and g.size[b] < 2 * k and move_cost(g, x, b, x_to_b) < limit:
        move(g, x, b, k)
        return
    z = g.members[b, draw(random, g.size[b])]
    if swap_cost(g, x, z, x_to_b) < limit:
        swap(g, x, z)


@uncounted
def sweep(
    g: Grouping,
    d: GroupDraft,
    near: ShortInts,
    k: int,
    temperature: float,
    every: int,
    quantiles: Floats,
    random: UInt64s,
) -> None:
    """Try one change for each record, one in ``every`` (0: none) of whole groups."""
    for x in range(near.shape[0]):
        limit = temperature * quantiles[draw(random, quantiles.shape[0])]
        if every > 0 and draw(random, every) == 0:
            rebuild(g, d, near, k, x, REGROUP if draw(random, 2) > 0 else GATHER, limit, random)
            continue
        y = near[x, draw(random, near.shape[1])]
        if g.label[x] == g.label[y]:
            continue
        # A lonely record has neighbours but is nobody's: these must also be able to come to it.
        comes, b = (x, g.label[y]) if draw(random, 2) > 0 else (y, g.label[x])
        _exchange(g, comes, b, k, limit, random)


@uncounted
def anneal(
    g: Grouping,
    d: GroupDraft,
    near: ShortInts,
    k: int,
    start: int,
    stop: int,
    sweeps: int,
    hottest: float,
    power: int,
    every: int,
    quantiles: Floats,
    random: UInt64s,
    best: Ints,
    least: float,
) -> float:
    """Sweeps ``start`` to ``stop`` - 1 of ``sweeps``; labels of the least total below ``least`` go to ``best``.

    The temperature is ``hottest`` times the share of the sweeps that remain, to a power. Gives the least total.
    """
    for s in range(start, stop):
        temperature = hottest
        for _ in range(power):
            temperature *= (sweeps - 1 - s) / sweeps
        sweep(g, d, near, k, temperature, every, quantiles, random)
        total = total_sse(g)
        if total < least:
            least = total
            for x in range(best.shape[0]):
                best[x] = g.label[x]
    return least


@uncounted
def _best_change(g: Grouping, near: ShortInts, k: int, x: int, tolerance: float) -> bool:
    """Make the best move or swap of x with the groups of its neighbours, if it gains more than the tolerance."""
    a = g.label[x]
    gain, to, partner = -tolerance, -1, -1
    for r in range(near.shape[1]):
        b = g.label[near[x, r]]
        if b in (a, to):
            continue
        x_to_b = squared_distance(g.X, x, g.centre, b)
        if g.size[a] > k and g.size[b] < 2 * k:
            cost = move_cost(g, x, b, x_to_b)
            if cost < gain:
                gain, to, partner = cost, b, -1
        for i in range(g.size[b]):
            cost = swap_cost(g, x, g.members[b, i], x_to_b)
            if cost < gain:
                gain, to, partner = cost, b, g.members[b, i]
    if to < 0:
        return False
    if partner >= 0:
        swap(g, x, partner)
    else:
        move(g, x, to, k)
    return True


@uncounted
def descend(g: Grouping, near: ShortInts, k: int, most: int, tolerance: float) -> int:
    """Sweeps, at most so many, in which every record makes its best change, until none gains; how many ran."""
    for s in range(most):
        changes = 0
        for x in range(near.shape[0]):
            changes += _best_change(g, near, k, x, tolerance)
        if changes == 0:
            return s + 1
    return most
