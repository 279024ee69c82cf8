"""A schedule in the spec: when its releases are made by themselves, and what becomes of nights that were missed."""

from __future__ import annotations

import re
from typing import Annotated, Literal
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, Field

from microagg_core.model import Model

# The grammar of cron by hand: croniter comes with the extra prefect alone, and takes six fields and more besides.
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
#: The fields of a cron line: what each is, its least and its greatest number, and words for numbers from the least on.
_FIELDS: tuple[tuple[str, int, int, tuple[str, ...]], ...] = (
    ("minute", 0, 59, ()),
    ("hour", 0, 23, ()),
    ("day of the month", 1, 31, ()),
    ("month", 1, 12, _MONTHS),
    ("weekday", 0, 7, _WEEKDAYS),
)
_RANGE = re.compile(r"(?:\*|(\w+)(?:-(\w+))?)(?:/([1-9][0-9]?))?")


def cron_problem(cron: str) -> str:
    """Say what is wrong with a cron line; nothing where it is one.

    >>> cron_problem("30 2 * * mon-fri"), cron_problem("30 24 * * *")
    ('', "its hour must be *, or numbers from 0 to 23 (got '24')")
    """
    fields = cron.split()
    if len(fields) != len(_FIELDS):
        return "must have five fields: minute, hour, day of the month, month, weekday, such as 30 2 * * *"
    for text, (what, least, most, words) in zip(fields, _FIELDS, strict=True):
        if not all(_is_range(part, least, most, words) for part in text.lower().split(",")):
            return f"its {what} must be *, or numbers from {least} to {most} (got {text!r})"
    return ""


def _is_range(text: str, least: int, most: int, words: tuple[str, ...]) -> bool:
    match = _RANGE.fullmatch(text)
    if match is None:
        return False
    numbers = [_number(end, least, words) for end in match.group(1, 2) if end is not None]
    return all(least <= number <= most for number in numbers) and numbers == sorted(numbers)


def _number(text: str, least: int, words: tuple[str, ...]) -> int:
    """The number of a word or of digits; one below all others where it is neither."""
    if text in words:
        return least + words.index(text)
    return int(text) if re.fullmatch(r"[0-9]{1,2}", text) else least - 1


def _a_cron_line(cron: str) -> str:
    if problem := cron_problem(cron):
        raise ValueError(problem)
    return cron


def _a_timezone(timezone: str) -> str:
    try:
        ZoneInfo(timezone)
    except (KeyError, ValueError, OSError):
        raise ValueError("must be the name of a timezone, such as UTC or Europe/Zurich") from None
    return timezone


class Schedule(Model):
    """When the releases of a spec are made by themselves."""

    cron: Annotated[str, AfterValidator(_a_cron_line)] = Field(
        description="minute, hour, day of the month, month, weekday, such as 30 2 * * *"
    )
    timezone: Annotated[str, AfterValidator(_a_timezone)] = Field(
        default="UTC", description="the cron line's timezone, such as Europe/Zurich"
    )
    catch_up: Literal["none", "all"] = Field(
        default="none",
        description="nights that were missed: none of them is made, or all, in order, before the next; all needs id: "
        "date",
    )
