"""Moves of the search: label a node, shrink a blossom, expand one, and change the matching along a path."""

from __future__ import annotations

from microagg_core.kernels.forest import (
    CLIMB,
    FREE,
    INNER,
    NONE,
    OUTER,
    SEARCH,
    SOONEST,
    SPARE,
    TOUCHED,
    Forest,
    child_with,
    dual_at,
    first_copy,
    next_copy,
    push,
    settle,
)
from microagg_core.kernels.jit import jit


@jit
def _label(f: Forest, node: int, label: int, from_copy: int, into_copy: int, time: int) -> None:
    f.nodes[node].label = label
    f.nodes[node].since = time
    f.nodes[node].from_copy = from_copy
    f.nodes[node].into_copy = into_copy
    if f.nodes[node].searched != f.state[SEARCH]:
        f.nodes[node].searched = f.state[SEARCH]
        f.touched[f.state[TOUCHED]] = node
        f.state[TOUCHED] += 1


@jit
def _meet(f: Forest, node: int, copy: int, there: int, dual: int, arc: int, kind: int, time: int) -> None:
    """Note when the edge from a copy of an outer node to another copy could become tight."""
    target = f.copies[there].top
    if target == node or f.nodes[target].label == INNER:
        return
    slack = f.arcs[arc].doubled - dual - dual_at(f, there, time)
    if f.nodes[target].label == OUTER:
        push(f, time + (slack >> 1), 3 * arc + kind)
        return
    push(f, time + slack, 3 * arc + kind)
    if f.copies[f.nodes[target].base].mate == NONE:
        f.state[SOONEST] = min(f.state[SOONEST], time + slack)


@jit
def scan(f: Forest, node: int, copy: int, time: int) -> None:
    """Note what the edges of a copy of an outer node could bring, and when its own dual would reach 0."""
    n = f.start.shape[0] - 1
    dual = dual_at(f, copy, time)
    if copy >= n:
        push(f, time - dual, 3 * f.arcs.shape[0] + f.nodes.shape[0] + copy)
        f.state[SOONEST] = min(f.state[SOONEST], time - dual)
        for arc in range(f.start[copy - n], f.start[copy - n + 1]):
            _meet(f, node, copy, f.arcs[arc].other, dual, arc, 2, time)
        return
    for arc in range(f.start[copy], f.start[copy + 1]):
        _meet(f, node, copy, f.arcs[arc].other, dual, arc, 0, time)
        _meet(f, node, copy, f.arcs[arc].other + n, dual, arc, 1, time)


@jit
def make_outer(f: Forest, node: int, from_copy: int, into_copy: int, time: int) -> None:
    """Label a free outermost node as outer, reached by an edge (NONE for the root), and scan its copies."""
    _label(f, node, OUTER, from_copy, into_copy, time)
    copy = first_copy(f, node)
    while copy != NONE:
        scan(f, node, copy, time)
        copy = next_copy(f, node, copy)


@jit
def make_inner(f: Forest, node: int, from_copy: int, into_copy: int, time: int) -> None:
    """Label a free outermost node as inner; a blossom must be expanded when its dual reaches 0."""
    _label(f, node, INNER, from_copy, into_copy, time)
    if node >= f.copies.shape[0]:
        push(f, time + (f.nodes[node].z >> 1), 3 * f.arcs.shape[0] + node)


@jit
def _common_ancestor(f: Forest, a: int, b: int) -> int:
    """The outer node nearest to two outer nodes on their ways to the root."""
    f.state[CLIMB] += 1
    climb = f.state[CLIMB]
    while True:
        if a != NONE:
            if f.nodes[a].climbed == climb:
                return a
            f.nodes[a].climbed = climb
            inner = f.nodes[a].from_copy
            a = NONE if inner == NONE else f.copies[f.nodes[f.copies[inner].top].from_copy].top
        a, b = b, a


@jit
def _join(f: Forest, here: int, there: int, edge_here: int, edge_there: int) -> None:
    f.nodes[here].after, f.nodes[there].before = there, here
    f.nodes[here].edge_here, f.nodes[here].edge_there = edge_here, edge_there


@jit
def _close_cycle(f: Forest, ancestor: int, a: int, b: int) -> None:
    """Link the nodes around the cycle that the edge from copy a to copy b closes."""
    _join(f, f.copies[a].top, f.copies[b].top, a, b)
    node = f.copies[b].top
    while node != ancestor:
        above = f.copies[f.nodes[node].from_copy].top
        _join(f, node, above, f.nodes[node].into_copy, f.nodes[node].from_copy)
        node = above
    node = f.copies[a].top
    while node != ancestor:
        above = f.copies[f.nodes[node].from_copy].top
        _join(f, above, node, f.nodes[node].from_copy, f.nodes[node].into_copy)
        node = above


@jit
def _put_under(f: Forest, node: int, outermost: int) -> None:
    copy = first_copy(f, node)
    while copy != NONE:
        f.copies[copy].top = outermost
        copy = next_copy(f, node, copy)


@jit
def shrink(f: Forest, a: int, b: int, time: int) -> None:
    """Make an outer blossom of the cycle that a tight edge between copies of two outer nodes closes."""
    ancestor = _common_ancestor(f, f.copies[a].top, f.copies[b].top)
    _close_cycle(f, ancestor, a, b)
    f.state[SPARE] -= 1
    blossom = f.spare[f.state[SPARE]]
    f.nodes[blossom].first, f.nodes[blossom].base = ancestor, f.nodes[ancestor].base
    f.nodes[blossom].parent, f.nodes[blossom].z = NONE, 0
    from_copy, into_copy = f.nodes[ancestor].from_copy, f.nodes[ancestor].into_copy
    child = ancestor
    while True:
        settle(f, child, time)
        _put_under(f, child, blossom)
        f.nodes[child].parent = blossom
        child = f.nodes[child].after
        if child == ancestor:
            break
    _label(f, blossom, OUTER, from_copy, into_copy, time)
    while True:
        if f.nodes[child].label == INNER:
            copy = first_copy(f, child)
            while copy != NONE:
                scan(f, blossom, copy, time)
                copy = next_copy(f, child, copy)
        f.nodes[child].label = FREE
        child = f.nodes[child].after
        if child == ancestor:
            break


