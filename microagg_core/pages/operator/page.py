"""The operator's page: one file of HTML, without scripts, that asks nobody for anything."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from microagg_core.pages.operator.charts import timeline_chart
from microagg_core.pages.operator.inputs import ReportInputs
from microagg_core.pages.operator.losses import loss_section, loss_words, sizes_section, weights_section
from microagg_core.pages.operator.parts import PageChart, PageSection, PageTable
from microagg_core.pages.operator.risks import larger_k_section, larger_k_words, risk_section
from microagg_core.pages.operator.shapes import (
    categories_section,
    correlations_section,
    distributions_section,
    edits_section,
    pairs_section,
    regressions_section,
)
from microagg_core.pages.plan_report import NightPlan
from microagg_core.pages.release_report import compared_rows
from microagg_core.pages.risk_report import asked_records, risk_sentences, unit_words
from microagg_core.pages.words import NONE, capital, duration, percent_in_words, size_in_words
from microagg_core.release.pages.document import page_template

#: Sections on the records alone that the release grouped.
_OF_GROUPED = {"distributions", "categories", "pairs", "correlations", "analyses", "edits", "loss", "weights"}
#: Sentences on risk in an answer.
_WORST = 2


def operator_page(inputs: ReportInputs) -> bytes:
    """Render the page of a release; the same documents give the same bytes."""
    manifest = inputs.manifest
    text = page_template("microagg_core.pages.operator", "page.html").render(
        name=manifest.name,
        release=f"{manifest.id}, draft" if inputs.is_draft else f"{manifest.id}, revision {manifest.revision}",
        records=f"{manifest.rows:,}",
        columns=sum(column.role == "quasi_identifier" for column in manifest.columns),
        verdict=verdict(inputs),
        answers=answers(inputs),
        remarks=remarks(inputs),
        sections=list(_sections(inputs)),
    )
    # A number and its sign stay in one line.
    return text.replace(" %", "\u00a0%").encode()


def verdict(inputs: ReportInputs) -> str:
    """Sum the release up in one line: k, checks, loss, risk, what was withheld, held and merged."""
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
    if words := unit_words(inputs.risk or {}):
        return words
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
    units = plan.get("units")
    gone = (units["withheld"], "unit withheld or held", "units withheld or held") if units else None
    counts = [
        gone or (plan.get("withheld", 0), "record withheld", "records withheld"),
        (0 if units else plan.get("held", 0), "held", "held"),
        (plan.get("merged_blocks", 0), "block merged", "blocks merged"),
    ]
    kept_back = [f"{n:,} {singular if n == 1 else plural}" for n, singular, plural in counts if n]
    return ", ".join(kept_back) if kept_back else "nothing withheld, held or merged"


def remarks(inputs: ReportInputs) -> list[str]:
    """List what a careful operator looks at before he signs."""
    return [f"{capital(words)}." for words in inputs.plan.get("unwise", ())]


def answers(inputs: ReportInputs) -> tuple[tuple[str, Iterable[str], str, str], ...]:
    """Answer the four questions of whoever signs, each with a link to the section that has more, and its words."""
    may = "May this be released?" if inputs.is_draft else "May this stay released?"
    risk = risk_sentences(inputs.risk, _WORST) if inputs.risk is not None else ["it was not measured"]
    larger_k = larger_k_words(inputs.expectation)[:1]
    return (
        (may, _may(inputs), "#records", "See what was withheld and merged"),
        ("What did it cost?", loss_words(inputs), "#loss", "See the loss by column and block"),
        ("What is the risk?", [f"{capital(words)}." for words in risk], "#risk", "See all figures of risk"),
        ("What would a larger k change?", larger_k, "#larger-k", "See every k that was looked at"),
    )


def _stands(inputs: ReportInputs) -> str:
    stands = dict.fromkeys(c.stands for c in inputs.manifest.columns if c.role == "quasi_identifier")
    words = [f"{word.replace(' or ', 's or ')}s" for word in stands]
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _may(inputs: ReportInputs) -> Iterable[str]:
    k, n = inputs.manifest.k, len(remarks(inputs))
    who = "records" if inputs.manifest.unit == "row" else "units, people or firms"
    found = (
        f"every combination of quasi-identifiers, replaced by {_stands(inputs)} of groups, and blocking values with at "
        f"least k = {k} {who}"
    )
    if inputs.manifest.has_whole_units:
        found = (
            "all that is released of a unit, its number of records with their quasi-identifiers, replaced by "
            f"{_stands(inputs)} of groups, and blocking values, shared by at least k = {k} units"
        )
    gate = f"The gate lets it pass: its {len(inputs.checks)} checks found {found}; other values are as they came."
    if not all(check["passed"] for check in inputs.checks):
        gate = "No: a check of the gate failed."
    elif not inputs.checks:
        gate = "The audit does not have what the gate found."
    share = "share all that is released of a unit" if inputs.manifest.has_whole_units else "share a combination"
    ask = f"k says how many {share}, not what they share: whether the risk below is acceptable, you decide."
    look = f"{n} things to look at first stand below." if n > 1 else "One thing to look at first stands below."
    return (gate, ask, look) if n else (gate, ask)


def records_section(inputs: ReportInputs) -> PageSection:
    """Count the records and values that were withheld, held, merged, cut and missing."""
    plan = inputs.plan
    night = NightPlan(**plan["night"]).rows() if plan.get("night") else []
    rows = [
        ("records that arrived" if inputs.of_arrivals else "records that came", _count(plan, "records")),
        *((name, words) for name, words in night if name in ("survivors", "not released", "held back")),
        ("records released", f"{inputs.manifest.rows:,}"),
        *_unit_rows(plan),
        ("withheld for good", _count(plan, "withheld")),
        ("held for a later night", _count(plan, "held")),
        ("blocking keys with fewer than k records", _count(plan, "undersized_keys")),
        ("blocks made of several keys", _count(plan, "merged_blocks")),
        ("records in blocks that were cut", _count(plan, "split_rows")),
        ("blocks", _count(plan, "blocks")),
    ]
    joined = [(name, f"{n:,}", "merged") for name, n in plan.get("joined_values", {}).items() if n]
    columns = inputs.portrait.distributions if inputs.portrait else ()
    missing = [(of.column, f"{of.missing:,}", "missing, before and after") for of in columns if of.missing]
    if inputs.manifest.missing == "blank":
        what = ("missing as they came", "blanked, so that k records lack the same")
        cells = ((name, list(zip(counts, what, strict=True))) for name, counts in plan.get("blanked", {}).items())
        missing = [(name, f"{n:,}", words) for name, pairs in cells for n, words in pairs if n]
    return PageSection(
        "records",
        "Merged, withheld, cut",
        _records_in_words(plan),
        tables=[
            PageTable("Records", [("what", "how many"), *rows]),
            PageTable("Values by column", [("column", "values", "what became of them"), *joined, *missing]),
        ],
    )


def _unit_rows(plan: dict[str, Any]) -> list[tuple[str, str]]:
    """Count units, where these have several rows."""
    units = plan.get("units")
    if not units:
        return []
    return [
        ("units that came", _count(units, "units")),
        ("units withheld or held", _count(units, "withheld")),
        ("rows left out of units that have more than unit.rows allows", _count(units, "left_out")),
        ("units that have such", _count(units, "cut")),
    ]


def _records_in_words(plan: dict[str, Any]) -> list[str]:
    if not plan:
        return ["The audit has no plan of this release."]
    withheld, held = plan.get("withheld", 0), plan.get("held", 0)
    of_units = f", all that {plan['units']['withheld']:,} units have" if plan.get("units") else ""
    words = [f"{withheld:,} {'record was' if withheld == 1 else 'records were'} withheld{of_units}"]
    if not withheld:
        words = ["No record was withheld"]
    words += map(capital, plan.get("withheld_words", ()))
    if held:
        words.append(f"{held:,} {'record waits' if held == 1 else 'records wait'} for a later night")
    columns = ", ".join(f"‘{name}’ of {n:,}" for name, n in plan.get("joined_values", {}).items() if n)
    if columns:
        words.append(f"Blocking values were joined with others, so that k records share them: {columns} records")
    else:
        words.append("No blocking value was joined with another")
    if plan.get("split_rows"):
        words.append(
            f"{plan['split_rows']:,} records lay in blocks above {plan['max_records']:,} records, which were cut"
        )
    return [f"{sentence}." for sentence in words]


def _count(plan: dict[str, Any], name: str) -> str:
    return f"{plan[name]:,}" if name in plan else "not kept"


def making_section(inputs: ReportInputs) -> PageSection:
    """Show time and memory, as planned and as they were."""
    stages = inputs.run.get("stages") or ()
    if not stages:
        return PageSection("making", "How it was made", ("The audit does not have what the stages took.",))
    longest = max(stages, key=lambda stage: stage["seconds"])
    says = (
        f"The stages took {duration(sum(stage['seconds'] for stage in stages))}; {longest['name']} took longest, "
        f"{duration(longest['seconds'])}."
    )
    timeline = timeline_chart(says, [(stage["name"], stage["seconds"], duration(stage["seconds"])) for stage in stages])
    cells = [
        ("stage", "time", "CPU of tasks", "peak of a worker", "what it said"),
        *(
            (
                stage["name"],
                duration(stage["seconds"]),
                duration(stage["cpu_seconds"]),
                size_in_words(stage["peak_bytes"]) if stage["peak_bytes"] else NONE,
                stage["says"],
            )
            for stage in stages
        ),
    ]
    return PageSection(
        "making",
        "How it was made",
        (says,),
        [PageChart("Timeline", timeline, "", PageTable("Stages", cells))],
        [PageTable("Estimate beside actual", [("", "estimate", "actual"), *compared_rows(inputs.run.get("compared"))])],
    )


def digests_section(inputs: ReportInputs) -> PageSection:
    """Show what identifies the release, and what it takes to make it again."""
    manifest, origin = inputs.manifest, inputs.origin
    digests = [
        ("manifest (SHA-256)", NONE if inputs.is_draft else manifest.sha256),
        ("spec", origin.get("spec") or NONE),
        ("data", origin.get("data") or NONE),
    ]
    facts = [
        ("made", manifest.created),
        ("algorithm", manifest.algorithm.name),
        ("refined", str(manifest.refine)),
        ("seed", str(manifest.seed)),
        ("same bytes again", "yes" if manifest.reproducible else "no"),
        ("files", f"{len(manifest.parts):,}, {size_in_words(sum(part.bytes for part in manifest.parts))}"),
    ]
    checks = [(check["name"], "passed" if check["passed"] else "failed", check["detail"]) for check in inputs.checks]
    return PageSection(
        "digests",
        "Software, digests, checks",
        ("With the manifest’s digest a receiver knows that it is this release: microagg verify URL --sha256 DIGEST.",),
        tables=[PageTable("Digests", [("of", "digest"), *digests]), PageTable("Made", [("", ""), *facts])],
        folded=[
            PageTable("Software", [("package", "version"), *sorted(manifest.software.items())]),
            PageTable("Checks of the gate", [("check", "outcome", "what was counted"), *checks]),
        ],
    )


#: In the order in which they stand on the page; some are there only where there is something to show.
_SECTIONS = (
    distributions_section,
    categories_section,
    pairs_section,
    correlations_section,
    regressions_section,
    edits_section,
    loss_section,
    weights_section,
    sizes_section,
    risk_section,
    records_section,
    larger_k_section,
    making_section,
    digests_section,
)


def _sections(inputs: ReportInputs) -> Iterator[PageSection]:
    for make in _SECTIONS:
        section = make(inputs)
        if section is not None:
            whose = f" ({inputs.of_arrivals})" if inputs.of_arrivals and section.id in _OF_GROUPED else ""
            yield replace(section, title=f"{section.title}{whose}")
