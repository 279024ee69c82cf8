"""Records doubled, their matching, duals and blossoms: the state of the search and its smallest moves.

Record v has a copy v, which must be matched, and a copy n + v, which may be. A candidate pair u, v of weight w
gives the edges (u, v), (u, n + v) and (n + u, v), each of weight 2w, so that all halves are whole numbers. A
matching of least weight that meets every first copy is a [1,2]-factor of least weight, doubled.

Duals y (at most 0 on second copies) and z (at least 0 on blossoms, which are odd sets of copies that hold as
many matched edges as they can) keep ``slack = 2w - y_a - y_b + (z of the blossoms around both) >= 0`` on every
edge, 0 on matched ones and on those that hold a blossom together. A node is a copy or a blossom. Outer
nodes of the alternating tree gain dual as its time goes by, inner ones lose it; a node that carries a label
stores its duals as of the time at which it was labelled.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from microagg_core.arrays import Ints
from microagg_core.kernels.machine_code.jit import jit

Records = NDArray[Any]

FREE, OUTER, INNER = 0, 1, 2
NONE = -1


class Matching(NamedTuple):
    """Everything the search reads and writes; the fields of the arrays are told where they are made."""

    start: Ints  #: the arcs start[v]..start[v + 1] - 1 lead from record v
    arcs: Records
    copies: Records
    nodes: Records
    heap: Records
    spare: Ints  #: blossom numbers that are not in use
    touched: Ints  #: nodes that this search has labelled
    #: how many of ``spare``, ``touched`` and ``heap`` are in use; the soonest known end; two stamps; overflow
    state: Ints


SPARE, TOUCHED, HEAP, SOONEST, SEARCH, CLIMB, OVERFLOW = 0, 1, 2, 3, 4, 5, 6
NEVER = np.iinfo(np.int64).max

#: A candidate pair, in one of its two directions; its weight doubled.
_ARC = ("source", "other", "doubled")
#: Its dual, the copy it is matched with (or NONE), and the outermost node around it.
_COPY = ("y", "mate", "top")
_NODE = (
    "z",
    "base",  # the copy that is not matched within the node
    "parent",  # the blossom right around it, or NONE
    "first",  # of a blossom: the child that holds the base
    "after",  # the next child around the parent, and the one before
    "before",
    "edge_here",  # the edge to the next child: its end in this child, and its end in the next
    "edge_there",
    "label",
    "since",  # the time from which the label's change of duals counts
    "from_copy",  # the edge by which the tree reached the node: its end nearer to the root, and its end in the node
    "into_copy",
    "searched",  # the last search, and the last climb, that met the node
    "climbed",
)
_EVENT = ("time", "code")


def _records(size: int, fields: tuple[str, ...]) -> Records:
    return np.zeros(size, np.dtype([(field, np.int64) for field in fields]))


def new_matching(start: Ints, source: Ints, other: Ints, weight: Ints, events: int) -> Matching:
    """Make a state with nothing matched, for n records and their arcs, with room for a number of events at a time.

    Every record needs an arc. The dual of a first copy starts at the least of its weights.
    """
    n = len(start) - 1
    arcs, copies, nodes = _records(len(other), _ARC), _records(2 * n, _COPY), _records(3 * n, _NODE)
    arcs["source"], arcs["other"], arcs["doubled"] = source, other, 2 * weight
    copies["y"][:n] = np.minimum.reduceat(weight, start[:-1])
    copies["mate"], copies["top"] = NONE, np.arange(2 * n)
    nodes["base"], nodes["parent"], nodes["label"] = np.arange(3 * n), NONE, FREE
    state = np.zeros(7, np.int64)
    state[SPARE] = n
    spare = np.arange(3 * n - 1, 2 * n - 1, -1)
    return Matching(start, arcs, copies, nodes, _records(events, _EVENT), spare, np.zeros(3 * n, np.int64), state)


@jit
def first_copy(m: Matching, node: int) -> int:
    """Return the first copy of a node, in the order of :func:`next_copy`."""
    copies = m.copies.shape[0]
    while node >= copies:
        node = m.nodes[node].first
    return node


@jit
def next_copy(m: Matching, node: int, copy: int) -> int:
    here = copy
    while here != node:
        sibling = m.nodes[here].after
        if sibling != m.nodes[m.nodes[here].parent].first:
            return first_copy(m, sibling)
        here = m.nodes[here].parent
    return NONE


@jit
def child_with(m: Matching, blossom: int, copy: int) -> int:
    """Return the child of a blossom that holds a copy of it."""
    child = copy
    while m.nodes[child].parent != blossom:
        child = m.nodes[child].parent
    return child


@jit
def dual_at(m: Matching, copy: int, time: int) -> int:
    """Return the dual of a copy at a time of the search."""
    node = m.copies[copy].top
    dual: int = m.copies[copy].y
    if m.nodes[node].label == OUTER:
        dual += time - m.nodes[node].since
    elif m.nodes[node].label == INNER:
        dual -= time - m.nodes[node].since
    return dual


@jit
def settle(m: Matching, node: int, time: int) -> None:
    """Write the duals of an outermost node as they are at a time."""
    change = 0
    if m.nodes[node].label == OUTER:
        change = time - m.nodes[node].since
    elif m.nodes[node].label == INNER:
        change = m.nodes[node].since - time
    m.nodes[node].since = time
    if change == 0:
        return
    if node >= m.copies.shape[0]:
        m.nodes[node].z += 2 * change
    copy = first_copy(m, node)
    while copy != NONE:
        m.copies[copy].y += change
        copy = next_copy(m, node, copy)


@jit
def push(m: Matching, time: int, code: int) -> None:
    """Put an event into the heap, unless the search is known to end before it."""
    if time > m.state[SOONEST]:
        return
    i = m.state[HEAP]
    if i == m.heap.shape[0]:
        m.state[OVERFLOW] = 1
        return
    m.state[HEAP] = i + 1
    while i > 0:
        up = (i - 1) >> 1
        if m.heap[up].time < time or (m.heap[up].time == time and m.heap[up].code <= code):
            break
        m.heap[i].time, m.heap[i].code = m.heap[up].time, m.heap[up].code
        i = up
    m.heap[i].time, m.heap[i].code = time, code


@jit
def pop(m: Matching) -> tuple[int, int]:
    """Take the soonest event out of a heap that is not empty: its time and code."""
    time, code = m.heap[0].time, m.heap[0].code
    size = m.state[HEAP] - 1
    m.state[HEAP] = size
    last_time, last_code = m.heap[size].time, m.heap[size].code
    i = 0
    while True:
        down = 2 * i + 1
        if down >= size:
            break
        right = down + 1
        if right < size and (
            m.heap[right].time < m.heap[down].time
            or (m.heap[right].time == m.heap[down].time and m.heap[right].code < m.heap[down].code)
        ):
            down = right
        if last_time < m.heap[down].time or (last_time == m.heap[down].time and last_code <= m.heap[down].code):
            break
        m.heap[i].time, m.heap[i].code = m.heap[down].time, m.heap[down].code
        i = down
    m.heap[i].time, m.heap[i].code = last_time, last_code
    return time, code


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
    """Return the outer node nearest to two outer nodes on their ways to the root."""
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
        _put_under(m, child, child)
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
                _match(m, u, v)


@jit
def _meet_tight(m: Matching, a: int, b: int, time: int) -> bool:
    """Act on a tight edge from a copy of an outer node; returns whether the search has ended."""
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
    """Act on an edge that may have become tight; returns whether the search has ended."""
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
    """Act on what the heap brought, if it still holds; returns whether the search has ended."""
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
