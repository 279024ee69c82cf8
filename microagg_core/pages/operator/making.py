"""Sections on what became of records, how long the release took, and how to tell that it is this release."""

from __future__ import annotations

from typing import Any

from microagg_core.pages.operator.charts import timeline_chart
from microagg_core.pages.operator.inputs import ReportInputs
from microagg_core.pages.operator.parts import PageChart, PageSection, PageTable
from microagg_core.pages.plan_report import NightPlan
from microagg_core.pages.release_report import compared_rows
from microagg_core.pages.words import NONE, capital, duration, size_in_words


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
