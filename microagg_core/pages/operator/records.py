"""What became of records and values on the way: withheld, held, merged, cut, missing."""

from __future__ import annotations

from typing import Any

from microagg_core.pages.night_plan import NightPlan
from microagg_core.pages.operator.inputs import ReportInputs
from microagg_core.pages.operator.parts import PageSection, PageTable, is_there


def records_section(inputs: ReportInputs) -> PageSection:
    """Counts of records and values."""
    plan = inputs.plan
    night = NightPlan(**plan["night"]).rows() if plan.get("night") else []
    rows = [
        ("records that arrived" if inputs.of_arrivals else "records that came", _count(plan, "records")),
        *((name, words) for name, words in night if name in ("survivors", "not released", "held back")),
        ("records released", f"{inputs.manifest.rows:,}"),
        ("withheld for good", _count(plan, "withheld")),
        ("held for a later night", _count(plan, "held")),
        ("blocking keys with fewer than k records", _count(plan, "undersized_keys")),
        ("blocks made of several keys", _count(plan, "merged_blocks")),
        ("records in blocks that were cut", _count(plan, "split_rows")),
        ("blocks", _count(plan, "blocks")),
    ]
    joined = [(name, f"{n:,}", "merged") for name, n in plan.get("joined_values", {}).items() if n]
    distributions = inputs.portrait.distributions if inputs.portrait else ()
    lacking = [(one.column, f"{one.missing:,}", "missing, before and after") for one in distributions if one.missing]
    return PageSection(
        "records",
        "Merged, withheld, cut",
        changed_words(inputs),
        tables=is_there(
            [
                PageTable.of("Records", ("what", "how many"), rows),
                PageTable.of("Values by column", ("column", "values", "what became of them"), [*joined, *lacking]),
            ]
        ),
    )


def changed_words(inputs: ReportInputs) -> tuple[str, ...]:
    """What was withheld, held, merged and cut, in sentences."""
    plan = inputs.plan
    if not plan:
        return ("The audit has no plan of this release.",)
    joined = {name: n for name, n in plan.get("joined_values", {}).items() if n}
    words = [
        _many(plan, "withheld", "record was withheld", "records were withheld", "No record was withheld"),
        *(f"{one[:1].upper()}{one[1:]}" for one in plan.get("withheld_words", ())),
    ]
    if plan.get("held"):
        words.append(_many(plan, "held", "record waits for a later night", "records wait for a later night", ""))
    if joined:
        columns = ", ".join(f"‘{name}’ of {n:,}" for name, n in joined.items())
        words.append(f"Blocking values were joined with others, so that k records share them: {columns} records")
    else:
        words.append("No blocking value was joined with another")
    if plan.get("split_rows"):
        words.append(
            f"{plan['split_rows']:,} records lay in blocks above {plan['max_records']:,} records, which were cut"
        )
    return tuple(f"{one}." for one in words)


def _count(plan: dict[str, Any], name: str) -> str:
    return f"{plan[name]:,}" if name in plan else "not kept"


def _many(plan: dict[str, Any], name: str, one: str, many: str, none: str) -> str:
    n = plan.get(name, 0)
    return f"{n:,} {one if n == 1 else many}" if n else none
