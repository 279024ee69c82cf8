"""What a release would lose and give away, in words and a table: for the operator's terminal, and for nobody else."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from microagg_core.compare.expecting.figures import Expected
from microagg_core.inspect.disclosures import Disclosure
from microagg_core.pages.words import NONE, duration, percent_in_words
from microagg_core.plain import to_plain

HEADER = ("k", "withheld", "loss", "right group", "right record", "value certain", "CPU")


@dataclass(frozen=True)
class Expectation:
    """What is expected of a planned release for the k asked and its neighbours."""

    k: int
    #: Of the plan for the k asked.
    blocks: int
    expected: tuple[Expected, ...]
    #: Why other k, or all, are not looked at.
    left_out: tuple[str, ...]
    disclosures: tuple[Disclosure, ...]
    is_protected: bool

    @property
    def asked(self) -> Expected | None:
        """The figures of the k asked, if there are any."""
        return next((one for one in self.expected if one.k == self.k), None)

    def document(self) -> dict[str, Any]:
        """For programs of the operator."""
        return {"private": "risk, for the operator alone", **to_plain(self), "in_words": self.in_words()}

    def in_words(self) -> list[str]:
        """What the table is from, and what it says."""
        return [self.headline(), *self.sentences()]

    def headline(self) -> str:
        """From what the figures are."""
        one = self.asked
        if one is None:
            return "nothing can be expected before the release is made"
        if one.is_whole:
            return f"expected from all {one.drawn_records:,} records; for you alone"
        return (
            f"expected from {one.drawn_records:,} records in {one.drawn_blocks:,} blocks or pieces of blocks, "
            f"of {self.blocks:,} blocks; for you alone"
        )

    def sentences(self) -> list[str]:
        """Line by line, the table's columns first."""
        return [*self._of_asked(), *self._of_larger(), *self._limits()]

    def rows(self) -> list[tuple[str, ...]]:
        """A row for each k."""
        return [
            (
                f"{one.k}{' asked' if one.k == self.k else ''}",
                f"{one.withheld:,}",
                _with_error(one),
                percent_in_words(one.own_nearest),
                percent_in_words(one.expected_correct),
                NONE if self.worst is None else percent_in_words(one.certain[self.worst].records_certain),
                duration(one.whole_seconds),
            )
            for one in self.expected
        ]

    @property
    def worst(self) -> str | None:
        """Of which confidential column most records are certain, beyond those that are by chance, for the k asked."""
        certain = {} if self.asked is None else self.asked.certain
        excess = {name: of.records_certain - (of.by_chance or 0.0) for name, of in certain.items()}
        return max(excess, key=lambda name: excess[name], default=None)

    def _of_asked(self) -> Iterator[str]:
        one = self.asked
        if one is None:
            return
        yield "right group and right record: who knows all quasi-identifiers exactly"
        if self.worst is not None:
            chance = percent_in_words(one.certain[self.worst].by_chance)
            yield f"value certain: that of {self.worst!r}, the worst column (by chance {chance} for k={self.k})"
        yield "CPU: of the kernels on one core, by the cost model at the pace of what was grouped here"
        alone = percent_in_words(one.unique_before)
        yield f"{alone} of records stand alone with their blocking values and quasi-identifiers before masking"

    def _of_larger(self) -> Iterator[str]:
        now, more = self.asked, next((one for one in self.expected if one.k > self.k), None)
        if now is None or more is None:
            return
        words = f"k={more.k} would lose {more.l_sse:.3g} % instead of {now.l_sse:.3g} %, and leave "
        words += f"{percent_in_words(more.expected_correct)} right records instead of "
        words += percent_in_words(now.expected_correct)
        if self.worst is not None:
            certain = [percent_in_words(one.certain[self.worst].records_certain) for one in (more, now)]
            words += f", {certain[0]} certain values instead of {certain[1]}"
        yield words

    def _limits(self) -> Iterator[str]:
        if self.is_protected:
            yield "all as protect: demands it of groups"
        for one in self.expected:
            yield from (f"k={one.k} would be refused: {words}" for words in one.broken)
        if self.asked is not None and not self.asked.is_whole:
            yield "of some blocks: the release will differ; links are at most these, as only neighbours in them count"
        yield from (f"left out: {reason}" for reason in self.left_out)


def _with_error(one: Expected) -> str:
    """A loss, and by how much it is off, mostly."""
    error = "" if one.l_sse_error is None else f" ± {one.l_sse_error:.2g}"
    return f"{one.l_sse:.3g}{error} %"
