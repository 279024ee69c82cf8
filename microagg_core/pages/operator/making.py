"""How the release was made: estimate beside actual, the timeline of its stages, software and digests."""

from __future__ import annotations

from typing import Any

from microagg_core.pages.operator.charts import Spell, timeline_chart
from microagg_core.pages.operator.inputs import ReportInputs
from microagg_core.pages.operator.parts import PageChart, PageSection, PageTable, is_there
from microagg_core.pages.words import NONE, duration, size_in_words

#: What the plan said and what it came to, by the name in ``run.json``: in words, and in which unit.
_COMPARED = {
    "kernel_seconds": ("time in kernels", duration),
    "memory_bytes": ("memory of a worker", size_in_words),
    "release_bytes": ("rows in memory, files", size_in_words),
}


def making_section(inputs: ReportInputs) -> PageSection:
    """Time and memory, as planned and as they were."""
    stages = inputs.run.get("stages") or ()
    if not stages:
        return PageSection("making", "How it was made", ("The audit does not have what the stages took.",))
    whole = sum(stage["seconds"] for stage in stages)
    longest = max(stages, key=lambda stage: stage["seconds"])
    says = f"The stages took {duration(whole)}; {longest['name']} took longest, {duration(longest['seconds'])}."
    chart = timeline_chart("timeline", says, _spells(stages))
    return PageSection(
        "making",
        "How it was made",
        (says,),
        (PageChart("Timeline", chart, "", _stage_table(stages)),),
        is_there([PageTable.of("Estimate beside actual", ("", "estimate", "actual"), _compared(inputs.run))]),
    )


def _spells(stages: Any) -> list[Spell]:
    spells, start = [], 0.0
    for stage in stages:
        spells.append(Spell(stage["name"], start, stage["seconds"], duration(stage["seconds"])))
        start += stage["seconds"]
    return spells


def _stage_table(stages: Any) -> PageTable | None:
    rows = [
        (
            stage["name"],
            duration(stage["seconds"]),
            duration(stage["cpu_seconds"]),
            size_in_words(stage["peak_bytes"]) if stage["peak_bytes"] else NONE,
            stage["says"],
        )
        for stage in stages
    ]
    return PageTable.of("Stages", ("stage", "time", "CPU of tasks", "peak of a worker", "what it said"), rows)


def _compared(run: dict[str, Any]) -> list[tuple[str, str, str]]:
    rows = []
    for name, (words, in_words) in _COMPARED.items():
        both = (run.get("compared") or {}).get(name) or {}
        if both.get("estimate") is not None or both.get("actual") is not None:
            cells = [NONE if both.get(which) is None else in_words(both[which]) for which in ("estimate", "actual")]
            rows.append((words, *cells))
    return rows  # type: ignore[return-value]


def digests_section(inputs: ReportInputs) -> PageSection:
    """What somebody needs to know that it is this release, and to make it again."""
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
    checks = [(one["name"], "passed" if one["passed"] else "failed", one["detail"]) for one in inputs.checks]
    return PageSection(
        "digests",
        "Software, digests, checks",
        ("With the manifest’s digest a receiver knows that it is this release: microagg verify URL --sha256 DIGEST.",),
        tables=is_there([PageTable.of("Digests", ("of", "digest"), digests), PageTable.of("Made", ("", ""), facts)]),
        folded=is_there(
            [
                PageTable.of("Software", ("package", "version"), sorted(manifest.software.items())),
                PageTable.of("Checks of the gate", ("check", "outcome", "what was counted"), checks),
            ]
        ),
    )
