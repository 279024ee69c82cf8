"""A mergeable draw of records: those whose words are least, whichever parts they lie in.

A word is a hash of what the record holds, so the same records are drawn however the input is cut into batches and
whoever reads them. Where the word begins with a hash of the record's blocking key, the draw has whole keys.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from microagg_core.arrays import Ints, UInt64s

WORD = "word"


@dataclass(frozen=True)
class Draw:
    """Some records: ``table`` has their ``word`` beside what is looked at.

    All records whose word is less than ``limit`` are in it; None: all records are.
    """

    table: pd.DataFrame
    limit: int | None

    @property
    def complete(self) -> bool:
        """Whether all records are in it."""
        return self.limit is None


def drawn_rows(words: UInt64s, size: int, limit: int | None) -> tuple[Ints, int | None]:
    """Which rows of a batch may be drawn, and the limit that they come with.

    Args:
        words: of the batch's records.
        size: records that the draw has at most.
        limit: of what was drawn before.

    >>> rows, limit = drawn_rows(np.array([5, 1, 9, 3], dtype=np.uint64), 2, None)
    >>> sorted(rows.tolist()), limit
    ([1, 3], 3)
    """
    rows = np.arange(len(words)) if limit is None else np.flatnonzero(words <= np.uint64(limit))
    if len(rows) > size:
        rows = rows[np.argpartition(words[rows], size - 1)[:size]]
        limit = int(words[rows].max())
    return rows, limit


def merge_draws(draws: list[Draw], size: int) -> Draw:
    """The draw of all batches together: at most ``size`` records, of least words.

    >>> some = [Draw(pd.DataFrame({"word": np.array(words, dtype=np.uint64)}), limit)
    ...         for words, limit in (([4, 8], None), ([1, 6], 6))]
    >>> merged = merge_draws(some, 2)
    >>> merged.table["word"].tolist(), merged.limit
    ([1, 4], 4)
    """
    table = pd.concat([draw.table for draw in draws], ignore_index=True)
    limit = min((draw.limit for draw in draws if draw.limit is not None), default=None)
    if limit is not None:
        table = table[table[WORD] <= np.uint64(limit)]
    table = table.sort_values(WORD, kind="stable", ignore_index=True)
    if len(table) > size:
        table = table.iloc[:size]
        limit = int(table[WORD].iloc[-1])
    return Draw(table, limit)
