"""Disclosure risk in words and tables: for the operator's terminal, and for nobody else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from microagg_core.pages.words import NONE, percent_in_words

#: Rows of a table, its header first.
Rows: TypeAlias = list[tuple[str, ...]]
#: Sentences at the end of a run; the command ``risk`` shows all figures.
FIVE = 5
#: The interval that a sentence is about, in deviations.
_NEAR = "0.05"


@dataclass(frozen=True)
class Finding:
    """A sentence on a risk, and by how much it is above chance; of each measure the worst one is ``leading``."""

    excess: float
    words: str
    leading: bool = True


def risk_sentences(figures: Mapping[str, Any], most: int | None = None) -> list[str]:
    """What figures of risk say, the worst first; where only some are wanted, the worst of each measure are among them.

    >>> certain = {"records_certain": 0.316, "by_chance": 0.042}
    >>> risk_sentences({"inference": {"diagnosis": certain}})
    ["for 31.6 % of records the value of 'diagnosis' can be inferred with certainty (by chance 4.2 %)"]
    """
    findings = [*_units(figures), *_inferred(figures), *_linked(figures), *_near(figures), *_alone(figures)]
    chosen = sorted(findings, key=lambda one: (not one.leading, -one.excess))[:most]
    return [one.words for one in sorted(chosen, key=lambda one: -one.excess)]


def headline(figures: Mapping[str, Any]) -> str:
    """Of what, and of how many records, the figures are.

    >>> headline({"records": 10**6, "linkage": {"asked": 10**4}})
    'risk of 1,000,000 records, 10,000 of them asked; for you alone'
    """
    asked, records = (figures.get("linkage") or {}).get("asked", 0), figures["records"]
    whose = "them" if (arrivals := figures.get("arrivals")) is None else f"the {arrivals:,} arrivals"
    some = "" if asked == records else f", {f'{asked:,}' if asked else 'none'} of {whose} asked"
    return f"risk of {records:,} records{some}; for you alone"


def is_complete(figures: Mapping[str, Any]) -> bool:
    return bool((figures.get("linkage") or {}).get("asked", 0) == figures.get("arrivals", figures.get("records")))


def asked_records(figures: Mapping[str, Any]) -> str:
    """Name those of whom linkage, intervals and uniqueness before masking are measured.

    >>> asked_records({"records": 9}), asked_records({"records": 9, "arrivals": 5})
    ('records', 'arrivals')
    """
    return "records" if figures.get("arrivals") is None else "arrivals"


def share_of(part: float | None, records: str = "records") -> str:
    """A share of records in words.

    >>> share_of(0.5), share_of(0.0), share_of(0.0, "arrivals")
    ('50 % of records', 'no record', 'no arrival')
    """
    return f"no {records[:-1]}" if part == 0 else f"{percent_in_words(part)} of {records}"


def unit_words(figures: Mapping[str, Any]) -> str:
    """Say how often a unit of several records is found; nothing where units have one, or none is asked."""
    units = figures.get("units") or {}
    if not units.get("asked"):
        return ""
    return (
        f"who knows all records of a unit picks the right unit for {percent_in_words(units['by_all_rows'])} of units "
        f"(by chance {percent_in_words(units['by_chance'])})"
    )


def _units(figures: Mapping[str, Any]) -> Iterator[Finding]:
    units, words = figures.get("units") or {}, unit_words(figures)
    if words:
        one, largest = percent_in_words(units["by_one_row"]), percent_in_words(units["largest_chance"])
        words += f", and who knows one record for {one}; none with a chance above {largest}"
        yield Finding(_above(units["by_all_rows"], units["by_chance"]), words)


def _inferred(figures: Mapping[str, Any]) -> Iterator[Finding]:
    columns = figures.get("inference") or {}
    units = figures.get("units") or {}
    who = " by who knows all records of the unit" if units else ""
    shares = {
        name: max(one["records_certain"] or 0, units.get("certain", {}).get(name, 0)) for name, one in columns.items()
    }
    excess = {name: _above(shares[name], one["by_chance"]) for name, one in columns.items()}
    worst = max(excess, key=lambda name: excess[name], default=None)
    for name, one in columns.items():
        words = f"for {share_of(one['records_certain'])} the value of {name!r} can be inferred with certainty{who}"
        if one["records_certain"] or one["by_chance"]:
            words += f" (by chance {percent_in_words(one['by_chance'])})"
        if units:
            words += f", and some value for {percent_in_words(units['certain'][name])} of units"
        yield Finding(excess[name], words, name == worst)


def _linked(figures: Mapping[str, Any]) -> Iterator[Finding]:
    linkage = figures.get("linkage") or {}
    if not linkage.get("asked"):
        return
    first, *others = linkage["intruders"]
    chance, n = linkage["by_chance"], len(first["knows"])
    yield Finding(
        _above(first["expected_correct"], chance),
        f"who knows {_what(first, n)} picks the right record for {percent_in_words(first['expected_correct'])} of "
        f"{asked_records(figures)} (by chance {percent_in_words(chance)}), "
        f"and the right group for {percent_in_words(first['own_nearest'])}",
    )
    if not others:  # of a single column of categories nobody can know less
        return
    worst = max(others, key=lambda one: one["expected_correct"])
    yield Finding(
        _above(worst["expected_correct"], chance),
        f"who knows {_what(worst, n)} still picks the right record for {percent_in_words(worst['expected_correct'])} "
        f"and the right group for {percent_in_words(worst['own_nearest'])}",
    )


def _what(intruder: Mapping[str, Any], n: int) -> str:
    """What somebody knows of n quasi-identifiers.

    >>> _what({"knows": ["age"], "noise": 0.0}, 3), _what({"knows": ["a", "b", "c"], "noise": 0.1}, 3)
    ("'age' exactly", 'all quasi-identifiers to within 0.1 deviations')
    >>> _what({"knows": ["a", "b", "c"], "noise": 0.0}, 5)
    "3 quasi-identifiers ('a' to 'c') exactly"
    """
    names, off = intruder["knows"], intruder["noise"]
    which = f"{len(names)} quasi-identifiers ({names[0]!r} to {names[-1]!r})"
    if len(names) < 3:
        which = " and ".join(map(repr, names))
    elif len(names) == n:
        which = "all quasi-identifiers"
    return f"{which} to within {off:g} deviations" if off else f"{which} exactly"


def _near(figures: Mapping[str, Any]) -> Iterator[Finding]:
    near = ((figures.get("intervals") or {}).get("deviation") or {}).get(_NEAR)
    columns = {name: of for name, of in (near or {"columns": {}})["columns"].items() if of is not None}
    if near is None or (near["columns"] and not columns):
        return
    worst = max(columns, key=lambda name: columns[name], default=None)
    each = f" ({worst!r} of {percent_in_words(columns[worst])})" if worst is not None and len(columns) > 1 else ""
    every = "every quasi-identifier" if len(columns) > 1 else "the quasi-identifier"
    if len(columns) < len(near["columns"]):  # categories without an order lie nowhere
        every = "every quasi-identifier that has an order" if len(columns) > 1 else repr(worst)
    whose = share_of(near["all"], asked_records(figures))
    lie = f"{every} of {whose} lies" if near["all"] else f"{whose} has {every}"
    yield Finding(near["all"] or 0.0, f"{lie} within {_NEAR} deviations of what is released{each}")


def _alone(figures: Mapping[str, Any]) -> Iterator[Finding]:
    alone = figures.get("uniqueness") or {}
    if alone.get("before") is None:
        return
    now = "none does now" if not alone["after"] else f"{percent_in_words(alone['after'])} do now"
    before = share_of(alone["before"], asked_records(figures))
    words = f"{before} stood alone with their quasi-identifiers before; {now}"
    yield Finding(alone["after"] or 0.0, words)


def _above(figure: float | None, chance: float | None) -> float:
    return (figure or 0.0) - (chance or 0.0)


def intruder_table(figures: Mapping[str, Any]) -> Rows:
    """List how often the right group and the right record are found, by what somebody knows; the header first."""
    intruders = (figures.get("linkage") or {}).get("intruders", ())
    rows = [
        (_what(one, len(intruders[0]["knows"])), *_percents(one, "own_nearest", "expected_correct"))
        for one in intruders
    ]
    return [("who knows", "right group", "right record"), *rows]


def unit_table(figures: Mapping[str, Any]) -> Rows:
    """List how often the right unit is found, and a value of it follows, where units have several records."""
    units = figures.get("units") or {}
    rows = []
    if units.get("asked"):
        known = ("by_one_row", "by_all_rows", "by_chance", "largest_chance")
        names = ("by one record", "by all records", "by chance", "greatest chance")
        rows = [(name, percent_in_words(units[figure])) for name, figure in zip(names, known, strict=True)]
    rows += [(f"a value of {name!r} follows", percent_in_words(of)) for name, of in units.get("certain", {}).items()]
    return [("unit is found", "units"), *rows]


def column_table(figures: Mapping[str, Any]) -> Rows:
    """List what is inferred of each confidential column: shares of records, and the largest distance of a group."""
    rows = [
        (
            name,
            *_percents(one, "records_certain", "by_chance", "commonest_value"),
            percent_in_words(one["fewer_than"]["3"]["records"]),
            NONE if one["largest_distance"] is None else f"{one['largest_distance']:.3g}",
        )
        for name, one in (figures.get("inference") or {}).items()
    ]
    return [("confidential column", "certain", "by chance", "commonest value", "fewer than 3", "distance"), *rows]


def near_table(figures: Mapping[str, Any]) -> Rows:
    """List how near to what is released each quasi-identifier lies, and all of them."""
    deviation = (figures.get("intervals") or {}).get("deviation") or {}
    intervals = deviation.values()
    names = next(iter(intervals))["columns"] if deviation else ()
    rows = [(name, *(percent_in_words(of["columns"][name]) for of in intervals)) for name in names]
    if deviation:
        rows.append(("all of them", *(percent_in_words(of["all"]) for of in intervals)))
    return [("within so many deviations", *deviation), *rows]


def _percents(figures: Mapping[str, Any], *names: str) -> Iterator[str]:
    return (percent_in_words(figures[name]) for name in names)
