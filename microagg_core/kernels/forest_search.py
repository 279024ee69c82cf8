"""The search: one alternating tree at a time, until every first copy is matched."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from microagg_core.kernels.forest import (
    FREE,
    HEAP,
    INNER,
    NEVER,
    NONE,
    OUTER,
    OVERFLOW,
    SEARCH,
    SOONEST,
    TOUCHED,
    Forest,
    dual_at,
    pop,
    push,
    settle,
)
from microagg_core.kernels.forest_moves import augment, dissolve, expand, make_inner, make_outer, rebase, shrink
from microagg_core.kernels.jit import jit

Ints = NDArray[np.int64]

#: What :func:`match_all` returns instead of the record that it could not cover.
DONE, TOO_MANY_EVENTS = -1, -2


@jit
def _raise_and_match(f: Forest) -> None:
    """Raise each first copy's dual as far as its edges allow, and match along tight edges."""
    n = f.start.shape[0] - 1
    for v in range(n):
        limit = NEVER
        for arc in range(f.start[v], f.start[v + 1]):
            limit = min(limit, f.arcs[arc].doubled - max(f.copies[f.arcs[arc].other].y, 0))
        f.copies[v].y = limit
    for v in range(n):
        for arc in range(f.start[v], f.start[v + 1]):
            u = f.arcs[arc].other
            is_tight = f.copies[u].y + f.copies[v].y == f.arcs[arc].doubled
            if is_tight and f.copies[u].mate == NONE and f.copies[v].mate == NONE:
                f.copies[v].mate, f.copies[u].mate = u, v


@jit
def _meet_tight(f: Forest, a: int, b: int, time: int) -> bool:
    """Act on a tight edge from a copy of an outer node; whether the search has ended."""
    node = f.copies[b].top
    if f.nodes[node].label == OUTER:
        shrink(f, a, b, time)
        return False
    base = f.nodes[node].base
    if f.copies[base].mate == NONE:
        rebase(f, node, b)
        f.copies[b].mate = a
        augment(f, a, b)
        return True
    make_inner(f, node, a, b, time)
    make_outer(f, f.copies[f.copies[base].mate].top, base, f.copies[base].mate, time)
    return False


@jit
def _edge_event(f: Forest, time: int, code: int) -> bool:
    """An edge may have become tight; whether the search has ended."""
    n = f.start.shape[0] - 1
    arc, kind = code // 3, code % 3
    a = f.arcs[arc].source + (n if kind == 2 else 0)
    b = f.arcs[arc].other + (n if kind == 1 else 0)
    if f.nodes[f.copies[a].top].label != OUTER:
        a, b = b, a
    here, there = f.copies[a].top, f.copies[b].top
    if f.nodes[here].label != OUTER or here == there or f.nodes[there].label == INNER:
        return False
    slack = f.arcs[arc].doubled - dual_at(f, a, time) - dual_at(f, b, time)
    if slack > 0:
        push(f, time + (slack >> 1 if f.nodes[there].label == OUTER else slack), code)
        return False
    return _meet_tight(f, a, b, time)


@jit
def _event(f: Forest, time: int, code: int) -> bool:
    """Act on what the heap brought, if it still holds; whether the search has ended."""
    arcs, nodes = f.arcs.shape[0], f.nodes.shape[0]
    if code < 3 * arcs:
        return _edge_event(f, time, code)
    node = code - 3 * arcs
    if node < nodes:
        if f.nodes[node].label == INNER and f.nodes[node].z == 2 * (time - f.nodes[node].since):
            expand(f, node, time)
        return False
    augment(f, node - nodes, NONE)
    return True


@jit
def _end_search(f: Forest, time: int) -> None:
    """Write all duals, take the labels off, and dissolve the blossoms that have no dual."""
    copies = f.copies.shape[0]
    for i in range(f.state[TOUCHED]):
        node = f.touched[i]
        if f.nodes[node].parent == NONE and f.nodes[node].label != FREE:
            settle(f, node, time)
            f.nodes[node].label = FREE
            waiting = [node]
            while len(waiting) > 0:
                blossom = waiting.pop()
                if blossom < copies or f.nodes[blossom].z > 0:
                    continue
                dissolve(f, blossom)
                child = f.nodes[blossom].first
                while True:
                    waiting.append(child)
                    child = f.nodes[child].after
                    if child == f.nodes[blossom].first:
                        break


@jit
def _search_from(f: Forest, root: int) -> int:
    """Grow a tree from a first copy that is not matched until the matching can be changed along a path."""
    f.state[SEARCH] += 1
    f.state[HEAP], f.state[TOUCHED], f.state[SOONEST] = 0, 0, NEVER
    make_outer(f, f.copies[root].top, NONE, NONE, 0)
    while f.state[HEAP] > 0:
        time, code = pop(f)
        if _event(f, time, code):
            _end_search(f, time)
            return DONE
        if f.state[OVERFLOW]:
            return TOO_MANY_EVENTS
    return root


@jit
def match_all(f: Forest) -> int:
    """Match every first copy at the least weight: DONE, TOO_MANY_EVENTS, or a record that cannot be covered."""
    _raise_and_match(f)
    for v in range(f.start.shape[0] - 1):
        if f.copies[v].mate == NONE:
            found = _search_from(f, v)
            if found != DONE:
                return found
    return DONE
