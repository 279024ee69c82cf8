"""Settings of a release side by side, in words, tables and lines for the spec: for the operator alone."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import Any

import yaml

from microagg_core.compare.asked import said_once
from microagg_core.compare.choosing import (
    DEVIATIONS,
    QUICK_SECONDS,
    TIMES_QUICKEST,
    Choice,
    ReleaseComparison,
    cell_of,
    seed_deviation,
)
from microagg_core.compare.expecting.figures import Expected
from microagg_core.pages.words import NONE, duration, percent_in_words
from microagg_core.plain import to_plain

Rows = list[tuple[str, ...]]


def comparison_document(comparison: ReleaseComparison) -> dict[str, Any]:
    """For programs of the operator."""
    choices = {k: comparison.choice(k) for k in comparison.ks()}
    return {
        "private": "risk, for the operator alone",
        "asked": to_plain(comparison.asked),
        "cells": [{**to_plain(one), "l_sse_spread": seed_deviation(one)} for one in comparison.expected],
        "choices": {
            str(k): {"spec": spec_of(choice.chosen), "least": spec_of(choice.least), "error": choice.error}
            for k, choice in choices.items()
            if choice is not None
        },
        "left_out": list(left_out_lines(comparison)),
        "in_words": [headline_of(comparison), *advice_lines(comparison)],
    }


def comparison_csv(comparison: ReleaseComparison) -> str:
    """A line for each cell."""
    names = list(dict.fromkeys(name for one in comparison.expected for name in one.certain))
    rows = [_flat(one, names) for one in comparison.expected]
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _flat(one: Expected, names: list[str]) -> dict[str, Any]:
    row = {name: value for name, value in to_plain(one).items() if not isinstance(value, dict | list)}
    row["parameters"] = " ".join(f"{name}={value}" for name, value in one.parameters.items())
    row |= {"l_sse_spread": seed_deviation(one), "broken": "; ".join(one.broken)}
    for name in names:
        row[f"certain of {name}"] = one.certain[name].records_certain
        row[f"by chance of {name}"] = one.certain[name].by_chance
    return row


def headline_of(comparison: ReleaseComparison) -> str:
    """From what the figures are."""
    shown = comparison.expected
    if not shown:
        return "nothing could be compared"
    one = min(shown, key=lambda one: (one.k != comparison.asked.k, -one.drawn_records))
    if one.is_whole:
        return f"all {one.drawn_records:,} records, grouped as a release would group them; for you alone"
    return (
        f"{one.drawn_records:,} of {one.records:,} records, in {one.drawn_blocks:,} blocks or pieces of blocks, "
        "grouped as a release would group them; for you alone"
    )


# --- Tables ----------------------------------------------------------------------------------------------------


def loss_table(comparison: ReleaseComparison, k: int) -> Rows:
    """What is lost for a k, and what it takes; the header first."""
    ranked = comparison.ranked(k)
    is_some = any(not one.is_whole for one in ranked)
    header = ("algorithm", "refine", "loss", *(("blocks",) if is_some else ()), "seeds", "gap", "CPU")
    rows: Rows = [(*header, *(("all of it",) if is_some else ()))]
    for one in ranked:
        blocks = (_off(one.l_sse_error),) if is_some else ()
        gap = NONE if one.gap is None else f"{one.gap:.3g} %"
        seconds = (duration(one.seconds), *((duration(one.whole_seconds),) if is_some else ()))
        rows.append(
            (
                one.algorithm,
                _word(one.refine),
                _loss(one.l_sse),
                *blocks,
                _off(seed_deviation(one)),
                gap,
                *seconds,
            )
        )
    return rows


def risk_table(comparison: ReleaseComparison, k: int) -> Rows:
    """What is given away for a k, and groups; the header first."""
    rows: Rows = [("algorithm", "refine", "group", "record", "certain", "groups", "records in each")]
    worst = worst_column(comparison)
    for one in comparison.ranked(k):
        certain = NONE if worst is None else _share(one.certain[worst].records_certain)
        sizes = f"{one.smallest:,}" if one.smallest == one.largest else f"{one.smallest:,} to {one.largest:,}"
        links = (_share(one.own_nearest), _share(one.expected_correct))
        rows.append((one.algorithm, _word(one.refine), *links, certain, f"{one.groups:,}", sizes))
    return rows


def worst_column(comparison: ReleaseComparison) -> str | None:
    """Of which confidential column most records are certain, beyond those that are by chance, for the k asked."""
    shown = [one for one in comparison.expected if one.k == comparison.asked.k] or comparison.expected
    excess: dict[str, float] = {}
    for one in shown:
        for name, column in one.certain.items():
            excess[name] = max(excess.get(name, -1.0), column.records_certain - (column.by_chance or 0.0))
    return max(excess, key=lambda name: excess[name], default=None)


def table_notes(comparison: ReleaseComparison) -> Iterator[str]:
    """What the columns are."""
    shown = comparison.expected
    if not shown:
        return
    yield "loss: of the variance of the quasi-identifiers"
    if any(one.l_sse_error is not None for one in shown):
        yield "blocks: by so much the loss is off, up or down, as it is of some blocks (a standard error)"
    n_seeds = max(len(one.l_sse_of_seeds) for one in shown) + 1
    if n_seeds > 1:
        yield f"seeds: the deviation of the loss over {n_seeds} seeds, where a seed changes anything"
    yield f"gap: at most this part of the loss could be avoided by other groups of these blocks ({NONE}: slow to prove)"
    yield "CPU: of the kernels on one core, for what was grouped here; compiling is no part of it"
    if any(not one.is_whole for one in shown):
        yield "all of it: for the whole release, by the cost model at the pace that was seen here"
    chances = [one.by_chance for one in shown if one.by_chance is not None]
    chance = f" (by chance {percent_in_words(max(chances))})" if chances else ""
    yield f"group, record: the right ones, for who knows all quasi-identifiers exactly{chance}"
    worst = worst_column(comparison)
    if worst is not None:
        one = min(shown, key=lambda one: (one.k != comparison.asked.k, one.l_sse))
        by_chance = percent_in_words(one.certain[worst].by_chance)
        yield f"certain: the value of {worst!r}, the worst column (by chance {by_chance} for k={one.k})"
    if any(not one.is_whole for one in shown):
        yield "of some blocks: a release will differ; links are at most these, as only neighbours in them count"


def _word(refine: str | float) -> str:
    return refine if isinstance(refine, str) else f"{refine:g} s"


def _share(part: float | None) -> str:
    """A share in a narrow column."""
    return percent_in_words(part).replace("less than ", "<")


def _loss(l_sse: float) -> str:
    return f"{l_sse:.5g} %"


def _off(error: float | None) -> str:
    return NONE if error is None else f"{error:.2g}"


# --- What to write ---------------------------------------------------------------------------------------------


def spec_of(one: Expected) -> dict[str, Any]:
    """The fields of a spec with these settings."""
    algorithm = {"name": one.algorithm, **one.parameters} if one.parameters else one.algorithm
    refine = one.refine if isinstance(one.refine, str) else {"seconds": one.refine}
    return {"algorithm": algorithm, "refine": refine, "k": one.k}


def yaml_lines(one: Expected) -> list[str]:
    """Lines to paste into a spec."""
    return yaml.safe_dump(spec_of(one), sort_keys=False).splitlines()


def advice_lines(comparison: ReleaseComparison) -> list[str]:
    """What to choose and why, and what another k would change."""
    choice = comparison.choice(comparison.asked.k)
    if choice is None:
        return [
            f"for k={comparison.asked.k} nothing can be advised",
            *_refused(comparison),
            *left_out_lines(comparison),
        ]
    return [
        f"{named(choice.chosen)} loses {_loss(choice.chosen.l_sse)}, and its kernels take "
        f"{duration(choice.chosen.whole_seconds)} on one core",
        f"the rule: least loss of what takes at most {QUICK_SECONDS / 60:g} min, or {TIMES_QUICKEST:g} times the "
        f"quickest; losses nearer than {DEVIATIONS:g} standard errors are equal, and the cheaper is taken",
        *_why(choice),
        *_instead(comparison, choice),
        *_other_k(comparison, choice),
        *_refused(comparison),
        *left_out_lines(comparison),
    ]


def named(one: Expected) -> str:
    """Settings in a few words."""
    return f"{one.algorithm}, refine {_word(one.refine)}"


def left_out_lines(comparison: ReleaseComparison) -> list[str]:
    """What was not tried, and why; once for all that it is true of."""
    cells = [(f"{cell.algorithm}, refine {_word(cell.refine)}", cell.k, reason) for cell, reason in comparison.left_out]
    return [f"left out: {line}" for line in _of_all_refinements(said_once(cells))]


def _of_all_refinements(lines: tuple[str, ...]) -> list[str]:
    """A line for what is said of an algorithm with several refinements."""
    together: dict[tuple[str, str], list[str]] = {}
    for line in lines:
        algorithm, _, rest = line.partition(", refine ")
        refine, _, said = rest.partition(" at ")
        together.setdefault((algorithm, said), []).append(refine)
    return [f"{algorithm}, refine {', '.join(of)}, at {said}" for (algorithm, said), of in together.items()]


def _why(choice: Choice) -> Iterator[str]:
    chosen, least = choice.chosen, choice.least
    if chosen is not least:
        yield (
            f"{named(least)} loses {_loss(least.l_sse)}, {chosen.l_sse - least.l_sse:.2g} less, and that is "
            f"no more than the figures are off ({choice.error:.2g}); it would take {duration(least.whole_seconds)}"
        )
    if choice.too_slow is not None:
        slow = choice.too_slow
        yield f"{named(slow)} would lose {_loss(slow.l_sse)}, and take {duration(slow.whole_seconds)}"


def _instead(comparison: ReleaseComparison, choice: Choice) -> Iterator[str]:
    own = comparison.as_asked()
    if own is None or own is choice.chosen:
        return
    yield f"the spec says {named(own)}, which loses {_loss(own.l_sse)} and takes {duration(own.whole_seconds)}"


def _other_k(comparison: ReleaseComparison, choice: Choice) -> Iterator[str]:
    now, worst = choice.chosen, worst_column(comparison)
    for k in comparison.ks():
        other = comparison.choice(k)
        if k == now.k or other is None:
            continue
        one = other.chosen
        words = f"k={k} ({named(one)}) would lose {_loss(one.l_sse)} instead of {_loss(now.l_sse)}, and leave "
        words += f"{percent_in_words(one.expected_correct)} right records instead of "
        words += percent_in_words(now.expected_correct)
        if worst is not None:
            certain = [percent_in_words(of.certain[worst].records_certain) for of in (one, now)]
            words += f", {certain[0]} certain values instead of {certain[1]}"
        yield words


def _refused(comparison: ReleaseComparison) -> list[str]:
    """What the gate would stop, and why."""
    cells = [(cell_of(one), words) for one in comparison.expected for words in one.broken]
    lines = said_once((f"{cell.algorithm}, refine {_word(cell.refine)}", cell.k, words) for cell, words in cells)
    return [f"would be refused: {line}" for line in _of_all_refinements(lines)]
