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
    """State with nothing matched, for n records and their arcs, with room for a number of events at a time.

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
    """The first copy of a node, in the order of :func:`next_copy`."""
    copies = m.copies.shape[0]
    while node >= copies:
        node = m.nodes[node].first
    return node


@jit
def next_copy(m: Matching, node: int, copy: int) -> int:
    """The copy that follows another within a node, or NONE."""
    here = copy
    while here != node:
        sibling = m.nodes[here].after
        if sibling != m.nodes[m.nodes[here].parent].first:
            return first_copy(m, sibling)
        here = m.nodes[here].parent
    return NONE


@jit
def child_with(m: Matching, blossom: int, copy: int) -> int:
    """The child of a blossom that holds a copy of it."""
    child = copy
    while m.nodes[child].parent != blossom:
        child = m.nodes[child].parent
    return child


@jit
def dual_at(m: Matching, copy: int, time: int) -> int:
    """The dual of a copy at a time of the search."""
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
    """Take the soonest event, its time and code, out of a heap that is not empty."""
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
