"""Publish: what the manifest says of a release, and the audit that stays behind in the work area."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from contextlib import suppress

from microagg_core.data.formats.writing import released_format
from microagg_core.data.kinds.contract import CLAIMS_OF_A_MEAN, WEIGHTED, Claim, Kind
from microagg_core.data.places import filled_in
from microagg_core.group.algorithms import algorithms
from microagg_core.group.metrics.figures import Figures
from microagg_core.inspect.check import Check
from microagg_core.inspect.checks.edits import Edits
from microagg_core.inspect.gate import Inspected
from microagg_core.inspect.published import share_before
from microagg_core.release.manifest import (
    AlgorithmEntry,
    BlankedEntry,
    ColumnEntry,
    EditEntry,
    MetricEntry,
    ProtectEntry,
    ReleaseFacts,
    SeriesEntry,
    SeveralEntry,
)
from microagg_core.release.planned import Planned
from microagg_core.release.publish import StagedPart
from microagg_core.release.step import Receipt
from microagg_core.release.steps.candidate import CANDIDATE
from microagg_core.release.steps.checking import CarriedFiles
from microagg_core.release.steps.demands import protection_of
from microagg_core.software import software
from microagg_core.spec.release import ReleaseSpec, TimeBudget
from microagg_core.store.layout import ReleaseLayout, revision_name
from microagg_core.store.objects import Store

_ROLE_OF = {"quasi_identifiers": "quasi_identifier"}


def release_id(spec: ReleaseSpec, now: datetime.datetime, given: str | None = None) -> str:
    """The id of a release made now.

    >>> from types import SimpleNamespace as Spec
    >>> release_id(Spec(id="date"), datetime.datetime(2026, 11, 18))
    '2026-11-18'
    """
    if given is not None:
        return ReleaseLayout(given, revision_name(1)).id  # the layout knows what may be a name
    return now.date().isoformat() if spec.id == "date" else spec.id


def meant_moment(spec: ReleaseSpec, identity: str, moment: datetime.datetime) -> datetime.datetime:
    """The moment that a release is meant for: on the day that is its id, where ids are days, else as given.

    >>> from types import SimpleNamespace as Spec
    >>> meant_moment(Spec(id="date"), "2026-11-01", datetime.datetime(2026, 11, 18, 3)).isoformat()
    '2026-11-01T03:00:00'
    """
    if spec.id == "date":
        with suppress(ValueError):  # the command gave it another id
            return datetime.datetime.combine(datetime.date.fromisoformat(identity), moment.timetz())
    return moment


def settled_spec(spec: ReleaseSpec, identity: str, moment: datetime.datetime) -> ReleaseSpec:
    """Fill the input of one release in: what it has on the day that it is meant for."""
    url = filled_in(spec.input.url, identity, meant_moment(spec, identity, moment).date())
    return spec.model_copy(update={"input": spec.input.model_copy(update={"url": url})})


def release_facts(
    planned: Planned,
    identity: str,
    now: datetime.datetime,
    losses: Figures,
    checks: Sequence[Check],
    files: Inspected,
    series: SeriesEntry | None = None,
    carried: CarriedFiles | None = None,
) -> ReleaseFacts:
    """What the manifest says, but for its revision and parts.

    How many are withheld is the operator's to know; of a later night of a series, in which rows are carried, not even
    whether any are; and of a rule between columns not how many broke it before, as of carried rows nobody knows.
    """
    spec, outline = planned.context.spec, planned.outline
    return ReleaseFacts(
        name=spec.name,
        id=identity,
        created=now.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        k=spec.k,
        unit="row" if spec.unit == "row" else "units",
        several=_several(planned, is_later=carried is not None),
        rows=int(outline.rows.sum()) + (carried.rows if carried else 0),
        suppressed=None if carried else "at least k" if outline.suppressed_rows else 0,
        columns=_columns(planned),
        about=spec.about,
        **released_format(spec.output).in_manifest(),
        algorithm=AlgorithmEntry(
            name=spec.algorithm.name,
            parameters=algorithms()[spec.algorithm.name].with_defaults(spec.algorithm.parameters),
        ),
        refine={"seconds": spec.refine.seconds} if isinstance(spec.refine, TimeBudget) else spec.refine,
        reproducible=spec.reproducible,
        seed=spec.seed,
        undersized=spec.blocks.undersized,
        missing=spec.missing,
        blanked=None if carried else _blanked(planned),
        rounding={kind.name: kind.applied_rule for kind in planned.encoding.kinds},
        metric={
            column.name: MetricEntry(scale=column.scale, top=column.top_words, zeros=column.zeros)
            for column in spec.roles.quasi_identifiers
            if column.metric or column.zeros
        }
        or None,
        protect={
            demand.column: ProtectEntry(**demand.promise()) for demand in protection_of(planned.context).of_groups
        },
        known=spec.known or None,
        edits=_edit_entries(spec, files, carried) if spec.edits else None,
        series=series,
        losses=losses,
        checks=tuple(checks),
        software=software(),
    )


def _several(planned: Planned, *, is_later: bool) -> SeveralEntry | None:
    spec, survey = planned.context.spec, planned.survey
    if spec.several is None:
        return None
    limit, is_told = spec.several.limit, not is_later and (survey.cut_units == 0 or survey.cut_units >= spec.k)
    return SeveralEntry(
        shared="combination" if spec.parts_units else "profile",
        per_unit=spec.several.per_unit,
        at_most=limit.at_most if limit else None,
        keep=limit.keep if limit else None,
        left_out=survey.left_out if limit and is_told else None,
    )


def _columns(planned: Planned) -> tuple[ColumnEntry, ...]:
    schema = planned.context.schema
    promised = {kind.name: _claims(kind, schema.weight is not None) for kind in planned.encoding.kinds}
    claims = {name: tuple(sorted(of)) for name, of in promised.items() if of != CLAIMS_OF_A_MEAN}
    importance = {kind.name: kind.importance for kind in planned.encoding.kinds if kind.importance != 1.0}
    with_missing = {kind.name for kind in planned.encoding.kinds if kind.null_is_category}
    return tuple(
        ColumnEntry(
            name=c.name,
            type=str(t),
            role=_ROLE_OF.get(c.role, c.role),  # type: ignore[arg-type]
            claims=claims.get(c.name),
            importance=importance.get(c.name),
            hierarchy=True if c.name in planned.context.spec.hierarchies else None,
            missing="category" if c.name in with_missing else None,
        )
        for c, t in zip(schema.released, schema.released_schema.types, strict=True)
    )


def _claims(kind: Kind, is_weighted: bool) -> frozenset[Claim]:
    """What holds of a released column: with weights it is the weighted mean that is kept."""
    return frozenset(WEIGHTED.get(claim, claim) for claim in kind.claims) if is_weighted else kind.claims


def _edit_entries(spec: ReleaseSpec, files: Inspected, carried: CarriedFiles | None) -> tuple[EditEntry, ...]:
    entries = []
    for edit, count in zip(spec.edits, files.of_all(Edits()), strict=True):
        before = None if carried else share_before(count.before, spec.k)
        told = {} if before is None else {"before": before.value, "within": before.within}
        entries.append(EditEntry(rule=edit.rule, compared=count.after.compared, broken=count.after.broken, **told))
    return tuple(entries)


def _blanked(planned: Planned) -> dict[str, BlankedEntry] | None:
    outline = planned.outline
    if outline.missing is None or outline.blanked is None:
        return None
    columns = zip(planned.encoding.kinds, outline.missing, outline.blanked, strict=False)
    return {
        kind.name: BlankedEntry.of(missing, blanked, planned.context.spec.k)
        for kind, missing, blanked in columns
        if missing or blanked
    }


def staged_parts(work: Store, checked: Sequence[Receipt]) -> list[StagedPart]:
    """The files that the gate let pass, as its receipts have them; files without rows stay behind.

    A receipt names the file with the checksum of the very bytes that the gate read. It comes from the worker that read
    them, not from the work area, where anything may have been changed since.
    """
    parts = []
    for receipt in checked:
        if receipt.rows or len(checked) == 1:
            candidate = receipt.piece(CANDIDATE)
            parts.append(StagedPart(work, candidate.name, receipt.rows, candidate.bytes, candidate.sha256))
    return parts
