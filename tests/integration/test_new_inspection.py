"""A check, a limit or a measure of risk is one file and no other line: whole releases are made with new ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from inputs.added_modules import AddModule
from inputs.people import people
from microagg_core.errors import GateError
from releasing.runs import ROLES, run_stages, start, write_release

INSPECT = "microagg_core.inspect"

#: No text is longer than those that came in.
SHORT_NOTES = """
    from dataclasses import dataclass
    import pyarrow.compute as pc
    from microagg_core.inspect.check import Check
    from microagg_core.inspect.contract import GateCheck

    @dataclass(frozen=True)
    class Longest:
        characters: int

        def __add__(self, other):
            return Longest(max(self.characters, other.characters))

    class ShortNotes(GateCheck):
        name = "short notes"
        notes = Longest

        def note(self, file):
            return Longest(pc.max(pc.utf8_length(file.table["note"])).as_py() or 0)

        def note_input(self, batch, before):
            return Longest(pc.max(pc.utf8_length(batch.expected["note"])).as_py() or 0)

        def judge(self, promise, released, expected):
            return Check(self.name, 0 < released.characters <= expected.characters)
"""
#: No combination has more records than a number of them, of columns of which anything is demanded.
LARGEST = """
    from microagg_core.inspect.contract import Limit

    class Largest(Limit):
        name = "largest"
        how = "most"

        def limits(self, protection):
            return {demand.column: MOST for demand in protection.columns}

        def show(self, exposure, column):
            return int(exposure.sizes.max())

        def holds(self, figure, limit):
            return figure <= limit

        def breach(self, column, limit):
            return f"a combination has more than {limit} records with {column!r}"
"""
#: Records of the labels of a release.
LABELS = """
    from dataclasses import dataclass
    from microagg_core.inspect.contract import RiskMeasure

    @dataclass(frozen=True)
    class Count:
        labels: int

        def __add__(self, other):
            return Count(self.labels + other.labels)

    class LabelCount(RiskMeasure):
        name = "label_count"
        notes = Count

        def measure(self, exposure):
            return Count(exposure.n_labels)

        def figures(self, total, names):
            return {"labels": total.labels, "of": list(names)}

        def of_labels(self, exposure):
            return {"rows_of_label": exposure.rows_of_labels}
"""


def test_files_of_a_check_a_limit_and_a_measure_make_a_release(tmp_path: Path, add_module: AddModule) -> None:
    add_module(f"{INSPECT}.checks", "short_notes", SHORT_NOTES)
    add_module(f"{INSPECT}.limits", "largest", LARGEST.replace("MOST", "1000"))
    add_module(f"{INSPECT}.risk", "label_count", LABELS)
    protect = {"note": {"distinct": 2}}
    release = start(write_release(tmp_path, [people(400), people(300, first=400)], roles=ROLES, protect=protect))
    published = run_stages(release).published
    assert published is not None
    made = {check.name: check.passed for check in published.manifest.checks}
    assert list(made)[-3:] == ["short notes", "distinct values", "largest"] and all(made.values())
    (figures,) = (json.loads(path.read_bytes()) for path in (tmp_path / "work").rglob("risk.json"))
    assert figures["label_count"]["labels"] > 1 and figures["label_count"]["of"] == ["x", "y"]


def test_what_breaks_a_limit_of_somebody_else_is_not_published(tmp_path: Path, add_module: AddModule) -> None:
    add_module(f"{INSPECT}.limits", "largest", LARGEST.replace("MOST", "1"))
    release = start(write_release(tmp_path, [people(400)], roles=ROLES, protect={"note": {"distinct": 2}}))
    with pytest.raises(GateError, match="largest: a combination has more than 1 records with 'note'"):
        run_stages(release)
    assert not list((tmp_path / "output").rglob("*.parquet"))
