"""Cutting: large files of the input become parts, once some have looked where their records begin."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from microagg_core.data.formats.reading import (
    InputListing,
    InputPart,
    Place,
    Stretch,
    input_format,
)
from microagg_core.data.places import Input
from microagg_core.plain import from_plain, to_plain
from microagg_core.release.steps.pieces import read_sealed, sealed
from microagg_core.release.steps.work import Run


@dataclass(frozen=True)
class Scan:
    """A stretch of the input that somebody is to look at."""

    source: Input
    stretch: Stretch

    def look(self) -> Place:
        """What there is to know of it.

        Raises:
            StorageError: the file cannot be read.
            DataError: it is not what it was.
        """
        return input_format(self.source).scan(self.stretch, self.source)


def cut_input(
    run: Run, listing: InputListing, source: Input, answers: Callable[[list[Scan]], Sequence[Place]]
) -> InputListing:
    """The listing with large files cut, as this run cut them before or as is found now.

    Args:
        run: whose work area keeps where they are cut.
        listing: the input.
        source: what the spec says of it.
        answers: of :meth:`Scan.look`, for each.
    """
    scans = [Scan(source, stretch) for stretch in input_format(source).to_scan(listing, source)]
    if not scans:
        return listing
    name = run.layout.plan_file("input-parts.json")
    kept = read_sealed(run.work, name)
    parts = () if kept is None else from_plain(tuple[InputPart, ...], json.loads(kept))
    if _states(one for part in parts for one in part.stretches) != _states(scan.stretch for scan in scans):
        scanned = list(zip((scan.stretch for scan in scans), answers(scans), strict=True))
        parts = input_format(source).cut(listing, source, scanned).parts
        run.work.put(name, sealed(json.dumps(to_plain(parts)).encode()))
    return replace(listing, parts=parts)


def _states(stretches: Iterable[Stretch]) -> set[tuple[str, str]]:
    return {(stretch.url, stretch.state) for stretch in stretches if stretch.state}
