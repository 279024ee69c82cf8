"""What the page is made of: the manifest, and plain documents that the audit keeps."""

from __future__ import annotations

import io
import json
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from microagg_core.errors import StorageError
from microagg_core.group.metrics.figures import Figures
from microagg_core.inspect.portrait.contract import Portrait
from microagg_core.pages.comparison_report import Expectation
from microagg_core.plain import from_plain
from microagg_core.release.audit import read_document, read_portrait, read_risk
from microagg_core.release.manifest import Manifest
from microagg_core.store.layout import AuditLayout
from microagg_core.store.objects import Store

#: Names of documents of the audit.
EXPECTED, RUN = "expected.json", "run.json"


@dataclass(frozen=True)
class ReportInputs:
    """All that the page shows; what is not there is said to be missing."""

    manifest: Manifest
    plan: dict[str, Any] = field(default_factory=dict)
    checks: tuple[dict[str, Any], ...] = ()
    risk: dict[str, Any] | None = None
    #: A row for each block that was grouped.
    blocks: pa.Table | None = None
    portrait: Portrait | None = None
    expectation: Expectation | None = None
    #: Stages, and what was estimated beside what it came to.
    run: dict[str, Any] = field(default_factory=dict)
    #: Digests of spec, data and software.
    origin: dict[str, Any] = field(default_factory=dict)
    #: Nothing is published yet.
    is_draft: bool = False

    @property
    def losses(self) -> Figures:
        """The figures of the loss: of all records, or in a night that carries others, of its arrivals."""
        return self.manifest.losses.of_grouped

    @property
    def of_arrivals(self) -> str:
        """Say that the loss and the portrait are of some records alone; nothing where they are of all."""
        return "" if self.manifest.losses.arrivals is None else f"of its {self.losses.records or 0:,} arrivals"

    def lacking(self) -> tuple[str, ...]:
        """What could be measured and is not there."""
        waits = self.expectation is None or not (self.expectation.expected or self.expectation.left_out)
        there = {"risk": self.risk is None, "portrait": self.portrait is None, "expected": waits}
        return tuple(name for name, is_missing in there.items() if is_missing)


def read_inputs(work: Store, manifest: Manifest, *, is_draft: bool = False) -> ReportInputs:
    """Read what an audit has of a release; a document that is damaged is as one that is not there."""
    layout = AuditLayout(manifest.id, manifest.revision)
    return ReportInputs(
        manifest,
        plan=_document(work, layout.plan()),
        checks=tuple(_document(work, layout.checks()).get("checks", ())),
        risk=read_risk(work, manifest),
        blocks=_table(work, layout.blocks()),
        portrait=read_portrait(work, manifest),
        expectation=_expectation(read_document(work, manifest, EXPECTED)),
        run=read_document(work, manifest, RUN) or {},
        origin=_document(work, layout.digests()),
        is_draft=is_draft,
    )


def _document(work: Store, name: str) -> dict[str, Any]:
    data = work.read_if_there(name)
    with suppress(ValueError):
        value = json.loads(data or b"")
        if isinstance(value, dict):
            return value
    return {}


def _table(work: Store, name: str) -> pa.Table | None:
    data = work.read_if_there(name)
    try:
        table = None if data is None else pq.read_table(io.BytesIO(data))
    except (pa.ArrowException, OSError):
        return None
    return table if table is not None and table.num_rows and "sse" in table.column_names else None


def _expectation(document: dict[str, Any] | None) -> Expectation | None:
    with suppress(ValueError):
        # What the input discloses the plan says.
        return None if document is None else from_plain(Expectation, {**document, "disclosures": ()})
    return None


def refuse_other_release(inputs: ReportInputs) -> None:
    """Stop where the audit has nothing of a release: a page of the manifest alone would say what everybody knows."""
    if not inputs.plan and inputs.risk is None:
        manifest = inputs.manifest
        raise StorageError(
            f"the audit has nothing of release {manifest.id} {manifest.revision}; restore it, or name another release"
        )
