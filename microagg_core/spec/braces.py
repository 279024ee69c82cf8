"""Names in braces in an input's URL, which stand for what is known when a run starts: its release's id and its day."""

from __future__ import annotations

import datetime
import re

_NAMES = ("id", "date")
_IN_BRACES = re.compile(r"\{([^{}]*)\}")


def with_known_names(url: str) -> str:
    """The URL, unless a name in braces is none of those that a run knows.

    >>> with_known_names("s3://registry/{date}/*.parquet")
    's3://registry/{date}/*.parquet'
    """
    unknown = [name for name in _IN_BRACES.findall(url) if name not in _NAMES]
    if unknown:
        raise ValueError(
            "has a name in braces that is neither {id}, the release's id, nor {date}, the day of the run; a file whose "
            "own name has braces is named with ? in their place"
        )
    return url


def without_names(url: str) -> str:
    """The URL, unless it has one of the names, for which this is no place."""
    if any(name in _NAMES for name in _IN_BRACES.findall(url)):
        raise ValueError(
            "must be the same for all releases, each of which has a folder of its own there; leave the braces out"
        )
    return url


def filled_in(url: str, identity: str, day: datetime.date) -> str:
    """The URL with what its names stand for.

    >>> filled_in("s3://registry/{date}/*.parquet", "2026-11-18", datetime.date(2026, 11, 18))
    's3://registry/2026-11-18/*.parquet'
    """
    stands_for = {"id": identity, "date": day.isoformat()}
    return _IN_BRACES.sub(lambda match: stands_for[match[1]], url)
