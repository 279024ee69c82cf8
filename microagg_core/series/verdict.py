"""The end of a night: what the gate says of it, and the generation that remembers it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from heapq import heappop, heappush
from operator import add
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from microagg_core.arrays import Ints, Pairs
from microagg_core.errors import InternalError
from microagg_core.inspect.check import Check
from microagg_core.plain import from_json
from microagg_core.release.steps.pieces import Pieces
from microagg_core.release.steps.routing import Planned
from microagg_core.release.steps.work import Receipt
from microagg_core.series.atoms import no_atoms
from microagg_core.series.candidates import GateCounts, Looked
from microagg_core.series.digests import ABSENT, numbered_pairs, pairs_of
from microagg_core.series.generations import Generation, Past, UnitCounts, parts_digest
from microagg_core.series.invariants import Census
from microagg_core.series.night import Beginning, Night, frozen_facts
from microagg_core.series.traces import RangeNotes, TraceNotes
from microagg_core.series.units import empty_range
from microagg_core.store.night_layout import NightLayout
from microagg_core.store.objects import Store

#: The pairwise test looks at graphs of at most so many edges.
_MOST_CUT = 20_000


@dataclass(frozen=True)
class NightNotes:
    """What the gate's workers noted of a night: of ranges of units, of ranges of atoms, and of candidate files."""

    ranges: tuple[RangeNotes, ...]
    atoms: tuple[TraceNotes, ...]
    looked: tuple[Looked, ...]

    @classmethod
    def read(cls, pieces: Pieces, night: Night, run_key: str, n_files: int) -> NightNotes:
        """All that was noted."""
        layout = NightLayout(run_key)
        return cls(
            tuple(from_json(RangeNotes, pieces.read(layout.range_notes(i))) for i in range(night.n_ranges)),
            tuple(from_json(TraceNotes, pieces.read(layout.trace_notes(i))) for i in range(night.n_atom_ranges)),
            looked_at(pieces, run_key, n_files),
        )

    @classmethod
    def of_nobody(cls, night: Night) -> NightNotes:
        """Of a release whose units nobody knows; the ledger gets empty files."""
        ledger, number = night.ledger, night.number
        units = ledger.write_range(number, 0, empty_range(len(night.columns)))
        file = ledger.write_atoms(number, 0, no_atoms())
        nothing = TraceNotes(file, UnitCounts(), None, 0, 0, (), 0, Census())
        return cls((RangeNotes((units,), UnitCounts(), GateCounts(), Census()),), (nothing,), ())

    @property
    def wrong(self) -> GateCounts:
        """All that should not be, counted."""
        return GateCounts.total(
            [
                *(one.wrong for one in self.ranges),
                *(one.wrong for one in self.looked),
                GateCounts(split=sum(one.split for one in self.atoms)),
            ]
        )

    @property
    def census(self) -> Census:
        """All units and atoms of the next state of the ledger, as they were read again."""
        return sum((one.census for one in self.atoms), sum((one.census for one in self.ranges), Census()))

    @property
    def n_numbers(self) -> int:
        """How many numbers tonight's new atoms need."""
        return sum(one.numbers for one in self.looked)

    @property
    def smallest(self) -> int | None:
        """How many units share the rarest trace of those that are new tonight; None where there are none."""
        return min((one.smallest for one in self.atoms if one.smallest is not None), default=None)


def looked_at(pieces: Pieces, run_key: str, n_files: int) -> tuple[Looked, ...]:
    """What was noted of the candidate files."""
    layout = NightLayout(run_key)
    return tuple(from_json(Looked, pieces.read(layout.looked(i))) for i in range(n_files))


def smallest_trace(night: Night, notes: NightNotes) -> int | None:
    """How many units share the rarest trace after tonight; None where no unit was ever released."""
    before = night.state.smallest_trace if night.state is not None else None
    return min((n for n in (before, notes.smallest) if n is not None), default=None)


def told_ghosts(night: Night, notes: NightNotes) -> int | None:
    """Count the ghosts in the files, if they are k or more, and k away from every number that was told before."""
    n = sum(one.ghosts for one in notes.atoms)
    before = night.state.ghosts_told if night.state is not None else ()
    return n if min([n, *(abs(n - told) for told in before)]) >= night.k else None


