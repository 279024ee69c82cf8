"""What confidential columns would disclose of a release's people: each with its figure, its columns and a sentence.

What is strong is refused until the spec acknowledges it by the name of every column in it; what is weaker is told.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

What = Literal[
    "nearly_unique", "jointly_unique", "ties_few_records", "free_text", "fixes_quasi_identifier", "completes_mean"
]


@dataclass(frozen=True)
class Disclosure:
    """A disclosure by confidential columns. ``what`` is the field that acknowledges it."""

    what: What
    columns: tuple[str, ...]
    #: Of records, or of variance.
    share: float
    #: Refused, or only told.
    is_refused: bool
    #: Which quasi-identifiers it is about: each of them, or a combination of them.
    quasi_identifiers: tuple[str, ...] = ()
    is_combination: bool = False
    #: The order of values within blocks is disclosed, and not the values themselves.
    is_rank: bool = False
    #: The share of records for which a column that has nothing to do with them would do as much.
    by_chance: float = 0.0
    #: Whether one record of each unit was looked at, where units have several.
    of_units: bool = False

    def is_acknowledged(self, names: Iterable[str]) -> bool:
        """Ask for all of its columns: one more column is another thing."""
        return set(self.columns) <= set(names)

    def sentence(self) -> str:
        """Say what is disclosed, without advice."""
        words = f"{_columns(self.columns)} {_SENTENCES[self.what](self)}"
        return words.replace(" records", " units") if self.of_units else words

    def refusal(self) -> str:
        """Say what is disclosed, and what to do."""
        listed = self.columns[0] if len(self.columns) == 1 else ", ".join(self.columns)
        return f"{self.sentence()}; {_CURES[self.what]}, or list {listed} under acknowledge.{self.what}"


def in_percent(share: float) -> str:
    """Write a share in whole percents; all but a few are not called all.

    >>> in_percent(0.724), in_percent(0.9996), in_percent(1.0)
    ('72 %', 'more than 99 %', '100 %')
    """
    return "more than 99 %" if 0.995 <= share < 1.0 - 1e-9 else f"{round(100 * share)} %"


def _columns(names: tuple[str, ...]) -> str:
    if len(names) == 1:
        return f"confidential column {names[0]!r}"
    return f"confidential columns {', '.join(map(repr, names[:-1]))} and {names[-1]!r} together"


def _nearly_unique(case: Disclosure) -> str:
    return (
        f"is nearly unique: {in_percent(case.share)} of the records that have a value in it have one of their own, so "
        "who knows a value finds the record"
    )


def _jointly_unique(case: Disclosure) -> str:
    return (
        f"are nearly unique: {in_percent(case.share)} of the records have a combination of their own, by which two "
        "releases can be matched row by row, and who knows the values finds the record"
    )


def _ties(case: Disclosure) -> str:
    ties = "ties" if len(case.columns) == 1 else "tie"
    return (
        f"{ties} few records together: {in_percent(case.share)} of the records share what they have there with a few "
        "others and nobody else, as the members of a household share its income, so they can be put together again"
    )


def _free_text(case: Disclosure) -> str:
    return (
        "is long free text, in which people may be named: "
        f"{in_percent(case.share)} of its texts, which are long, differ from each other"
    )


def _fixes(case: Disclosure) -> str:
    single, many = len(case.columns) == 1, len(case.quasi_identifiers) > 1
    names = ", ".join(map(repr, case.quasi_identifiers))
    of = f"the quasi-identifier{'s' if many else ''} {names}"
    of = f"a combination of {of}" if case.is_combination else of
    verb = ("fixes" if single else "fix") if case.is_refused else ("tells" if single else "tell") + " much of"
    each = many and not case.is_combination
    explained = f"{'it explains' if single else 'they explain'} {'up to ' if each else ''}{in_percent(case.share)} of"
    if case.is_rank:
        return f"{verb} the order of {of} within blocks: {explained} {'their' if each else 'its'} ranks there"
    so = ", so nearly exact values would be released after all" if case.is_refused else ""
    return f"{verb} {of}: {explained} how {'they vary' if each else 'it varies'}{so}"


def _completes(case: Disclosure) -> str:
    many = len(case.quasi_identifiers) > 1
    names = ", ".join(map(repr, case.quasi_identifiers))
    return (
        f"completes what is released of the quasi-identifier{'s' if many else ''} {names}, as its last digits would: "
        f"who knows both picks nearly the exact value for {'up to ' if many else ''}{in_percent(case.share)} of the "
        f"records whose released value is off ({in_percent(case.by_chance)} by chance)"
    )


_SENTENCES = {
    "nearly_unique": _nearly_unique,
    "jointly_unique": _jointly_unique,
    "ties_few_records": _ties,
    "free_text": _free_text,
    "fixes_quasi_identifier": _fixes,
    "completes_mean": _completes,
}
_CURES = {
    "nearly_unique": "give it another role, coarsen it",
    "jointly_unique": "give some of them another role, coarsen them",
    "ties_few_records": "give another role to what the members share, coarsen it",
    "free_text": "give it the role drop, replace it by a few codes",
    "fixes_quasi_identifier": "give another role to what explains it, coarsen it",
    "completes_mean": "give it another role, coarsen it",
}
