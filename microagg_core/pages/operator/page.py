"""The page: one file of HTML, without scripts, that asks nobody for anything."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from importlib import resources
from typing import Any

from microagg_core.pages.operator.inputs import ReportInputs
from microagg_core.pages.operator.larger_k import larger_k_section
from microagg_core.pages.operator.losses import loss_section, sizes_section
from microagg_core.pages.operator.making import digests_section, making_section
from microagg_core.pages.operator.parts import PageSection
from microagg_core.pages.operator.records import records_section
from microagg_core.pages.operator.risks import risk_section
from microagg_core.pages.operator.shapes import (
    correlations_section,
    distributions_section,
    pairs_section,
    regressions_section,
)
from microagg_core.pages.operator.verdict import answers, remarks, verdict

#: In the order in which they stand on the page; some are there only where there is something to show.
_SECTIONS = (
    distributions_section,
    pairs_section,
    correlations_section,
    regressions_section,
    loss_section,
    sizes_section,
    risk_section,
    records_section,
    larger_k_section,
    making_section,
    digests_section,
)
#: Those that are of the records alone that the release grouped.
_OF_GROUPED = {"distributions", "pairs", "correlations", "analyses", "loss"}


def operator_page(inputs: ReportInputs) -> bytes:
    """The page of a release, the same from the same documents."""
    manifest = inputs.manifest
    text = _template().render(
        name=manifest.name,
        release=f"{manifest.id}, draft" if inputs.is_draft else f"{manifest.id}, revision {manifest.revision}",
        records=f"{manifest.rows:,}",
        columns=len(inputs.names),
        verdict=verdict(inputs),
        answers=answers(inputs),
        remarks=remarks(inputs),
        sections=list(_sections(inputs)),
        style=_style(),
    )
    # A number and its sign stay in one line.
    return str(text).replace(" %", "\u00a0%").encode()


def _sections(inputs: ReportInputs) -> Iterator[PageSection]:
    for make in _SECTIONS:
        section = make(inputs)
        if section is not None:
            whose = f" ({inputs.of_arrivals})" if inputs.of_arrivals and section.id in _OF_GROUPED else ""
            yield replace(section, title=f"{section.title}{whose}")


@cache
def _template() -> Any:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    loader = PackageLoader("microagg_core.pages.operator")
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template("page.html")


def _style() -> str:
    return (resources.files("microagg_core.pages.operator") / "templates" / "style.css").read_text("utf-8")
