"""Publish: what the manifest says of a release, and the audit that stays behind in the work area."""

from __future__ import annotations

import datetime
import json
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

from microagg_core.algorithms import algorithms
from microagg_core.spec import ReleaseSpec, TimeBudget
from microagg_core.steps.gate import Check
from microagg_core.steps.pieces import Pieces
from microagg_core.steps.planned import Planned
from microagg_core.storage.layout import ReleaseLayout, RunLayout, revision_name
from microagg_core.storage.manifest import AlgorithmEntry, CheckEntry, ColumnEntry, CsvDialect, ReleaseFacts
from microagg_core.storage.publish import StagedPart
from microagg_core.tables.files import EXTENSIONS

_ROLE_OF = {"quasi_identifiers": "quasi_identifier", "blocking": "blocking", "confidential": "confidential"}


def software_version() -> str:
    """The version of this software."""
    return version("microagg")


def release_id(spec: ReleaseSpec, now: datetime.datetime, given: str | None = None) -> str:
    """The id of a release made now.

    Raises:
        SpecError: the given id cannot be the name of a release.

    >>> from types import SimpleNamespace as Spec
    >>> release_id(Spec(id="date"), datetime.datetime(2026, 11, 18))
    '2026-11-18'
    """
    if given is not None:
        return ReleaseLayout(given, revision_name(1)).id  # the layout knows what may be a name
    return now.date().isoformat() if spec.id == "date" else spec.id


def release_facts(
    planned: Planned, identity: str, now: datetime.datetime, losses: dict[str, Any], checks: Sequence[Check]
) -> ReleaseFacts:
    """What the manifest says, but for its revision and parts."""
    spec, schema, strata = planned.context.spec, planned.context.schema, planned.plan.strata
    csv = None
    if spec.output.format == "csv":
        csv = CsvDialect(**spec.output.csv.model_dump())
    return ReleaseFacts(
        name=spec.name,
        id=identity,
        created=now.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        k=spec.k,
        unit="row" if spec.unit == "row" else "units",
        rows=int(strata.rows.sum()),
        suppressed=strata.suppressed_rows,
        columns=tuple(
            ColumnEntry(name=c.name, type=str(t), role=_ROLE_OF[c.role])  # type: ignore[arg-type]
            for c, t in zip(schema.released, schema.released_types, strict=True)
        ),
        format=spec.output.format,
        csv=csv,
        algorithm=AlgorithmEntry(
            name=spec.algorithm.name,
            parameters=algorithms()[spec.algorithm.name].with_defaults(spec.algorithm.parameters),
        ),
        refine={"seconds": spec.refine.seconds} if isinstance(spec.refine, TimeBudget) else spec.refine,
        reproducible=spec.reproducible,
        seed=spec.seed,
        undersized=spec.blocks.undersized,
        missing=spec.missing,
        rounding={kind.name: kind.applied_rule for kind in planned.encoding.types},
        losses=losses,
        checks=tuple(CheckEntry(name=c.name, passed=c.passed, detail=c.detail) for c in checks),
        software={"microagg": software_version()},
    )


def staged_parts(spec: ReleaseSpec, checked: Pieces, layout: RunLayout, n_files: int) -> list[StagedPart]:
    """The files that the gate let pass, with the checksums of the bytes it read; files without rows stay behind.

    What the gate wrote of them counts only as its receipts name it, which came from the gate itself.
    """
    parts = []
    for i, data in enumerate(checked.read_all(layout.checks(i) for i in range(n_files))):
        found = json.loads(data)
        if found["rows"] or n_files == 1:
            name = layout.candidate(i, EXTENSIONS[spec.output.format])
            parts.append(StagedPart(checked.work, name, found["rows"], found["bytes"], found["sha256"]))
    return parts
