"""Names of what a run keeps of a night of a series, below its folder in the work area; see :mod:`.layout`."""

from __future__ import annotations

from dataclasses import dataclass

from microagg_core.storage.layout import RunLayout, digits


@dataclass(frozen=True)
class NightLayout:
    """Names of what a run keeps in its folder of a night of a series; ranges are of units, or of classes.

    >>> NightLayout("3f9a").identified(part=2, number=0)
    'runs/3f9a/nights/units-00002-00000.slices'
    """

    key_of_run: str

    def _file(self, name: str) -> str:
        return f"{RunLayout(self.key_of_run).folder}/nights/{name}"

    def night(self) -> str:
        """What is settled of the night."""
        return self._file("night.json")

    def key(self) -> str:
        """The key of the series, for the workers of this run."""
        return self._file("key")

    def identified(self, part: int, number: int) -> str:
        """Digests of an input part's units, cut by range of units."""
        return self._file(f"units-{digits(part)}-{digits(number)}.slices")

    def tonight(self, unit_range: int) -> str:
        """Tonight's units of a range, with their places in the input and in the ledger."""
        return self._file(f"tonight-{digits(unit_range)}.arrows")

    def matched(self, unit_range: int) -> str:
        """Counts of what meeting a range with the ledger came to."""
        return self._file(f"matched-{digits(unit_range)}.json")

    def marks_told(self, unit_range: int) -> str:
        """What the records of a range's units are, cut by input part."""
        return self._file(f"marks-of-range-{digits(unit_range)}.slices")

    def members_told(self, unit_range: int) -> str:
        """Live units of a range, cut by the range of their class."""
        return self._file(f"members-of-range-{digits(unit_range)}.slices")

    def members(self, atom_range: int) -> str:
        """The members of a range of classes, and what becomes of each."""
        return self._file(f"members-{digits(atom_range)}.arrows")

    def fates_told(self, atom_range: int) -> str:
        """Who is not simply carried, cut by range of units."""
        return self._file(f"fates-{digits(atom_range)}.slices")

    def fates(self, atom_range: int) -> str:
        """Counts of fates, and the nights whose releases are needed."""
        return self._file(f"fates-{digits(atom_range)}.json")

    def whole(self, atom_range: int) -> str:
        """The classes of a range of which whole rows of an earlier release are needed."""
        return self._file(f"whole-{digits(atom_range)}.arrows")

    def all_whole(self) -> str:
        """Those of all ranges."""
        return self._file("whole.arrows")

    def recall(self) -> str:
        """The files of earlier releases that values come from."""
        return self._file("recall.json")

    def recalled(self, number: int, what: int) -> str:
        """What one of these files holds, cut by range of classes: its classes, or rows."""
        return self._file(f"recalled-{digits(number)}-{digits(what)}.slices")

    def survivors(self, part: int, number: int) -> str:
        """Confidential values of an input part's survivors, cut by range of classes."""
        return self._file(f"survivors-{digits(part)}-{digits(number)}.slices")

    def carried(self, atom_range: int) -> str:
        """The released rows of a range of classes."""
        return self._file(f"carried-{digits(atom_range)}.slices")

    def classes(self, file: int) -> str:
        """What a candidate file says of its rows, cut by input part; ghosts by range of units."""
        return self._file(f"classes-{digits(file)}.slices")

    def survivors_read(self, part: int) -> str:
        """Digests of what the gate read of an input part's survivors."""
        return self._file(f"survivors-read-{digits(part)}.arrows")

    def joined(self, part: int) -> str:
        """What the files have of an input part's records, cut by range of units."""
        return self._file(f"joined-{digits(part)}.slices")

    def traces_told(self, unit_range: int, what: int) -> str:
        """How many units of a range share each trace, or changed in each class; cut by range of these."""
        return self._file(f"traces-of-range-{digits(unit_range)}-{digits(what)}.slices")

    def range_notes(self, unit_range: int) -> str:
        """What is noted of one range of the next ledger."""
        return self._file(f"range-{digits(unit_range)}.json")

    def trace_notes(self, trace_range: int) -> str:
        """What is noted of one range of traces."""
        return self._file(f"traces-{digits(trace_range)}.json")

    def bundles(self, trace_range: int) -> str:
        """Pairs of classes of the last release and tonight's, with the number of their units."""
        return self._file(f"bundles-{digits(trace_range)}.arrows")