def night_checks(night: Night, notes: NightNotes, bundles: Callable[[], pa.Table]) -> list[Check]:
    """What the gate says of a night, besides what it says of every release.

    ``bundles`` gives the pairs of classes that matter, where there are thin ones.
    """
    traces = notes.atoms
    checks = [_ledger_check(notes.wrong)]
    if night.mode != "independent":
        below = sum(one.units_below for one in traces)
        right = f"every history of releases is shared by at least {night.k} units"
        detail = f"{below} units have a history of releases that fewer than k={night.k} units share"
        checks.append(Check("trace-k", not below, detail if below else right))
        checks.append(_pairs_check(night, traces, bundles))
    if night.columns:
        lone = [sum(one.lone_changes[j] for one in traces) for j in range(len(night.columns))]
        broken = [f"{n} classes of {name!r}" for name, n in zip(night.columns, lone, strict=True) if n]
        right = f"in no class did some, but fewer than {night.k}, units change in a column"
        detail = f"some units changed, but fewer than k={night.k}, in {', '.join(broken)}"
        checks.append(Check("change-k", not broken, detail if broken else right))
    if night.leavers == "ghosts" and night.n_carried:
        exposed = sum(one.exposed for one in traces)
        right = "beside somebody who left nobody has another value than in the last release"
        detail = f"{exposed} classes hold somebody who left, and somebody whose values changed"
        checks.append(Check("leavers", not exposed, detail if exposed else right))
    return checks


def _pairs_check(night: Night, traces: Sequence[TraceNotes], bundles: Callable[[], pa.Table]) -> Check:
    """The second opinion: no sum that this release and the last give together is about fewer than k units.

    Where each pair of classes has k units, of the k that both promised, there is no such sum. Else the cuts of the
    graph of classes tell, as long as it is small enough to be cut; where it is not, nobody can say, and that is no yes.
    """
    name, right = "pairs", f"no sum over this release and the last is about fewer than {night.least_k} units"
    if not any(one.thin_bundles for one in traces):
        return Check(name, True, right)
    pairs = bundles()
    n = np.minimum(np.asarray(pairs["n"]), night.least_k)
    if n.sum() > _MOST_CUT:
        return Check(name, False, "too many pairs of classes have fewer than k units for all sums to be looked at")
    before, after = (np.repeat(pairs_of(pairs, end), n, axis=0) for end in "bk")
    weakest = weakest_cut(before, after, night.least_k)
    detail = f"a sum over this release and the last is about {weakest} units, fewer than k={night.least_k}"
    return Check(name, weakest is None, right if weakest is None else detail)


def _ledger_check(wrong: GateCounts) -> Check:
    """Whether everybody is where the ledger has them."""
    problems = [
        (wrong.unknown, "released records are none of the input's units"),
        (wrong.again, "units are released that never may be again"),
        (wrong.moved, "units are not in the class in which they were released last"),
        (wrong.altered, "units have values that are neither tonight's nor those of their last release"),
        (wrong.split, "groups of earlier releases are released in part, or hold more units than they had"),
    ]
    said = "; ".join(f"{n} {what}" for n, what in problems if n)
    return Check("ledger", not said, said or "every unit is released as its earlier releases allow")


def generation_of(
    beginning: Beginning,
    plan: Planned,
    notes: NightNotes,
    *,
    identity: str,
    revision: str,
    output: Store,
    checked: Sequence[Receipt],
    run_key: str,
) -> Generation:
    """What the ledger is to remember of tonight: the same for the same run, however often it is started."""
    night = beginning.night
    begun = night.state.frozen if night.state is not None else None
    rounding = {kind.name: kind.applied_rule for kind in plan.encoding.kinds}
    frozen = frozen_facts(beginning.spec, plan.context.schema, rounding, night.unit_form)
    past = Past((frozen.mode,), int(frozen.mode != "disjoint"), frozen.k)
    ghosts = told_ghosts(night, notes)
    if begun is not None and frozen.mode != "independent" and frozen.rounding != begun.rounding:
        raise InternalError("a bug: means are rounded otherwise than on the first night; please report it")
    return Generation(
        night=night.number,
        kind="night",
        release_id=identity,
        revision=revision,
        output=output.url,
        manifest_sha256=parts_digest(part.pieces[0].sha256 for part in checked if part.rows or len(checked) == 1),
        date=beginning.date,
        run_key=run_key,
        parent=night.ledger.parent_of(night.number),
        key_fingerprint=beginning.key.fingerprint,
        n_ranges=night.n_ranges,
        ranges=tuple(one.files for one in notes.ranges),
        atoms=tuple(one.file for one in notes.atoms),
        next_number=night.next_number + notes.n_numbers,
        frozen=frozen,
        counts=_counts(night, notes),
        smallest_trace=smallest_trace(night, notes) if night.unit else None,
        past=past if night.past is None else night.past + past,
        ghosts_told=(*(night.state.ghosts_told if night.state else ()), *([ghosts] if ghosts else [])),
    )


def _counts(night: Night, notes: NightNotes) -> UnitCounts:
    """How many units are in which state: who is live is counted with the atoms, of others what changed is told."""
    before = replace(night.state.counts, released=0, withheld=0) if night.state is not None else UnitCounts()
    told = [*(one.counts for one in notes.ranges), *(one.counts for one in notes.atoms)]
    return reduce(add, told, before)


#: For each vertex its neighbours, and how many units lie between.
Graph: TypeAlias = dict[int, dict[int, int]]


