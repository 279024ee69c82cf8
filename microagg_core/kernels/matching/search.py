"""The search: one alternating tree at a time, until every first copy is matched."""

from __future__ import annotations

from microagg_core.kernels.machine_code.jit import jit
from microagg_core.kernels.matching.moves import augment, dissolve, expand, make_inner, make_outer, rebase, shrink
from microagg_core.kernels.matching.state import (
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
    Matching,
    dual_at,
    pop,
    push,
    settle,
)

#: What :func:`match_all` returns instead of the record that it could not cover.
DONE, TOO_MANY_EVENTS = -1, -2


@jit
def _raise_and_match(m: Matching) -> None:
    """Raise each first copy's dual as far as its edges allow, and match along tight edges."""
    n = m.start.shape[0] - 1
    for v in range(n):
        limit = NEVER
        for arc in range(m.start[v], m.start[v + 1]):
            limit = min(limit, m.arcs[arc].doubled - max(m.copies[m.arcs[arc].other].y, 0))
        m.copies[v].y = limit
    for v in range(n):
        for arc in range(m.start[v], m.start[v + 1]):
            u = m.arcs[arc].other
            is_tight = m.copies[u].y + m.copies[v].y == m.arcs[arc].doubled
            if is_tight and m.copies[u].mate == NONE and m.copies[v].mate == NONE:
                m.copies[v].mate, m.copies[u].mate = u, v


@jit
def _meet_tight(m: Matching, a: int, b: int, time: int) -> bool:
    """Act on a tight edge from a copy of an outer node; whether the search has ended."""
    node = m.copies[b].top
    if m.nodes[node].label == OUTER:
        shrink(m, a, b, time)
        return False
    base = m.nodes[node].base
    if m.copies[base].mate == NONE:
        rebase(m, node, b)
        m.copies[b].mate = a
        augment(m, a, b)
        return True
    make_inner(m, node, a, b, time)
    make_outer(m, m.copies[m.copies[base].mate].top, base, m.copies[base].mate, time)
    return False


@jit
def _edge_event(m: Matching, time: int, code: int) -> bool:
    """An edge may have become tight; whether the search has ended."""
    n = m.start.shape[0] - 1
    arc, kind = code // 3, code % 3
    a = m.arcs[arc].source + (n if kind == 2 else 0)
    b = m.arcs[arc].other + (n if kind == 1 else 0)
    if m.nodes[m.copies[a].top].label != OUTER:
        a, b = b, a
    here, there = m.copies[a].top, m.copies[b].top
    if m.nodes[here].label != OUTER or here == there or m.nodes[there].label == INNER:
        return False
    slack = m.arcs[arc].doubled - dual_at(m, a, time) - dual_at(m, b, time)
    if slack > 0:
        push(m, time + (slack >> 1 if m.nodes[there].label == OUTER else slack), code)
        return False
    return _meet_tight(m, a, b, time)


@jit
def _event(m: Matching, time: int, code: int) -> bool:
    """Act on what the heap brought, if it still holds; whether the search has ended."""
    arcs, nodes = m.arcs.shape[0], m.nodes.shape[0]
    if code < 3 * arcs:
        return _edge_event(m, time, code)
    node = code - 3 * arcs
    if node < nodes:
        if m.nodes[node].label == INNER and m.nodes[node].z == 2 * (time - m.nodes[node].since):
            expand(m, node, time)
        return False
    augment(m, node - nodes, NONE)
    return True


@jit
def _end_search(m: Matching, time: int) -> None:
    """Write all duals, take the labels off, and dissolve the blossoms that have no dual."""
    copies = m.copies.shape[0]
    for i in range(m.state[TOUCHED]):
        node = m.touched[i]
        if m.nodes[node].parent == NONE and m.nodes[node].label != FREE:
            settle(m, node, time)
            m.nodes[node].label = FREE
            waiting = [node]
            while len(waiting) > 0:
                blossom = waiting.pop()
                if blossom < copies or m.nodes[blossom].z > 0:
                    continue
                dissolve(m, blossom)
                child = m.nodes[blossom].first
                while True:
                    waiting.append(child)
                    child = m.nodes[child].after
                    if child == m.nodes[blossom].first:
                        break


@jit
def _search_from(m: Matching, root: int) -> int:
    """Grow a tree from a first copy that is not matched until the matching can be changed along a path."""
    m.state[SEARCH] += 1
    m.state[HEAP], m.state[TOUCHED], m.state[SOONEST] = 0, 0, NEVER
    make_outer(m, m.copies[root].top, NONE, NONE, 0)
    while m.state[HEAP] > 0:
        time, code = pop(m)
        if _event(m, time, code):
            _end_search(m, time)
            return DONE
        if m.state[OVERFLOW]:
            return TOO_MANY_EVENTS
    return root


@jit
def match_all(m: Matching) -> int:
    """Match every first copy at the least weight: DONE, TOO_MANY_EVENTS, or a record that cannot be covered."""
    _raise_and_match(m)
    for v in range(m.start.shape[0] - 1):
        if m.copies[v].mate == NONE:
            found = _search_from(m, v)
            if found != DONE:
                return found
    return DONE
