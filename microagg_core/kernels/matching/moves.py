"""Moves of the search: label a node, shrink a blossom, expand one, and change the matching along a path."""

from __future__ import annotations

from microagg_core.kernels.machine_code.jit import jit
from microagg_core.kernels.matching.state import (
    CLIMB,
    FREE,
    INNER,
    NONE,
    OUTER,
    SEARCH,
    SOONEST,
    SPARE,
    TOUCHED,
    Matching,
    child_with,
    dual_at,
    first_copy,
    next_copy,
    push,
    settle,
)


@jit
def _label(m: Matching, node: int, label: int, from_copy: int, into_copy: int, time: int) -> None:
    m.nodes[node].label = label
    m.nodes[node].since = time
    m.nodes[node].from_copy = from_copy
    m.nodes[node].into_copy = into_copy
    if m.nodes[node].searched != m.state[SEARCH]:
        m.nodes[node].searched = m.state[SEARCH]
        m.touched[m.state[TOUCHED]] = node
        m.state[TOUCHED] += 1


@jit
def _meet(m: Matching, node: int, copy: int, there: int, dual: int, arc: int, kind: int, time: int) -> None:
    """Note when the edge from a copy of an outer node to another copy could become tight."""
    target = m.copies[there].top
    if target == node or m.nodes[target].label == INNER:
        return
    slack = m.arcs[arc].doubled - dual - dual_at(m, there, time)
    if m.nodes[target].label == OUTER:
        push(m, time + (slack >> 1), 3 * arc + kind)
        return
    push(m, time + slack, 3 * arc + kind)
    if m.copies[m.nodes[target].base].mate == NONE:
        m.state[SOONEST] = min(m.state[SOONEST], time + slack)


@jit
def scan(m: Matching, node: int, copy: int, time: int) -> None:
    """Note what the edges of a copy of an outer node could bring, and when its own dual would reach 0."""
    n = m.start.shape[0] - 1
    dual = dual_at(m, copy, time)
    if copy >= n:
        push(m, time - dual, 3 * m.arcs.shape[0] + m.nodes.shape[0] + copy)
        m.state[SOONEST] = min(m.state[SOONEST], time - dual)
        for arc in range(m.start[copy - n], m.start[copy - n + 1]):
            _meet(m, node, copy, m.arcs[arc].other, dual, arc, 2, time)
        return
    for arc in range(m.start[copy], m.start[copy + 1]):
        _meet(m, node, copy, m.arcs[arc].other, dual, arc, 0, time)
        _meet(m, node, copy, m.arcs[arc].other + n, dual, arc, 1, time)


@jit
def make_outer(m: Matching, node: int, from_copy: int, into_copy: int, time: int) -> None:
    """Label a free outermost node as outer, reached by an edge (NONE for the root), and scan its copies."""
    _label(m, node, OUTER, from_copy, into_copy, time)
    copy = first_copy(m, node)
    while copy != NONE:
        scan(m, node, copy, time)
        copy = next_copy(m, node, copy)


@jit
def make_inner(m: Matching, node: int, from_copy: int, into_copy: int, time: int) -> None:
    """Label a free outermost node as inner; a blossom must be expanded when its dual reaches 0."""
    _label(m, node, INNER, from_copy, into_copy, time)
    if node >= m.copies.shape[0]:
        push(m, time + (m.nodes[node].z >> 1), 3 * m.arcs.shape[0] + node)


@jit
def _common_ancestor(m: Matching, a: int, b: int) -> int:
    """The outer node nearest to two outer nodes on their ways to the root."""
    m.state[CLIMB] += 1
    climb = m.state[CLIMB]
    while True:
        if a != NONE:
            if m.nodes[a].climbed == climb:
                return a
            m.nodes[a].climbed = climb
            inner = m.nodes[a].from_copy
            a = NONE if inner == NONE else m.copies[m.nodes[m.copies[inner].top].from_copy].top
        a, b = b, a


@jit
def _join(m: Matching, here: int, there: int, edge_here: int, edge_there: int) -> None:
    m.nodes[here].after, m.nodes[there].before = there, here
    m.nodes[here].edge_here, m.nodes[here].edge_there = edge_here, edge_there


@jit
def _close_cycle(m: Matching, ancestor: int, a: int, b: int) -> None:
    """Link the nodes around the cycle that the edge from copy a to copy b closes."""
    _join(m, m.copies[a].top, m.copies[b].top, a, b)
    node = m.copies[b].top
    while node != ancestor:
        above = m.copies[m.nodes[node].from_copy].top
        _join(m, node, above, m.nodes[node].into_copy, m.nodes[node].from_copy)
        node = above
    node = m.copies[a].top
    while node != ancestor:
        above = m.copies[m.nodes[node].from_copy].top
        _join(m, above, node, m.nodes[node].from_copy, m.nodes[node].into_copy)
        node = above


@jit
def _put_under(m: Matching, node: int, outermost: int) -> None:
    copy = first_copy(m, node)
    while copy != NONE:
        m.copies[copy].top = outermost
        copy = next_copy(m, node, copy)


