"""What the release gives away, beside what chance does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from microagg_core.pages.operator.charts import Bar, bars_chart
from microagg_core.pages.operator.inputs import ReportInputs
from microagg_core.pages.operator.parts import PageChart, PageSection, PageTable, is_there
from microagg_core.pages.risk_report import (
    COLUMN_HEADER,
    INTRUDER_HEADER,
    asked_records,
    column_rows,
    headline,
    intruder_rows,
    near_header,
    near_rows,
    percent_in_words,
    risk_sentences,
    share_of,
)

#: Bars of a chart; tables have all.
_MOST_BARS = 12


def risk_section(inputs: ReportInputs) -> PageSection:
    """Sentences, charts with base rates, and all figures."""
    title, risk = "What the release gives away", inputs.risk
    if risk is None:
        words = "Not measured by this run; microagg report SPEC makes the release again, apart, and measures it."
        return PageSection("risk", title, (words,))
    charts = [_alone(risk), _links(risk), _certain(risk)]
    tables = [
        PageTable.of("Who finds what", INTRUDER_HEADER, intruder_rows(risk)),
        PageTable.of("Confidential columns", COLUMN_HEADER, column_rows(risk)),
        PageTable.of("How near released values lie", near_header(risk), near_rows(risk)),
    ]
    words = headline(risk).partition(";")[0]
    return PageSection(
        "risk",
        title,
        (_capital(words) + ".", *(_capital(one) + "." for one in risk_sentences(risk))),
        tuple(chart for chart in charts if chart is not None),
        folded=is_there(tables),
        notes=(
            "A ring is what chance alone gives: who guesses within the label, or groups of the same sizes drawn from "
            "all records. What lies far beyond its ring comes from the data. An intruder is taken to know blocking "
            "values and which values are missing.",
            *([_OF_ARRIVALS] if asked_records(risk) == "arrivals" else ()),
        ),
    )


_OF_ARRIVALS = (
    "Who picks which record, what lies near and who stood alone before is of tonight’s arrivals, among themselves: of "
    "the others only what was released is kept. Certain values are of all records; chance, commonest value and "
    "distance are found file by file."
)


def _capital(words: str) -> str:
    return words[:1].upper() + words[1:]


def _alone(risk: Mapping[str, Any]) -> PageChart | None:
    alone = risk.get("uniqueness") or {}
    if alone.get("before") is None or alone.get("after") is None:
        return None
    before, after = (percent_in_words(alone[when]) for when in ("before", "after"))
    now = after if alone["after"] else "none"
    bars = [
        Bar("before", alone["before"], before),
        Bar("as released", alone["after"], after),
    ]
    whose = _capital(share_of(alone["before"], asked_records(risk)))
    says = f"{whose} stood alone with their blocking values and quasi-identifiers before, {now} as released."
    return PageChart("Records that stand alone", bars_chart("k-alone", says, bars, most=1.0), says)


def _links(risk: Mapping[str, Any]) -> PageChart | None:
    linkage = risk.get("linkage") or {}
    rows = intruder_rows(risk)
    if not rows or not linkage.get("asked"):
        return None
    both = sorted(zip(linkage["intruders"], rows, strict=True), key=lambda pair: -pair[0]["expected_correct"])[
        :_MOST_BARS
    ]
    bars = [Bar(row[0], one["expected_correct"], row[2], mark=linkage["by_chance"]) for one, row in both]
    says = (
        f"How often the right record is picked, by what somebody knows. By chance it is "
        f"{percent_in_words(linkage['by_chance'])}."
    )
    return PageChart("Who knows this picks the right record", bars_chart("k-links", says, bars), says)


def _certain(risk: Mapping[str, Any]) -> PageChart | None:
    columns = risk.get("inference") or {}
    if not columns:
        return None
    ordered = sorted(columns.items(), key=lambda pair: (pair[1]["by_chance"] or 0.0) - pair[1]["records_certain"])
    bars = [
        Bar(name, one["records_certain"], percent_in_words(one["records_certain"]), mark=one["by_chance"])
        for name, one in ordered[:_MOST_BARS]
    ]
    name, worst = ordered[0]
    says = f"The value of ‘{name}’ is certain for {share_of(worst['records_certain'])}"
    if worst["records_certain"] or worst["by_chance"]:
        says += f"; by chance it would be for {percent_in_words(worst['by_chance'])}"
    return PageChart("Records whose value is certain", bars_chart("k-certain", f"{says}.", bars, most=1.0), f"{says}.")
