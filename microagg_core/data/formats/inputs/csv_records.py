"""Where the records of a CSV file begin, told from a piece of its bytes.

A line end within quotes ends no record, and whether a byte stands within quotes is a matter of all quotes before it.
Arrow's reader, which says what a file holds, opens quotes at the start of a field alone, takes two of them within
quotes for one, and anywhere else for text. So of a run of quotes only the parity counts, and what stands before it: an
odd run at the start of a field opens or closes, and an odd run anywhere else leaves a place that is not within quotes,
whatever was before. Most files with quotes settle within a few bytes where they are, and nobody has to read all of it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from microagg_core.arrays import Bools, Bytes, Ints

_QUOTE, _LINE_FEED, _RETURN = b'"\n\r'


@dataclass(frozen=True)
class Quoting:
    """What some lines do to being within quotes.

    >>> lines = quoting(b'1,"two\\n', ord(","))
    >>> lines.after(False), lines.after(True), quoting(b'1,"two"\\n', ord(",")).after(True)
    (True, False, False)
    """

    #: Whether it does not matter what was before.
    settles: bool = False
    #: Whether the end is within quotes where the start is not; if it settles, in any case.
    turns: bool = False

    def after(self, within: bool) -> bool:
        """Whether their end is within quotes, if their start is."""
        return self.turns != (within and not self.settles)

    def then(self, later: Quoting) -> Quoting:
        """What these lines and the later ones do."""
        return later if later.settles else Quoting(self.settles, self.turns != later.turns)


def quoting(lines: bytes, delimiter: int) -> Quoting:
    """What whole lines do to being within quotes; the first begins behind a line end, be it within quotes."""
    if b'"' not in lines:  # an order of magnitude faster than to look where they are
        return Quoting()
    _, opens = _odd_runs(np.frombuffer(lines, np.uint8), delimiter)
    settled = np.flatnonzero(~opens)
    since = settled[-1] + 1 if len(settled) else 0
    return Quoting(len(settled) > 0, (len(opens) - int(since)) % 2 == 1)


def record_starts(lines: bytes, delimiter: int, within: bool) -> Ints:
    """Where records begin in whole lines, of which the first begins behind a line end; blank lines are none.

    >>> record_starts(b'1,"two\\r\\nlines"\\r\\n\\n2,x\\n', ord(","), within=False)
    array([ 0, 17])
    """
    data = np.frombuffer(lines, np.uint8)
    if not len(data):
        return np.empty(0, dtype=np.int64)
    is_end = (data == _LINE_FEED) | (data == _RETURN)
    behind = np.concatenate(([0], np.flatnonzero(is_end[:-1]) + 1))
    lines_with_text: Ints = behind[~is_end[behind]]
    runs, opens = _odd_runs(data, delimiter)
    return lines_with_text[~_within_after(opens, within)[np.searchsorted(runs, lines_with_text)]]


def count_line_ends(lines: bytes) -> int:
    """Line ends, within quotes and outside.

    >>> count_line_ends(b"a\\rb\\r\\nc\\n")
    3
    """
    return lines.count(b"\n") + lines.count(b"\r") - lines.count(b"\r\n")


def _odd_runs(data: Bytes, delimiter: int) -> tuple[Ints, Bools]:
    """Where runs of an odd number of quotes begin, and which of them at the start of a field."""
    quotes = np.flatnonzero(data == _QUOTE)
    firsts = np.flatnonzero(np.diff(quotes, prepend=-2) > 1)
    odd = np.diff(firsts, append=len(quotes)) % 2 == 1
    runs = quotes[firsts[odd]]
    return runs, (runs == 0) | np.isin(data[np.maximum(runs - 1, 0)], (_LINE_FEED, _RETURN, delimiter))


def _within_after(opens: Bools, within: bool) -> Bools:
    """Whether the text before the first of some odd runs, and behind each, is within quotes."""
    number = np.arange(1, len(opens) + 1)
    settled = np.maximum.accumulate(np.where(opens, 0, number))
    turned = (number - settled + (within & (settled == 0))) % 2 == 1
    return np.concatenate(([within], turned))
