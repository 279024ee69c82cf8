"""What a run knows of its night: who is in the input, what becomes of them, and what the gate noted."""

from __future__ import annotations

from dataclasses import dataclass, field

from microagg_core.releases.manifest import SeriesEntry
from microagg_core.steps.nights.beginning import Beginning
from microagg_core.steps.nights.counting import TraceNotes
from microagg_core.steps.nights.counts import FateCounts, MatchCounts
from microagg_core.steps.nights.ending import smallest_of
from microagg_core.steps.nights.tracing import RangeNotes
from microagg_core.steps.work import Receipt


@dataclass
class Tonight:
    """What a run knows of its night."""

    beginning: Beginning
    matched: MatchCounts = field(default_factory=MatchCounts)
    fates: FateCounts = field(default_factory=FateCounts)
    match: list[Receipt] = field(default_factory=list)
    decided: list[Receipt] = field(default_factory=list)
    #: The nights whose releases hold the values of survivors.
    nights: tuple[int, ...] = ()
    ranges: list[RangeNotes] = field(default_factory=list)
    traces: list[TraceNotes] = field(default_factory=list)

    @property
    def n_carried_files(self) -> int:
        """Files of survivors."""
        return self.beginning.night.n_atom_ranges

    @property
    def has_units(self) -> bool:
        """Whether units are known by their names."""
        return bool(self.beginning.night.unit)

    def in_words(self) -> str:
        """What is to be told to the operator of survivors."""
        if not self.beginning.night.carries or not self.beginning.is_later:
            return ""
        fates = self.fates
        words = f"{fates.carried} survivors"
        for n, what in (
            (fates.ghosts, "ghosts"),
            (fates.withheld, "withheld"),
            (fates.vanished, "vanish"),
            (fates.held_back, "values held back"),
        ):
            words += f", {n} {what}" if n else ""
        return words

    def entry(self) -> SeriesEntry | None:
        """What the manifest says of the series."""
        night, series = self.beginning.night, self.beginning.spec.series
        if series is None:
            return None
        smallest = smallest_of(self.traces) if night.mode == "independent" and self.has_units else None
        guarantee = None if night.mode == "independent" else night.guarantee
        return SeriesEntry(mode=night.mode, guarantee=guarantee, night=night.number, smallest_trace=smallest)
