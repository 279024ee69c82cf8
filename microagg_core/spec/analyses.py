"""Analyses that the spec names, such as ``income ~ age + education``: an outcome, and the columns that explain it.

They are made of the records as they came and as they are released, for the operator to see whether his own questions
are still answered. They decide nothing of the release.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias

from pydantic import AfterValidator, Field

from microagg_core.model import ColumnName, Problem

#: Terms of a formula at most: a table that somebody reads.
MOST_TERMS = 20
#: Formulas at most: each takes the gate's workers another look at the records.
MOST_ANALYSES = 20
#: What may explain; and what may be explained, if it is a number.
_TERMS, _OUTCOMES = ("quasi_identifiers", "confidential", "blocking"), ("quasi_identifiers", "confidential")
#: A name between the signs of a formula, or any name between backticks.
_NAME = re.compile(r"\s*(?:`([^`]+)`|([^`~+]+?))\s*")
_FORM = "must be an outcome and the columns that explain it, such as income ~ age + education"


@dataclass(frozen=True)
class Formula:
    """A linear model: the column that is explained, and those that explain it."""

    outcome: str
    terms: tuple[str, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.outcome, *self.terms)

    @classmethod
    def parse(cls, text: str) -> Formula:
        """Read a formula; a name that holds one of ``~ +`` or outer space stands between backticks.

        >>> Formula.parse("income ~ age + `years + months`")
        Formula(outcome='income', terms=('age', 'years + months'))
        """
        names, place = [], 0
        for sign in _signs(text):
            match = _NAME.fullmatch(text, place, sign)
            if match is None:
                raise ValueError(_FORM)
            names.append(match[1] or match[2])
            place = sign + 1
        formula = cls(names[0], tuple(names[1:]))
        formula._check()
        return formula

    def _check(self) -> None:
        if self.outcome in self.terms:
            raise ValueError(f"has {self.outcome!r} on both sides")
        twice = [name for name in self.terms if self.terms.count(name) > 1]
        if twice:
            raise ValueError(f"names {twice[0]!r} twice")
        if len(self.terms) > MOST_TERMS:
            raise ValueError(f"must have at most {MOST_TERMS} terms, and has {len(self.terms)}")


def _signs(text: str) -> list[int]:
    """Find where names end: at ``~``, each ``+`` and the end of the text; none of it within backticks."""
    bare = re.sub(r"`[^`]*`", lambda quoted: "_" * len(quoted[0]), text)
    signs = [i for i, letter in enumerate(bare) if letter in "~+"]
    if not signs or bare.count("~") != 1 or bare[signs[0]] != "~":
        raise ValueError(_FORM)
    return [*signs, len(text)]


def _formula(text: str) -> str:
    Formula.parse(text)
    return text


#: Formulas as they are written.
Analyses: TypeAlias = Annotated[
    tuple[Annotated[ColumnName, AfterValidator(_formula)], ...], Field(max_length=MOST_ANALYSES)
]


def analysis_problems(parts: Mapping[str, Any]) -> Iterator[Problem]:
    """Find columns of formulas that are none of the spec's, or whose role keeps them out."""
    if "roles" not in parts:
        return
    role = parts["roles"].role_of()
    for place, text in enumerate(parts.get("analyses", ())):
        formula = Formula.parse(text)
        for name in formula.columns:
            if why := _unfit(name, role, _OUTCOMES if name == formula.outcome else _TERMS):
                yield ("analyses", place), f"{name!r} {why}"


def _unfit(name: str, role: Mapping[str, str], wanted: tuple[str, ...]) -> str:
    if name not in role:
        near = difflib.get_close_matches(name, role, 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        return f"is no column of roles; columns are joined by +, and nothing else is taken{hint}"
    if role[name] in wanted:
        return ""
    if role[name] == "blocking":
        return "is a blocking column, which may explain, and not be explained; take a number"
    return f"has the role {role[name]}, so that nothing may be shown of it; leave it out"
