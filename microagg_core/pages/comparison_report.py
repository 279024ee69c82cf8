"""Settings of a release side by side, and what to expect of a plan: words, tables, a page; for the operator alone."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from html import escape
from typing import Any

import yaml

from microagg_core.compare.choice import (
    DEVIATIONS,
    QUICK_SECONDS,
    TIMES_QUICKEST,
    Choice,
    ReleaseComparison,
    seed_deviation,
    setting_of,
)
from microagg_core.compare.grid import Setting
from microagg_core.compare.trial import Expected
from microagg_core.inspect.disclosures import Disclosure
from microagg_core.pages.plots import risk_svg
from microagg_core.pages.risk_report import Rows
from microagg_core.pages.words import NONE, duration, percent_in_words
from microagg_core.plain import to_plain

_STYLE = """
body { font: 16px/1.45 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; color: #111; }
figure { margin: 1rem 0; } figure svg { max-width: 100%; height: auto; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; margin: .5rem 0 1.5rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; font-weight: 600; padding: .25rem 0; }
th, td { padding: .15rem .7rem; text-align: right; border-bottom: 1px solid #ccc; white-space: nowrap; }
th:first-child, td:first-child, th:nth-child(2), td:nth-child(2) { text-align: left; }
pre { background: #f2f2f2; padding: .75rem 1rem; overflow-x: auto; }
@media print { body { margin: 0; max-width: none; } table { page-break-inside: avoid; } }
"""

_PICTURE = "Risk against loss, a mark for each setting; the tables below have all figures"


def comparison_document(comparison: ReleaseComparison) -> dict[str, Any]:
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
    """Say from what the figures are."""
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


def loss_table(comparison: ReleaseComparison, k: int) -> Rows:
    """Tabulate what is lost for a k, and what it takes; the header first."""
    ranked = comparison.ranked(k)
    is_some = any(not one.is_whole for one in ranked)
    header = ("algorithm", "refine", "loss", *(("blocks",) if is_some else ()), "seeds", "gap", "CPU")
    rows: Rows = [(*header, *(("all of it",) if is_some else ()))]
    for one in ranked:
        blocks = (_off(one.l_sse_error),) if is_some else ()
        gap = NONE if one.gap is None else f"{one.gap:.3g} %"
        seconds = (duration(one.seconds), *((duration(one.whole_seconds),) if is_some else ()))
        named = (one.algorithm, _word(one.refine), _loss(one.l_sse))
        rows.append((*named, *blocks, _off(seed_deviation(one)), gap, *seconds))
    return rows


def risk_table(comparison: ReleaseComparison, k: int) -> Rows:
    """Tabulate what is given away for a k, and groups; the header first."""
    rows: Rows = [("algorithm", "refine", "group", "record", "certain", "groups", "records in each")]
    worst = worst_column(comparison)
    for one in comparison.ranked(k):
        certain = NONE if worst is None else _share(one.certain[worst].records_certain)
        sizes = f"{one.smallest:,}" if one.smallest == one.largest else f"{one.smallest:,} to {one.largest:,}"
        links = (_share(one.own_nearest), _share(one.expected_correct))
        rows.append((one.algorithm, _word(one.refine), *links, certain, f"{one.groups:,}", sizes))
    return rows


def worst_column(comparison: ReleaseComparison) -> str | None:
    """Find the confidential column of which most records are certain, beyond chance, for the k asked."""
    return _worst_of([one for one in comparison.expected if one.k == comparison.asked.k] or comparison.expected)


def _worst_of(tried: Iterable[Expected]) -> str | None:
    excess: dict[str, float] = {}
    for one in tried:
        for name, column in one.certain.items():
            excess[name] = max(excess.get(name, -1.0), column.records_certain - (column.by_chance or 0.0))
    return max(excess, key=lambda name: excess[name], default=None)


def table_notes(comparison: ReleaseComparison) -> Iterator[str]:
    """Say what the columns of the tables are."""
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
    return percent_in_words(part).replace("less than ", "<")


def _loss(l_sse: float) -> str:
    return f"{l_sse:.5g} %"


def _off(error: float | None) -> str:
    return NONE if error is None else f"{error:.2g}"


def spec_of(one: Expected) -> dict[str, Any]:
    algorithm = {"name": one.algorithm, **one.parameters} if one.parameters else one.algorithm
    refine = one.refine if isinstance(one.refine, str) else {"seconds": one.refine}
    return {"algorithm": algorithm, "refine": refine, "k": one.k}


def yaml_lines(one: Expected) -> list[str]:
    """Write lines to paste into a spec."""
    return yaml.safe_dump(spec_of(one), sort_keys=False).splitlines()


def advice_lines(comparison: ReleaseComparison) -> list[str]:
    """Say what to choose and why, and what another k would change."""
    choice = comparison.choice(comparison.asked.k)
    if choice is None:
        return [
            f"for k={comparison.asked.k} nothing can be advised",
            *_refused(comparison),
            *left_out_lines(comparison),
        ]
    own = comparison.as_asked()
    instead = (
        [f"the spec says {named(own)}, which loses {_loss(own.l_sse)} and takes {duration(own.whole_seconds)}"]
        if own is not None and own is not choice.chosen
        else []
    )
    return [
        f"{named(choice.chosen)} loses {_loss(choice.chosen.l_sse)}, and its kernels take "
        f"{duration(choice.chosen.whole_seconds)} on one core",
        f"the rule: least loss of what takes at most {QUICK_SECONDS / 60:g} min, or {TIMES_QUICKEST:g} times the "
        f"quickest; losses nearer than {DEVIATIONS:g} standard errors are equal, and the cheaper is taken",
        *_why(choice),
        *instead,
        *_other_k(comparison, choice),
        *_refused(comparison),
        *left_out_lines(comparison),
    ]


def named(one: Expected) -> str:
    return f"{one.algorithm}, refine {_word(one.refine)}"


def left_out_lines(comparison: ReleaseComparison) -> list[str]:
    """Say what was not tried, and why; once for all settings with the same reason."""
    return [f"left out: {line}" for line in _by_reason(comparison.left_out)]


def _by_reason(cells: Iterable[tuple[Setting, str]]) -> Iterator[str]:
    """Join what is said of an algorithm: for all its k, and for all its refinements that are left out for the same."""
    of_refinement: dict[tuple[str, str, str], list[int]] = {}
    for cell, reason in cells:
        of_refinement.setdefault((cell.algorithm, reason, _word(cell.refine)), []).append(cell.k)
    together: dict[tuple[str, str, str], list[str]] = {}
    for (algorithm, reason, refine), ks in of_refinement.items():
        together.setdefault((algorithm, reason, ", ".join(map(str, ks))), []).append(refine)
    for (algorithm, reason, ks_words), refinements in together.items():
        yield f"{algorithm}, refine {', '.join(refinements)}, at k={ks_words}: {reason}"


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


def _other_k(comparison: ReleaseComparison, choice: Choice) -> Iterator[str]:
    now, worst = choice.chosen, worst_column(comparison)
    for k in comparison.ks():
        other = comparison.choice(k)
        if k == now.k or other is None:
            continue
        one = other.chosen
        words = f"k={k} ({named(one)}) would lose {_loss(one.l_sse)} instead of {_loss(now.l_sse)}, and leave "
        yield words + _right_and_certain(one, now, worst)


def _refused(comparison: ReleaseComparison) -> list[str]:
    """Say what the gate would stop, and why."""
    cells = [(setting_of(one), words) for one in comparison.expected for words in one.broken]
    return [f"would be refused: {line}" for line in _by_reason(cells)]


def _right_and_certain(instead: Expected, now: Expected, worst: str | None) -> str:
    """Compare the right records, and the certain values of the worst column, of one setting with those of another."""
    words = f"{percent_in_words(instead.expected_correct)} right records instead of "
    words += percent_in_words(now.expected_correct)
    if worst is not None:
        certain = [percent_in_words(of.certain[worst].records_certain) for of in (instead, now)]
        words += f", {certain[0]} certain values instead of {certain[1]}"
    return words


@dataclass(frozen=True)
class Expectation:
    """Figures that a planned release is expected to have, for the k asked and its neighbours."""

    k: int
    #: Of the plan for the k asked.
    blocks: int
    expected: tuple[Expected, ...]
    #: Why other k, or all, are not looked at.
    left_out: tuple[str, ...]
    disclosures: tuple[Disclosure, ...]
    is_protected: bool

    @property
    def asked(self) -> Expected | None:
        return next((one for one in self.expected if one.k == self.k), None)

    @property
    def is_left_out(self) -> bool:
        """Tell whether one reason says why there is nothing."""
        return not self.expected and len(self.left_out) == 1

    def document(self) -> dict[str, Any]:
        return {"private": "risk, for the operator alone", **to_plain(self), "in_words": self.in_words()}

    def in_words(self) -> list[str]:
        return [self.headline(), *self.sentences()]

    def headline(self) -> str:
        """Say from what the figures are."""
        one = self.asked
        if one is None:
            return self.left_out[0] if self.is_left_out else "nothing can be expected before the release is made"
        if one.is_whole:
            return f"expected from all {one.drawn_records:,} records; for you alone"
        return (
            f"expected from {one.drawn_records:,} records in {one.drawn_blocks:,} blocks or pieces of blocks, "
            f"of {self.blocks:,} blocks; for you alone"
        )

    def sentences(self) -> list[str]:
        """Say what the table means, its columns first."""
        return [*self._of_asked(), *self._of_weights(), *self._of_larger(), *self._limits()]

    def table(self) -> Rows:
        """Tabulate what is expected of each k, the header first."""
        rows = [
            (
                f"{one.k}{' asked' if one.k == self.k else ''}",
                f"{one.withheld:,}",
                _with_error(one),
                percent_in_words(one.own_nearest),
                percent_in_words(one.expected_correct),
                NONE if self.worst is None else percent_in_words(one.certain[self.worst].records_certain),
                duration(one.whole_seconds),
            )
            for one in self.expected
        ]
        return [("k", "withheld", "loss", "right group", "right record", "value certain", "CPU"), *rows]

    @property
    def worst(self) -> str | None:
        """Find the confidential column of which most records are certain, beyond chance, for the k asked."""
        return _worst_of([] if self.asked is None else [self.asked])

    def _of_asked(self) -> Iterator[str]:
        one = self.asked
        if one is None:
            return
        yield "right group and right record: who knows all quasi-identifiers exactly"
        if self.worst is not None:
            chance = percent_in_words(one.certain[self.worst].by_chance)
            yield f"value certain: that of {self.worst!r}, the worst column (by chance {chance} for k={self.k})"
        yield "CPU: of the kernels on one core, by the cost model at the pace of what was grouped here"
        alone = percent_in_words(one.unique_before)
        yield f"{alone} of records stand alone with their blocking values and quasi-identifiers before masking"
        yield from one.remarks

    def _of_weights(self) -> Iterator[str]:
        cost = None if self.asked is None else self.asked.weights
        if cost is not None:
            yield (
                "weights: at most half of a group's weight in one record; of the weighted variance "
                f"{cost.l_sse:.3g} % is lost, for {cost.l_sse_without:.3g} % without the rule, which "
                f"{percent_in_words(cost.broken_without)} of groups would break"
            )

    def _of_larger(self) -> Iterator[str]:
        now, more = self.asked, next((one for one in self.expected if one.k > self.k), None)
        if now is None or more is None:
            return
        words = f"k={more.k} would lose {more.l_sse:.3g} % instead of {now.l_sse:.3g} %, and leave "
        yield words + _right_and_certain(more, now, self.worst)

    def _limits(self) -> Iterator[str]:
        if self.is_protected:
            yield "all as protect: demands it of groups"
        for one in self.expected:
            yield from (f"k={one.k} would be refused: {words}" for words in one.broken)
        if self.asked is not None and not self.asked.is_whole:
            yield "of some blocks: the release will differ; links are at most these, as only neighbours in them count"
        if not self.is_left_out:
            yield from (f"left out: {reason}" for reason in self.left_out)


def _with_error(one: Expected) -> str:
    error = "" if one.l_sse_error is None else f" ± {one.l_sse_error:.2g}"
    return f"{one.l_sse:.3g}{error} %"


def comparison_page(comparison: ReleaseComparison, name: str) -> str:
    """Write a page that needs nothing but itself; ``name`` is that of the series of releases."""
    title = f"What a release of {name} would lose and give away"
    choice = comparison.choice(comparison.asked.k)
    lines = "\n".join(yaml_lines(choice.chosen)) if choice else ""
    parts = [
        "<!DOCTYPE html>",
        f'<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<style>{_STYLE}</style></head><body><main>",
        f"<h1>{escape(title)}</h1>",
        "<p><strong>Private: risk figures are for the operator alone.</strong></p>",
        f"<p>From {escape(headline_of(comparison))}.</p>",
        f"<h2>For k={comparison.asked.k}, as the spec asks</h2>",
        f"<pre>{escape(lines)}</pre>" if lines else "",
        _list(advice_lines(comparison)),
        "<h2>Risk against loss</h2>",
        f'<figure role="img" aria-label="{_PICTURE}">{risk_svg(comparison)}</figure>',
        "<h2>All figures</h2>",
        _list(list(table_notes(comparison))),
        *(_tables(comparison, k) for k in comparison.ks()),
        "</main></body></html>",
    ]
    return "\n".join(part for part in parts if part) + "\n"


def _tables(comparison: ReleaseComparison, k: int) -> str:
    lost = _table(f"k={k}: what is lost, and what it takes", loss_table(comparison, k))
    return lost + _table(f"k={k}: what is given away", risk_table(comparison, k))


def _list(lines: list[str]) -> str:
    return "<ul>" + "".join(f"<li>{escape(line)}</li>" for line in lines) + "</ul>"


def _table(caption: str, rows: Rows) -> str:
    header, *others = rows
    head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in header)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in others)
    table = f"<table><caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f'<div class="wide">{table}</div>'
