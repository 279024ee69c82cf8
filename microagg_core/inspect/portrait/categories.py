"""Tables of categories, before and after: counts of all released records, which the survey and the gate have made."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from microagg_core.arrays import Ints
from microagg_core.data.kinds.contract import Kind
from microagg_core.group.metrics.moments import Moments
from microagg_core.inspect.portrait.contract import CategoryTable

#: Categories that are named; more are a list that nobody reads, and so are names of more characters.
MOST_NAMED, _LONGEST = 30, 200


def category_counts(kind: Kind, came: Moments, after: Moments) -> tuple[list[str], Ints, Ints]:
    """Name all categories, and count the records that had each and that are released with each."""
    n = max(len(came.counts), len(after.counts))
    before, released = (np.array([*of.counts, *[0] * (n - len(of.counts))], dtype=np.int64) for of in (came, after))
    return [str(kind.shown(code)) for code in range(n)], before, released


def named(kind: Kind, names: Sequence[str], counts: Ints) -> list[int]:
    """Choose the most frequent categories by their counts; in their order where they have one."""
    short = [code for code in np.flatnonzero(counts).tolist() if len(names[code]) <= _LONGEST]
    chosen = sorted(short, key=lambda code: (-counts[code], code))[:MOST_NAMED]
    return sorted(chosen) if kind.is_ranked else chosen


def category_tables(
    kinds: Sequence[Kind], moments: Sequence[tuple[Moments, Moments]], fewest: int
) -> Iterator[CategoryTable]:
    """Make a table of each quasi-identifier that has categories; those that fewer than ``fewest`` had are together.

    >>> import pyarrow as pa
    >>> from microagg_core.data.kinds.nominal import NominalKind
    >>> from microagg_core.group.metrics.moments import of_counts
    >>> job = NominalKind("job", pa.string(), categories=("a", "b", "c", "d"), counts=(60, 30, 8, 1))
    >>> (table,) = category_tables([job], [(of_counts([60, 30, 8, 1]), of_counts([70, 29, 0, 0]))], 10)
    >>> table.categories, table.before, table.others, table.others_before, table.others_after
    (('a',), (60,), 3, 39, 29)
    """
    for kind, (came, after) in zip(kinds, moments, strict=True):
        if not (came.counts and came.n):
            continue
        names, before, released = category_counts(kind, came, after)
        common = np.where(before >= fewest, before, 0)
        # Others of too few records are told together with the rarest that would be named.
        while 0 < before.sum() - common.sum() < fewest and common.any():
            common[common == common[common > 0].min()] = 0
        if kind.tree is not None:  # nobody had a parent
            common[kind.tree.n_values :] = released[kind.tree.n_values :]
        chosen = named(kind, names, common)
        shares = before / came.n
        yield CategoryTable(
            column=kind.name,
            categories=tuple(names[code] for code in chosen),
            before=tuple(before[chosen].tolist()),
            after=tuple(released[chosen].tolist()),
            others=int(np.sum((before > 0) | (released > 0))) - len(chosen),
            others_before=int(before.sum() - before[chosen].sum()),
            others_after=int(released.sum() - released[chosen].sum()),
            variation=float(1.0 - shares @ shares) / 2,
        )
