"""The end of a night: what the gate says of it, and the generation that remembers it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from operator import add

import numpy as np
import pyarrow as pa

from microagg_core.errors import InternalError
from microagg_core.plain import from_json
from microagg_core.privacy.check import Check
from microagg_core.series.generations import Generation, UnitCounts, parts_digest
from microagg_core.series.joining import pairs_of
from microagg_core.series.night import Night
from microagg_core.series.pairs import weakest_cut
from microagg_core.series.traces import never
from microagg_core.steps.nights.beginning import Beginning, frozen_facts
from microagg_core.steps.nights.counting import TraceNotes
from microagg_core.steps.nights.counts import GateCounts
from microagg_core.steps.nights.tracing import RangeNotes
from microagg_core.steps.pieces import Pieces
from microagg_core.steps.routing import Planned
from microagg_core.steps.work import Receipt
from microagg_core.storage.night_layout import NightLayout
from microagg_core.storage.objects import Store

#: The pairwise test looks at graphs of at most so many edges.
_MOST_CUT = 20_000
#: Confidential rows tell who somebody is where more than this share of them are different.
_TELLING = 0.9


def notes_of_ranges(pieces: Pieces, night: Night, run_key: str) -> list[RangeNotes]:
    """What was noted of all ranges of the next ledger."""
    layout = NightLayout(run_key)
    return [from_json(RangeNotes, pieces.read(layout.range_notes(i))) for i in range(night.n_ranges)]


def notes_of_traces(pieces: Pieces, night: Night, run_key: str) -> list[TraceNotes]:
    """What was noted of all ranges of traces."""
    layout = NightLayout(run_key)
    return [from_json(TraceNotes, pieces.read(layout.trace_notes(i))) for i in range(night.n_ranges)]


def smallest_of(traces: Sequence[TraceNotes]) -> int | None:
    """How many units share the rarest trace; None where no unit was ever released."""
    return min((one.smallest for one in traces if one.smallest is not None), default=None)


def night_checks(
    night: Night, ranges: Sequence[RangeNotes], traces: Sequence[TraceNotes], bundles: Callable[[], pa.Table]
) -> list[Check]:
    """What the gate says of a night, besides what it says of every release.

    ``bundles`` gives all pairs of classes, where there are thin ones.
    """
    wrong = GateCounts.total([one.wrong for one in ranges])
    checks = [_ledger_check(night, wrong)]
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


def likely_renamed(ranges: Sequence[RangeNotes], traces: Sequence[TraceNotes]) -> str:
    """A warning where arrivals look like leavers under other ids; nothing where they do not.

    Equal confidential rows say little where many have the same: then only most of the leavers coming back at once tell.
    """
    left, arrived, alike = (sum(getattr(one, name) for one in traces) for name in ("left", "arrived", "alike"))
    before, distinct = sum(one.released_before for one in ranges), sum(one.distinct_rows for one in ranges)
    is_telling = distinct > _TELLING * before or 2 * alike > min(left, arrived)
    if not alike or not is_telling:
        return ""
    return (
        f"{alike} of {arrived} arrivals have just the confidential values of one of {left} units that left: if ids "
        "were changed, the same people are released again as others, against which a series does not protect"
    )


def _ledger_check(night: Night, wrong: GateCounts) -> Check:
    """Whether everybody is where the ledger has them."""
    problems = [
        (wrong.unknown, "released records are none of the input's units"),
        (wrong.again, "units are released that never may be again"),
        (wrong.moved, "units are not in the class in which they were released last"),
        (wrong.altered, "units have values that are neither tonight's nor those of their last release"),
    ]
    said = "; ".join(f"{n} {what}" for n, what in problems if n)
    return Check("ledger", not said, said or "every unit is released as its earlier releases allow")


def generation_of(
    beginning: Beginning,
    plan: Planned,
    ranges: Sequence[RangeNotes],
    traces: Sequence[TraceNotes],
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
    frozen = frozen_facts(beginning.spec, plan.context.schema, rounding)
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
        ranges=tuple(one.file for one in ranges),
        never=never(night.number + 1),
        frozen=frozen,
        counts=reduce(add, (one.counts for one in ranges), UnitCounts()),
        smallest_trace=smallest_of(traces) if night.unit else None,
    )
