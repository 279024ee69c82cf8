"""Edits: rules between columns that the spec names, such as ``death <= exit``, counted before masking and after.

Masking keeps rules between two columns only as far as it keeps both: a mean beside a value of its own breaks some.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from microagg_core.model import ColumnName, Model, Problem

#: Rules at most: a table that somebody reads.
MOST_EDITS = 50
#: Digits of a number at most, which are as many as exact arithmetic of columns has.
_MOST_DIGITS = 18
_ROLES = ("quasi_identifiers", "weight", "confidential")
#: A name between the signs of a rule, or any name between backticks.
_NAME = r"\s*`[^`]+`\s*|[^`<>=!]+"
_RULE = re.compile(rf"({_NAME})(<=|>=|==|!=|<|>)({_NAME})")
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)")
_FORM = "must compare two columns, or a column and a number, by <=, <, >=, >, == or !=, such as dodth <= dox"

Sign: TypeAlias = Literal["<=", "<", ">=", ">", "==", "!="]
#: A column, or a number.
Operand: TypeAlias = "str | Decimal"


@dataclass(frozen=True)
class Comparison:
    """A rule as it is read."""

    left: Operand
    sign: Sign
    right: Operand

    @property
    def operands(self) -> tuple[Operand, Operand]:
        return self.left, self.right

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(operand for operand in self.operands if isinstance(operand, str))


def comparison_of(rule: str) -> Comparison:
    """Read a rule; ValueError says what is wrong.

    A name that holds one of ``< > = !``, is a number or has outer space stands between backticks.

    >>> comparison_of("age >= 0").operands, comparison_of("`a<b` != c").columns
    (('age', Decimal('0')), ('a<b', 'c'))
    """
    match = _RULE.fullmatch(rule)
    if match is None or not match[1].strip() or not match[3].strip():
        raise ValueError(_FORM)
    left, right = _operand(match[1].strip()), _operand(match[3].strip())
    if isinstance(left, Decimal) and isinstance(right, Decimal):
        raise ValueError("compares two numbers, and no column")
    if left == right:
        raise ValueError(f"compares {left!r} with itself")
    return Comparison(left, match[2], right)  # type: ignore[arg-type]


def _operand(text: str) -> Operand:
    if not _NUMBER.fullmatch(text):
        return text.strip("`")
    number = Decimal(text)
    if len(number.as_tuple().digits) > _MOST_DIGITS or -int(number.as_tuple().exponent) > _MOST_DIGITS:
        raise ValueError(f"has a number of more than {_MOST_DIGITS} digits")
    return number


def _readable(rule: str) -> str:
    comparison_of(rule)
    return rule


Rule: TypeAlias = Annotated[ColumnName, AfterValidator(_readable)]


class Edit(Model):
    """A rule between columns; written and dumped as its text, where nothing else is said.

    >>> Edit.model_validate("dodth <= dox").model_dump()
    'dodth <= dox'
    """

    rule: Rule = Field(
        description="two released columns, or one and a number, compared by <=, <, >=, >, == or !=; neither blocking"
    )
    stop: bool = Field(
        default=False,
        strict=True,
        description="true: the gate stops a release that breaks the rule more often than the input does",
    )

    @model_validator(mode="before")
    @classmethod
    def _of_rule(cls, value: Any) -> Any:
        return value if isinstance(value, dict | cls) else {"rule": value}

    @model_serializer(mode="wrap")
    def _as_written(self, plain: SerializerFunctionWrapHandler) -> Any:
        return plain(self) if self.stop else self.rule

    @property
    def comparison(self) -> Comparison:
        return comparison_of(self.rule)


Edits: TypeAlias = Annotated[tuple[Edit, ...], Field(max_length=MOST_EDITS)]


def edit_problems(parts: Mapping[str, Any]) -> Iterator[Problem]:
    """Find rules that stand twice, and columns of rules that are none of the spec's, or whose role keeps them out."""
    if "roles" not in parts:
        return
    role, seen = parts["roles"].role_of(), set[Comparison]()
    for place, edit in enumerate(parts.get("edits", ())):
        if edit.comparison in seen:
            yield ("edits", place), "stands there twice; leave one out"
        seen.add(edit.comparison)
        for name in edit.comparison.columns:
            if why := _unfit(name, role):
                yield ("edits", place), f"{name!r} {why}"


def _unfit(name: str, role: Mapping[str, str]) -> str:
    if name not in role:
        near = difflib.get_close_matches(name, role, 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        return f"is no column of roles, and nothing but columns and numbers is compared{hint}"
    if role[name] in _ROLES:
        return ""
    if role[name] == "blocking":
        return "is a blocking column, which is released as a label; compare quasi-identifiers and confidential columns"
    return f"has the role {role[name]}, so that it is not in the release; leave the rule out"