@jit
def dissolve(f: Forest, blossom: int) -> None:
    """Make the children of an outermost blossom outermost and free; they stay linked until they are used again."""
    child = f.nodes[blossom].first
    while True:
        f.nodes[child].parent, f.nodes[child].label = NONE, FREE
        copy = first_copy(f, child)
        while copy != NONE:
            f.copies[copy].top = child
            copy = next_copy(f, child, copy)
        child = f.nodes[child].after
        if child == f.nodes[blossom].first:
            break
    f.nodes[blossom].label = FREE
    f.spare[f.state[SPARE]] = blossom
    f.state[SPARE] += 1


@jit
def _is_odd_place(f: Forest, first: int, child: int) -> bool:
    odd = False
    while first != child:
        first = f.nodes[first].after
        odd = not odd
    return odd


@jit
def _relabel_path(f: Forest, first: int, entry: int, from_copy: int, into_copy: int, time: int) -> None:
    """Label the children of a former inner blossom, along its even way from where the tree enters to its base."""
    forward = _is_odd_place(f, first, entry)
    node = entry
    while node != first:
        make_inner(f, node, from_copy, into_copy, time)
        if forward:
            outer = f.nodes[node].after
            make_outer(f, outer, f.nodes[node].edge_here, f.nodes[node].edge_there, time)
            from_copy, into_copy = f.nodes[outer].edge_here, f.nodes[outer].edge_there
            node = f.nodes[outer].after
        else:
            outer = f.nodes[node].before
            make_outer(f, outer, f.nodes[outer].edge_there, f.nodes[outer].edge_here, time)
            node = f.nodes[outer].before
            from_copy, into_copy = f.nodes[node].edge_there, f.nodes[node].edge_here
    make_inner(f, first, from_copy, into_copy, time)


@jit
def _look_back(f: Forest, copy: int, time: int) -> None:
    """Note when the edges from outer nodes to a copy that has become free could become tight."""
    n = f.start.shape[0] - 1
    record = copy - n if copy >= n else copy
    dual = f.copies[copy].y
    for arc in range(f.start[record], f.start[record + 1]):
        there = f.arcs[arc].other
        if f.nodes[f.copies[there].top].label == OUTER:
            kind = 2 if copy >= n else 0
            push(f, time + f.arcs[arc].doubled - dual - dual_at(f, there, time), 3 * arc + kind)
        if copy < n and f.nodes[f.copies[there + n].top].label == OUTER:
            push(f, time + f.arcs[arc].doubled - dual - dual_at(f, there + n, time), 3 * arc + 1)


@jit
def expand(f: Forest, blossom: int, time: int) -> None:
    """Replace an inner blossom, whose dual has reached 0, by its children on the path, and free the others."""
    settle(f, blossom, time)
    from_copy, into_copy = f.nodes[blossom].from_copy, f.nodes[blossom].into_copy
    entry = child_with(f, blossom, into_copy)
    first = f.nodes[blossom].first
    dissolve(f, blossom)
    _relabel_path(f, first, entry, from_copy, into_copy, time)
    child = first
    while True:
        if f.nodes[child].label == FREE:
            copy = first_copy(f, child)
            while copy != NONE:
                _look_back(f, copy, time)
                copy = next_copy(f, child, copy)
        child = f.nodes[child].after
        if child == first:
            break


@jit
def _match(f: Forest, a: int, b: int) -> None:
    f.copies[a].mate, f.copies[b].mate = b, a


@jit
def rebase(f: Forest, node: int, copy: int) -> None:
    """Change the matching within a node so that a copy of it is the one not matched there."""
    copies = f.copies.shape[0]
    waiting = [(node, copy)]
    while len(waiting) > 0:
        blossom, base = waiting.pop()
        if blossom < copies or f.nodes[blossom].base == base:
            continue
        f.nodes[blossom].base = base
        child = child_with(f, blossom, base)
        waiting.append((child, base))
        old = f.nodes[blossom].first
        f.nodes[blossom].first = child
        forward = _is_odd_place(f, old, child)
        while child != old:
            one = f.nodes[child].after if forward else f.nodes[child].before
            two = f.nodes[one].after if forward else f.nodes[one].before
            a = f.nodes[one].edge_here if forward else f.nodes[two].edge_there
            b = f.nodes[one].edge_there if forward else f.nodes[two].edge_here
            waiting.append((one, a))
            waiting.append((two, b))
            _match(f, a, b)
            child = two


@jit
def augment(f: Forest, copy: int, partner: int) -> None:
    """Change the matching along the tree's path from a copy of an outer node to the root.

    Before, the root was not matched; after, the copy is matched with ``partner`` (NONE: left unmatched).
    """
    while True:
        node = f.copies[copy].top
        rebase(f, node, copy)
        f.copies[copy].mate = partner
        if f.nodes[node].from_copy == NONE:
            return
        inner = f.copies[f.nodes[node].from_copy].top
        partner = f.nodes[inner].into_copy
        rebase(f, inner, partner)
        copy = f.nodes[inner].from_copy
        f.copies[partner].mate = copy