@jit
def shrink(m: Matching, a: int, b: int, time: int) -> None:
    """Make an outer blossom of the cycle that a tight edge between copies of two outer nodes closes."""
    ancestor = _common_ancestor(m, m.copies[a].top, m.copies[b].top)
    _close_cycle(m, ancestor, a, b)
    m.state[SPARE] -= 1
    blossom = m.spare[m.state[SPARE]]
    m.nodes[blossom].first, m.nodes[blossom].base = ancestor, m.nodes[ancestor].base
    m.nodes[blossom].parent, m.nodes[blossom].z = NONE, 0
    from_copy, into_copy = m.nodes[ancestor].from_copy, m.nodes[ancestor].into_copy
    child = ancestor
    while True:
        settle(m, child, time)
        _put_under(m, child, blossom)
        m.nodes[child].parent = blossom
        child = m.nodes[child].after
        if child == ancestor:
            break
    _label(m, blossom, OUTER, from_copy, into_copy, time)
    while True:
        if m.nodes[child].label == INNER:
            copy = first_copy(m, child)
            while copy != NONE:
                scan(m, blossom, copy, time)
                copy = next_copy(m, child, copy)
        m.nodes[child].label = FREE
        child = m.nodes[child].after
        if child == ancestor:
            break


@jit
def dissolve(m: Matching, blossom: int) -> None:
    """Make the children of an outermost blossom outermost and free; they stay linked until they are used again."""
    child = m.nodes[blossom].first
    while True:
        m.nodes[child].parent, m.nodes[child].label = NONE, FREE
        copy = first_copy(m, child)
        while copy != NONE:
            m.copies[copy].top = child
            copy = next_copy(m, child, copy)
        child = m.nodes[child].after
        if child == m.nodes[blossom].first:
            break
    m.nodes[blossom].label = FREE
    m.spare[m.state[SPARE]] = blossom
    m.state[SPARE] += 1


@jit
def _is_odd_place(m: Matching, first: int, child: int) -> bool:
    odd = False
    while first != child:
        first = m.nodes[first].after
        odd = not odd
    return odd


@jit
def _relabel_path(m: Matching, first: int, entry: int, from_copy: int, into_copy: int, time: int) -> None:
    """Label the children of a former inner blossom, along its even way from where the tree enters to its base."""
    forward = _is_odd_place(m, first, entry)
    node = entry
    while node != first:
        make_inner(m, node, from_copy, into_copy, time)
        if forward:
            outer = m.nodes[node].after
            make_outer(m, outer, m.nodes[node].edge_here, m.nodes[node].edge_there, time)
            from_copy, into_copy = m.nodes[outer].edge_here, m.nodes[outer].edge_there
            node = m.nodes[outer].after
        else:
            outer = m.nodes[node].before
            make_outer(m, outer, m.nodes[outer].edge_there, m.nodes[outer].edge_here, time)
            node = m.nodes[outer].before
            from_copy, into_copy = m.nodes[node].edge_there, m.nodes[node].edge_here
    make_inner(m, first, from_copy, into_copy, time)


@jit
def _look_back(m: Matching, copy: int, time: int) -> None:
    """Note when the edges from outer nodes to a copy that has become free could become tight."""
    n = m.start.shape[0] - 1
    record = copy - n if copy >= n else copy
    dual = m.copies[copy].y
    for arc in range(m.start[record], m.start[record + 1]):
        there = m.arcs[arc].other
        if m.nodes[m.copies[there].top].label == OUTER:
            kind = 2 if copy >= n else 0
            push(m, time + m.arcs[arc].doubled - dual - dual_at(m, there, time), 3 * arc + kind)
        if copy < n and m.nodes[m.copies[there + n].top].label == OUTER:
            push(m, time + m.arcs[arc].doubled - dual - dual_at(m, there + n, time), 3 * arc + 1)


@jit
def expand(m: Matching, blossom: int, time: int) -> None:
    """Replace an inner blossom, whose dual has reached 0, by its children on the path, and free the others."""
    settle(m, blossom, time)
    from_copy, into_copy = m.nodes[blossom].from_copy, m.nodes[blossom].into_copy
    entry = child_with(m, blossom, into_copy)
    first = m.nodes[blossom].first
    dissolve(m, blossom)
    _relabel_path(m, first, entry, from_copy, into_copy, time)
    child = first
    while True:
        if m.nodes[child].label == FREE:
            copy = first_copy(m, child)
            while copy != NONE:
                _look_back(m, copy, time)
                copy = next_copy(m, child, copy)
        child = m.nodes[child].after
        if child == first:
            break


@jit
def _match(m: Matching, a: int, b: int) -> None:
    m.copies[a].mate, m.copies[b].mate = b, a


@jit
def rebase(m: Matching, node: int, copy: int) -> None:
    """Change the matching within a node so that a copy of it is the one not matched there."""
    copies = m.copies.shape[0]
    waiting = [(node, copy)]
    while len(waiting) > 0:
        blossom, base = waiting.pop()
        if blossom < copies or m.nodes[blossom].base == base:
            continue
        m.nodes[blossom].base = base
        child = child_with(m, blossom, base)
        waiting.append((child, base))
        old = m.nodes[blossom].first
        m.nodes[blossom].first = child
        forward = _is_odd_place(m, old, child)
        while child != old:
            one = m.nodes[child].after if forward else m.nodes[child].before
            two = m.nodes[one].after if forward else m.nodes[one].before
            a = m.nodes[one].edge_here if forward else m.nodes[two].edge_there
            b = m.nodes[one].edge_there if forward else m.nodes[two].edge_here
            waiting.append((one, a))
            waiting.append((two, b))
            _match(m, a, b)
            child = two


@jit
def augment(m: Matching, copy: int, partner: int) -> None:
    """Change the matching along the tree's path from a copy of an outer node to the root.

    Before, the root was not matched; after, the copy is matched with ``partner`` (NONE: left unmatched).
    """
    while True:
        node = m.copies[copy].top
        rebase(m, node, copy)
        m.copies[copy].mate = partner
        if m.nodes[node].from_copy == NONE:
            return
        inner = m.copies[m.nodes[node].from_copy].top
        partner = m.nodes[inner].into_copy
        rebase(m, inner, partner)
        copy = m.nodes[inner].from_copy
        m.copies[partner].mate = copy
