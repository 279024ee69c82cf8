"""Analyses that the spec names, such as ``income ~ age + education``: an outcome, and the columns that explain it.

They are made of the records as they came and as they are released, for the operator to see whether his own questions
are still answered. They decide nothing of the release.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
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
_NAME = r"(?:\s*`[^`]+`\s*|[^`~+]+)"
_FORM = "must be an outcome and the columns that explain it, such as income ~ age + education"


def formula_columns(text: str) -> tuple[str, ...]:
    """Read a formula: the column that is explained, and those that explain it.

    A name that holds one of ``~ +`` or outer space stands between backticks. ValueError says what is wrong.

    >>> formula_columns("income ~ age + `years + months`")
    ('income', 'age', 'years + months')
    """
    names = [name.strip() for name in re.findall(_NAME, text)]
    if not re.fullmatch(rf"{_NAME}~{_NAME}(\+{_NAME})*", text) or not all(names):
        raise ValueError(_FORM)
    outcome, *terms = (name.strip("`") for name in names)
    if outcome in terms:
        raise ValueError(f"has {outcome!r} on both sides")
    if twice := [name for name in terms if terms.count(name) > 1]:
        raise ValueError(f"names {twice[0]!r} twice")
    if len(terms) > MOST_TERMS:
        raise ValueError(f"must have at most {MOST_TERMS} terms, and has {len(terms)}")
    return (outcome, *terms)


def _formula(text: str) -> str:
    formula_columns(text)
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
        for position, name in enumerate(formula_columns(text)):
            if why := _unfit(name, role, _TERMS if position else _OUTCOMES):
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