def weakest_cut(before: Pairs, after: Pairs, k: int) -> int | None:
    """The fewest units, below k, that a linear combination of both nights' sums involves; None where there is none.

    ``before`` and ``after`` hold each unit's class, or :data:`ABSENT`.

    >>> pairs = lambda *words: np.array([[word, 0] for word in words], dtype=np.uint64)
    >>> weakest_cut(pairs(1, 1, 1, 2, 2, 2), pairs(1, 1, 1, 2, 2, 2), k=3) is None
    True
    >>> weakest_cut(pairs(1, 1, 1, 2, 2, 2), pairs(1, 1, 1, 1, 2, 2), k=3)
    1
    """
    ends = _vertices(before, after)
    ends, units = _contracted(*_merged_edges(ends, np.ones(len(ends), dtype=np.int64)), k)
    if not len(ends):
        return None
    degrees = np.bincount(ends.ravel(), weights=np.repeat(units, 2))
    bound = min(k, int(degrees[degrees > 0].min()))
    # A connected component cannot fall apart by less than one unit.
    smallest = bound if bound == 1 else _smallest_cut(_graph(ends, units), bound)
    return smallest if smallest < k else None


def _vertices(before: Pairs, after: Pairs) -> Ints:
    """The two vertices of every unit; absent is vertex 0."""
    ends = []
    offset = 1
    for classes in (before, after):
        numbers, distinct = numbered_pairs(classes)
        ends.append(np.where((classes == ABSENT).all(axis=1), 0, numbers + offset))
        offset += len(distinct)
    return np.column_stack(ends)


def _merged_edges(ends: Ints, units: Ints) -> tuple[Ints, Ints]:
    """Edges between the same vertices as one, which has the units of all; loops are left out."""
    edges = np.sort(ends, axis=1)
    apart = edges[:, 0] != edges[:, 1]
    numbers, distinct = numbered_pairs(edges[apart].astype(np.uint64))
    together = np.bincount(numbers, weights=units[apart], minlength=len(distinct)).astype(np.int64)
    return distinct.astype(np.int64), together


def _contracted(ends: Ints, units: Ints, k: int) -> tuple[Ints, Ints]:
    """The edges that are left when the vertices of bundles of k units and more, which no cut below k parts, are one."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    while (heavy := units >= k).any():
        vertices, numbers = np.unique(ends, return_inverse=True)
        numbers = numbers.reshape(ends.shape)
        one, other = numbers[heavy].T
        joined = coo_array((np.ones(len(one), dtype=np.int8), (one, other)), shape=(len(vertices), len(vertices)))
        _, parts = connected_components(joined, directed=False)
        ends, units = _merged_edges(parts.astype(np.int64)[numbers], units)
    return ends, units


def _graph(ends: Ints, units: Ints) -> Graph:
    graph: Graph = {}
    for (one, other), weight in zip(ends.tolist(), units.tolist(), strict=True):
        graph.setdefault(one, {})[other] = weight
        graph.setdefault(other, {})[one] = weight
    return graph


def _smallest_cut(graph: Graph, bound: int) -> int:
    """The size of a smallest cut of any component, or the bound where none is smaller."""
    while graph and bound > 1:
        bound = min(bound, *(sum(edges.values()) for edges in graph.values()))
        graph = _joined(graph, _tied(graph, bound))
    return bound


def _tied(graph: Graph, bound: int) -> dict[int, int]:
    """For each vertex one that stands for all that no cut below the bound parts from it.

    The vertex that is scanned last in its component has all its edges to those before, so two at least are tied.
    """
    tied = {vertex: vertex for vertex in graph}
    reached = dict.fromkeys(graph, 0)
    waiting: list[tuple[int, int]] = []
    for start in graph:
        heappush(waiting, (0, start))
        while waiting:
            count, vertex = heappop(waiting)
            if reached.get(vertex) != -count:
                continue  # scanned, or in the heap again with a larger count
            del reached[vertex]
            for other, units in graph[vertex].items():
                if other in reached:
                    reached[other] += units
                    heappush(waiting, (-reached[other], other))
                    if reached[other] >= bound:
                        tied[_root(tied, other)] = _root(tied, vertex)
    return {vertex: _root(tied, vertex) for vertex in graph}


def _root(tied: dict[int, int], vertex: int) -> int:
    while tied[vertex] != vertex:
        tied[vertex] = vertex = tied[tied[vertex]]
    return vertex


def _joined(graph: Graph, tied: dict[int, int]) -> Graph:
    """The graph of what is tied together; a component that has become one vertex is gone."""
    joined: Graph = {}
    for vertex, edges in graph.items():
        for other, units in edges.items():
            one, two = tied[vertex], tied[other]
            if one != two:
                ends = joined.setdefault(one, {})
                ends[two] = ends.get(two, 0) + units
    return joined
