"""The verdict: a line, and the answers to the four questions of whoever signs."""

from __future__ import annotations

from microagg_core.pages.operator.inputs import ReportInputs
from microagg_core.pages.operator.larger_k import larger_k_words
from microagg_core.pages.operator.losses import loss_words
from microagg_core.pages.operator.parts import Answer
from microagg_core.pages.risk_report import asked_records, percent_in_words, risk_sentences

#: Sentences on risk in an answer.
_WORST = 2


def verdict(inputs: ReportInputs) -> str:
    """The release in one line: k, checks, loss, risk, what was withheld, held and merged."""
    manifest, losses = inputs.manifest, inputs.losses
    passed = sum(bool(check["passed"]) for check in inputs.checks)
    parts = [f"{'Draft, not published' if inputs.is_draft else 'Published'} with k = {manifest.k}"]
    if inputs.checks:
        parts.append(f"all {passed} checks passed" if passed == len(inputs.checks) else "NOT all checks passed")
    of_arrivals = f" {inputs.of_arrivals}" if inputs.of_arrivals else ""
    if losses.l_sse is not None:
        parts.append(f"{losses.l_sse:.3g} % of the variation{of_arrivals} lost")
    else:
        parts.append("nobody arrived" if losses.records == 0 else f"the loss{of_arrivals} withheld, as it tells of few")
    parts.append(_risk(inputs))
    return "; ".join([*parts, _kept_back(inputs)]) + "."


def _risk(inputs: ReportInputs) -> str:
    linkage = (inputs.risk or {}).get("linkage") or {}
    if not linkage.get("asked"):
        return "risk of linkage not measured"
    right = percent_in_words(linkage["expected_correct"])
    chance = percent_in_words(linkage["by_chance"])
    whose = " of arrivals" if asked_records(inputs.risk or {}) == "arrivals" else ""
    return f"who knows all quasi-identifiers picks the right record for {right}{whose} (by chance {chance})"


def _kept_back(inputs: ReportInputs) -> str:
    plan = inputs.plan
    if not plan:
        return "what was withheld is not known"
    counts = [
        (plan.get("withheld", 0), "record withheld", "records withheld"),
        (plan.get("held", 0), "held", "held"),
        (plan.get("merged_blocks", 0), "block merged", "blocks merged"),
    ]
    some = [f"{n:,} {one if n == 1 else more}" for n, one, more in counts if n]
    return ", ".join(some) if some else "nothing withheld, held or merged"


def remarks(inputs: ReportInputs) -> tuple[str, ...]:
    """What a careful operator looks at before he signs."""
    return tuple(f"{one[:1].upper()}{one[1:]}." for one in inputs.plan.get("unwise", ()))


def answers(inputs: ReportInputs) -> tuple[Answer, ...]:
    """Four questions, each with a short answer and the section that has more."""
    risk = risk_sentences(inputs.risk, _WORST) if inputs.risk is not None else ["it was not measured"]
    return (
        Answer(
            "May this be released?" if inputs.is_draft else "May this stay released?",
            _may(inputs),
            "#records",
            "See what was withheld and merged",
        ),
        Answer("What did it cost?", loss_words(inputs), "#loss", "See the loss by column and block"),
        Answer(
            "What is the risk?",
            tuple(f"{one[:1].upper()}{one[1:]}." for one in risk),
            "#risk",
            "See all figures of risk",
        ),
        Answer(
            "What would a larger k change?",
            larger_k_words(inputs.expectation)[:1],
            "#larger-k",
            "See every k that was looked at",
        ),
    )


def _may(inputs: ReportInputs) -> tuple[str, ...]:
    k, n = inputs.manifest.k, len(remarks(inputs))
    who = "records" if inputs.manifest.unit == "row" else "units, people or firms"
    gate = (
        f"The gate lets it pass: its {len(inputs.checks)} checks found every combination of quasi-identifiers, "
        f"replaced by means of groups, and blocking values with at least k = {k} {who}; other values are as they came."
    )
    if not all(check["passed"] for check in inputs.checks):
        gate = "No: a check of the gate failed."
    elif not inputs.checks:
        gate = "The audit does not have what the gate found."
    ask = "k says how many share a combination, not what they share: whether the risk below is acceptable, you decide."
    look = (
        f"{n} things to look at first stand below."
        if n > 1
        else "One thing to look at first stands below."
        if n
        else ""
    )
    return tuple(filter(None, (gate, ask, look)))
