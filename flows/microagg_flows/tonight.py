"""What a run knows of its night: who is in the input, what becomes of them, and what the gate noted."""

from __future__ import annotations

from dataclasses import dataclass, field

from microagg_core.release.manifest import SeriesEntry
from microagg_core.release.steps.work import Receipt
from microagg_core.series.matching import MatchCounts
from microagg_core.series.night import Beginning
from microagg_core.series.survivors import FateCounts
from microagg_core.series.verdict import NightNotes, smallest_trace, told_ghosts


@dataclass
class Tonight:
    """What a run knows of its night."""

    beginning: Beginning
    matched: MatchCounts = field(default_factory=MatchCounts)
    fates: FateCounts = field(default_factory=FateCounts)
    match: list[Receipt] = field(default_factory=list)
    #: The nights whose releases hold the values of survivors.
    nights: tuple[int, ...] = ()
    _notes: NightNotes | None = None

    @property
    def notes(self) -> NightNotes:
        """What the gate's workers noted; there once the validate stage is done, where units have names."""
        if self._notes is None:
            raise RuntimeError("the validate stage has not run")
        return self._notes

    @notes.setter
    def notes(self, notes: NightNotes) -> None:
        self._notes = notes

    @property
    def n_carried_files(self) -> int:
        """Files of survivors."""
        return self.beginning.night.n_carried

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
            (fates.held_back, "changes held back"),
        ):
            words += f", {n} {what}" if n else ""
        return words

    def entry(self) -> SeriesEntry | None:
        """What the manifest says of the series."""
        night, series = self.beginning.night, self.beginning.spec.series
        if series is None:
            return None
        smallest = smallest_trace(night, self.notes) if night.mode == "independent" and self.has_units else None
        guarantee = None if night.mode == "independent" else night.guarantee
        entry = SeriesEntry(mode=night.mode, guarantee=guarantee, night=night.number, smallest_trace=smallest)
        if night.leavers == "ghosts" and night.n_carried:
            return entry.model_copy(update={"ghosts": told_ghosts(night, self.notes) or "not told"})
        return entry
