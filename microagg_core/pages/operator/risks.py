"""Sections on what the release gives away, beside what chance does, and on what another k would change."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from microagg_core.compare.trial import Expected
from microagg_core.pages.comparison_report import Expectation
from microagg_core.pages.operator.charts import Bar, bars_chart, choices_chart
from microagg_core.pages.operator.inputs import ReportInputs
from microagg_core.pages.operator.parts import UNMEASURED, PageChart, PageSection, PageTable
from microagg_core.pages.risk_report import (
    asked_records,
    column_table,
    headline,
    intruder_table,
    near_table,
    risk_sentences,
    share_of,
    unit_table,
)
from microagg_core.pages.words import capital, percent_in_words

#: Bars of a chart; tables have all.
_MOST_BARS = 12
_OF_ARRIVALS = (
    "Who picks which record, what lies near and who stood alone before is of tonight’s arrivals, among themselves: of "
    "the others only what was released is kept. Certain values are of all records; chance, commonest value and "
    "distance are found file by file."
)
_OF_UNITS = (
    "Which records are of one unit is taken to be plain to him, by whatever is released as it came. He finds a unit by "
    "its nearest records, among units of as many. Of units that share all that is released of one, a record’s value is "
    "certain where all records that look alike have it, and some value of a unit where each has it in one of these."
)
_NO_OTHER_K = (
    "Not looked at by this run; microagg report SPEC groups some blocks for other k, and shows what they would lose."
)


def risk_section(inputs: ReportInputs) -> PageSection:
    """Show sentences, charts with base rates, and all figures of risk."""
    title, risk = "What the release gives away", inputs.risk
    if risk is None:
        return PageSection("risk", title, (UNMEASURED,))
    return PageSection(
        "risk",
        title,
        [f"{capital(words)}." for words in (headline(risk).partition(";")[0], *risk_sentences(risk))],
        [_alone(risk), _links(risk), _certain(risk)],
        folded=[
            PageTable("Who finds what", intruder_table(risk)),
            PageTable("Who finds which unit", unit_table(risk)),
            PageTable("Confidential columns", column_table(risk)),
            PageTable("How near released values lie", near_table(risk)),
        ],
        notes=(
            "A ring is what chance alone gives: who guesses within the label, or groups of the same sizes drawn from "
            "all records. What lies far beyond its ring comes from the data. An intruder is taken to know blocking "
            "values and which values are missing.",
            *([_OF_UNITS] if risk.get("units") else ()),
            *([_OF_ARRIVALS] if asked_records(risk) == "arrivals" else ()),
        ),
    )


def _alone(risk: Mapping[str, Any]) -> PageChart | None:
    alone = risk.get("uniqueness") or {}
    if alone.get("before") is None or alone.get("after") is None:
        return None
    before, after = (percent_in_words(alone[when]) for when in ("before", "after"))
    bars = [Bar("before", alone["before"], before), Bar("as released", alone["after"], after)]
    whose, now = capital(share_of(alone["before"], asked_records(risk))), after if alone["after"] else "none"
    says = f"{whose} stood alone with their blocking values and quasi-identifiers before, {now} as released."
    return PageChart("Records that stand alone", bars_chart(says, bars, most=1.0), says)


def _links(risk: Mapping[str, Any]) -> PageChart | None:
    linkage = risk.get("linkage") or {}
    if not linkage.get("intruders") or not linkage.get("asked"):
        return None
    intruders = zip(linkage["intruders"], intruder_table(risk)[1:], strict=True)
    ordered = sorted(intruders, key=lambda pair: -pair[0]["expected_correct"])[:_MOST_BARS]
    bars = [Bar(row[0], found["expected_correct"], row[2], mark=linkage["by_chance"]) for found, row in ordered]
    says = (
        f"How often the right record is picked, by what somebody knows. By chance it is "
        f"{percent_in_words(linkage['by_chance'])}."
    )
    return PageChart("Who knows this picks the right record", bars_chart(says, bars), says)


def _certain(risk: Mapping[str, Any]) -> PageChart | None:
    columns = risk.get("inference") or {}
    if not columns:
        return None
    ordered = sorted(columns.items(), key=lambda pair: (pair[1]["by_chance"] or 0.0) - pair[1]["records_certain"])
    bars = [
        Bar(name, of["records_certain"], percent_in_words(of["records_certain"]), mark=of["by_chance"])
        for name, of in ordered[:_MOST_BARS]
    ]
    name, worst = ordered[0]
    says = f"The value of ‘{name}’ is certain for {share_of(worst['records_certain'])}"
    if worst["records_certain"] or worst["by_chance"]:
        says += f"; by chance it would be for {percent_in_words(worst['by_chance'])}"
    return PageChart("Records whose value is certain", bars_chart(f"{says}.", bars, most=1.0), f"{says}.")


def larger_k_section(inputs: ReportInputs) -> PageSection:
    """Chart loss and risk by k, as they are expected for half, the same and twice the k."""
    title, expectation = "What another k would change", inputs.expectation
    if expectation is None or not expectation.expected:
        reasons = [f"{capital(reason)}." for reason in expectation.left_out] if expectation else []
        return PageSection("larger-k", title, reasons or [_NO_OTHER_K])
    in_table = ("right group and right record:", "value certain:", f"k={2 * expectation.k} would")
    rest = [words for words in expectation.sentences() if not words.startswith(in_table)]
    return PageSection(
        "larger-k",
        title,
        larger_k_words(expectation),
        _charts_by_k(expectation),
        [PageTable("Expected for each k", expectation.table())],
        notes=[f"{capital(words)}." for words in (expectation.headline().partition(";")[0], *rest)],
    )


def larger_k_words(expectation: Expectation | None) -> list[str]:
    """Say what the next larger k would cost and gain, and the next smaller one."""
    if expectation is None or expectation.asked is None:
        left_out = expectation.left_out if expectation else ()
        return [f"{capital(left_out[0])}." if left_out else _NO_OTHER_K]
    others = sorted((other for other in expectation.expected if other.k != expectation.k), key=lambda of: -of.k)
    return [_instead(expectation, expectation.asked, other) for other in others] or ["No other k was looked at."]


def _instead(expectation: Expectation, now: Expected, other: Expected) -> str:
    words = f"k = {other.k} would lose {other.l_sse:.3g} % instead of {now.l_sse:.3g} %"
    if other.expected_correct is not None and now.expected_correct is not None:
        right, before = percent_in_words(other.expected_correct), percent_in_words(now.expected_correct)
        words += f", and who knows all quasi-identifiers would pick the right record for {right} instead of {before}"
    if (worst := expectation.worst) is not None:
        certain = [percent_in_words(of.certain[worst].records_certain) for of in (other, now)]
        words += f"; ‘{worst}’ would be certain for {certain[0]} instead of {certain[1]}"
    if other.withheld != now.withheld:
        words += f"; {other.withheld:,} records would be withheld instead of {now.withheld:,}"
    return f"{words}."


def _charts_by_k(expectation: Expectation) -> list[PageChart | None]:
    charts = [
        _chart_by_k(expectation, "Loss", lambda of: of.l_sse / 100.0),
        _chart_by_k(expectation, "Right record, for who knows all quasi-identifiers", lambda of: of.expected_correct),
    ]
    if (worst := expectation.worst) is not None:
        title = f"Certain values of ‘{worst}’"
        charts.append(_chart_by_k(expectation, title, lambda of: of.certain[worst].records_certain))
    return charts


def _chart_by_k(expectation: Expectation, title: str, figure: Callable[[Expected], float | None]) -> PageChart | None:
    figures = [(of.k, figure(of)) for of in expectation.expected]
    points = [(f"k = {k}", value, percent_in_words(value)) for k, value in figures if value is not None]
    if len(points) != len(figures) or not points:
        return None
    asked = [k for k, _ in figures].index(expectation.k) if expectation.asked is not None else -1
    label = f"{title}: {'; '.join(f'{word}: {words}' for word, _, words in points)}."
    return PageChart(title, choices_chart(label, points, asked))
