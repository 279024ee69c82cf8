"""What another k would change: expected loss and risk for half, the same and twice the k."""

from __future__ import annotations

from collections.abc import Callable

from microagg_core.compare.expecting.figures import Expected
from microagg_core.pages.expected_report import HEADER, Expectation
from microagg_core.pages.operator.charts import choices_chart
from microagg_core.pages.operator.inputs import ReportInputs
from microagg_core.pages.operator.parts import PageChart, PageSection, PageTable, is_there
from microagg_core.pages.risk_report import percent_in_words

_UNKNOWN = (
    "Not looked at by this run; microagg report SPEC groups some blocks for other k, and shows what they would lose."
)


def larger_k_section(inputs: ReportInputs) -> PageSection:
    """Charts of loss and risk by k."""
    title, one = "What another k would change", inputs.expectation
    if one is None or not one.expected:
        reasons = () if one is None else tuple(f"{reason[:1].upper()}{reason[1:]}." for reason in one.left_out)
        return PageSection("larger-k", title, reasons or (_UNKNOWN,))
    return PageSection(
        "larger-k",
        title,
        larger_k_words(one),
        _charts(one),
        is_there([PageTable.of("Expected for each k", HEADER, one.rows())]),
        notes=tuple(f"{words[:1].upper()}{words[1:]}." for words in (one.headline().partition(";")[0], *_rest(one))),
    )


def larger_k_words(one: Expectation | None) -> tuple[str, ...]:
    """What the next larger k would cost and gain, and the next smaller one."""
    if one is None or one.asked is None:
        return ((f"{one.left_out[0][:1].upper()}{one.left_out[0][1:]}." if one and one.left_out else _UNKNOWN),)
    now = one.asked
    others = sorted((other for other in one.expected if other.k != one.k), key=lambda other: -other.k)
    return tuple(_compared(one, now, other) for other in others) or ("No other k was looked at.",)


def _compared(one: Expectation, now: Expected, other: Expected) -> str:
    words = f"k = {other.k} would lose {other.l_sse:.3g} % instead of {now.l_sse:.3g} %"
    if other.expected_correct is not None and now.expected_correct is not None:
        right, before = percent_in_words(other.expected_correct), percent_in_words(now.expected_correct)
        words += f", and who knows all quasi-identifiers would pick the right record for {right} instead of {before}"
    if (worst := one.worst) is not None:
        certain = [percent_in_words(of.certain[worst].records_certain) for of in (other, now)]
        words += f"; ‘{worst}’ would be certain for {certain[0]} instead of {certain[1]}"
    if other.withheld != now.withheld:
        words += f"; {other.withheld:,} records would be withheld instead of {now.withheld:,}"
    return f"{words}."


def _rest(one: Expectation) -> list[str]:
    """The sentences on limits, which the table and the sentences above do not say."""
    said = ("right group and right record:", "value certain:", f"k={2 * one.k} would")
    return [words for words in one.sentences() if not words.startswith(said)]


def _charts(one: Expectation) -> tuple[PageChart, ...]:
    def right(expected: Expected) -> float | None:
        return expected.expected_correct

    charts = [
        _chart(one, "n-loss", "Loss", lambda e: e.l_sse / 100.0),
        _chart(one, "n-right", "Right record, for who knows all quasi-identifiers", right),
    ]
    if (worst := one.worst) is not None:
        charts.append(
            _chart(one, "n-certain", f"Certain values of ‘{worst}’", lambda e: e.certain[worst].records_certain)
        )
    return tuple(chart for chart in charts if chart is not None)


def _chart(one: Expectation, name: str, title: str, of: Callable[[Expected], float | None]) -> PageChart | None:
    figures = [(e.k, of(e)) for e in one.expected]
    points = [(f"k = {k}", value, percent_in_words(value)) for k, value in figures if value is not None]
    if len(points) != len(figures) or not points:
        return None
    asked = [k for k, _ in figures].index(one.k) if one.asked is not None else -1
    label = f"{title}: {'; '.join(f'{word}: {words}' for word, _, words in points)}."
    return PageChart(title, choices_chart(name, label, points, asked))
