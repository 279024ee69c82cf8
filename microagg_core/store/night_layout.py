"""Names of what a run keeps of a night of a series, below its folder in the work area; see :mod:`.layout`."""

from __future__ import annotations

from dataclasses import dataclass

from microagg_core.store.layout import RunLayout, digits


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

    def met(self, unit_range: int) -> str:
        """The units of a range of which the ledger may have something new to say, with their places in the input."""
        return self._file(f"met-{digits(unit_range)}.arrows")

    def words(self, unit_range: int) -> str:
        """Bits of digests of rows of a range: of who is gone, and of who arrived."""
        return self._file(f"words-{digits(unit_range)}.arrows")

    def matched(self, unit_range: int) -> str:
        """Counts of what meeting a range with the ledger came to."""
        return self._file(f"matched-{digits(unit_range)}.json")

    def marks_told(self, unit_range: int) -> str:
        """What the records of a range's units are, cut by input part."""
        return self._file(f"marks-of-range-{digits(unit_range)}.slices")

    def atoms_of_part(self, part: int) -> str:
        """The atom of every survivor of an input part."""
        return self._file(f"atoms-{digits(part)}.arrows")

    def unit_ranges(self, part: int) -> str:
        """The range of units of every record of an input part."""
        return self._file(f"unit-ranges-{digits(part)}.arrows")

    def absent(self, unit_range: int) -> str:
        """Live units of a range that are not in tonight's input, cut by range of atoms."""
        return self._file(f"absent-{digits(unit_range)}.slices")

    def altered(self, unit_range: int) -> str:
        """Survivors of a range with other values than in their last release, cut by range of atoms."""
        return self._file(f"altered-{digits(unit_range)}.slices")

    def uncommon(self, atom_range: int) -> str:
        """The atoms of a range that are not simply carried, and what becomes of each."""
        return self._file(f"uncommon-{digits(atom_range)}.arrows")

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

    def classes(self, file: int) -> str:
        """What a file of arrivals says of its rows, cut by input part."""
        return self._file(f"classes-{digits(file)}.slices")

    def new_atoms(self, file: int) -> str:
        """The classes of a file of arrivals, cut by range of atoms."""
        return self._file(f"new-atoms-{digits(file)}.slices")

    def looked(self, file: int) -> str:
        """Counts of what a candidate file holds that it should not, and of the numbers that its new atoms need."""
        return self._file(f"looked-{digits(file)}.json")

    def exceptions(self, file: int) -> str:
        """Rows of a file of survivors of which the ledger has to hear, cut by input part; ghosts by range of units."""
        return self._file(f"exceptions-{digits(file)}.slices")

    def seen(self, file: int) -> str:
        """The atoms that a file of survivors does not hold as they were: how many units, in which class."""
        return self._file(f"seen-{digits(file)}.arrows")

    def numbering(self) -> str:
        """From which number the new atoms of each file of arrivals are numbered."""
        return self._file("numbering.json")

    def survivors_read(self, part: int, number: int) -> str:
        """Digests of what the gate read of an input part's survivors, cut by file."""
        return self._file(f"survivors-read-{digits(part)}-{digits(number)}.slices")

    def joined(self, part: int) -> str:
        """What the files have of an input part's records, cut by range of units."""
        return self._file(f"joined-{digits(part)}.slices")

    def traces_told(self, unit_range: int, what: int) -> str:
        """How many units of a range came to each atom, left it or changed; and rows of who left and who arrived."""
        return self._file(f"traces-of-range-{digits(unit_range)}-{digits(what)}.slices")

    def range_notes(self, unit_range: int) -> str:
        """What is noted of one range of the next ledger."""
        return self._file(f"range-{digits(unit_range)}.json")

    def trace_notes(self, atom_range: int) -> str:
        """What is noted of one range of atoms of the next ledger."""
        return self._file(f"traces-{digits(atom_range)}.json")

    def bundles(self, atom_range: int) -> str:
        """Classes of the last release and tonight's, with how many units went from which to which, where few did."""
        return self._file(f"bundles-{digits(atom_range)}.arrows")
