"""Damage to the files of a work area, one at a time: whatever was damaged, a release has to end as if nothing was.

A small release with every kind of file (several parts, partitions and files, blocks that are cut, units, missing
values) is stopped after a stage; then one file is damaged in one way, and the release is run again (*between*), or goes
on in the process in which it runs (*during*).
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.compute as pc

from inputs.people import people
from microagg_core.errors import MicroaggError
from microagg_core.release import step
from microagg_flows import stages
from microagg_flows.stages import run_healing, run_stage, run_until
from releasing.runs import data_digests, start, write_release

STAGES = ("survey", "plan", "scatter", "anonymize", "validate", "measure")
FORMATS = ("parquet", "csv")
MOMENTS = ("between", "during")


def _changed_in_the_middle(data: bytes, change: Callable[[int], int]) -> bytes:
    place = next((i for i in range(len(data) // 2, len(data)) if change(data[i]) != data[i]), None)
    return data if place is None else data[:place] + bytes([change(data[place])]) + data[place + 1 :]


#: What is left of a file, given its content and that of another file of the same kind; None: the file is removed.
DAMAGES: dict[str, Callable[[bytes, bytes], bytes | None]] = {
    "emptied": lambda data, other: b"",
    "truncated": lambda data, other: data[: len(data) // 2],
    "zeroed": lambda data, other: _changed_in_the_middle(data, lambda byte: 0),
    "flipped": lambda data, other: _changed_in_the_middle(data, lambda byte: byte ^ 4),
    "exchanged": lambda data, other: other,
    "removed": lambda data, other: None,
}


@dataclass(frozen=True)
class Case:
    """One file of the run's folder, damaged in one way after one stage."""

    moment: str
    stage: str
    file: str
    damage: str


def _tables() -> list[pa.Table]:
    tables = [people(90), people(60, first=90), people(80, first=150)]
    missing = [pc.if_else(pc.equal(pc.bit_wise_and(t["x"], 15), 3), None, t["x"]) for t in tables]
    return [t.set_column(t.column_names.index("x"), "x", x) for t, x in zip(tables, missing, strict=True)]


@contextmanager
def _small_pieces() -> Iterator[None]:
    """Partitions, runs and files of a few kilobytes, and nothing that was read before a file was damaged."""
    with (
        mock.patch("microagg_core.blocks.packing._LEAST_BYTES", 5000),
        mock.patch("microagg_core.blocks.packing.FILE_BYTES", 8192),
        mock.patch("microagg_core.release.steps.cuts._SAMPLE_ROWS", 40),
        mock.patch("microagg_core.release.steps.sampling._LEAST_ROWS", 40),
        mock.patch("microagg_core.release.steps.sampling._MOST_ROWS", 40),
        mock.patch("microagg_core.release.step.RUN_BYTES", 1200),
        mock.patch("microagg_core.release.step.OBJECT_BYTES", 3000),
        mock.patch("microagg_core.release.steps.units.RUN_UNITS", 60),
        mock.patch("microagg_core.release.steps.units.TASK_UNITS", 100),
    ):
        yield


class DamagedRelease:
    """A release that is damaged again and again; its folder holds everything."""

    def __init__(self, folder: Path, form: str) -> None:
        changes: dict[str, Any] = {
            "unit": ["id"],
            "missing": "separate",
            "blocks": {"max_records": 30},
            "output": {"url": "output", "format": form},
        }
        self._folder = folder
        self._spec = write_release(folder, _tables(), **changes)
        with _small_pieces():
            for stage in STAGES:
                run_until(stage, start(self._spec))
                shutil.copytree(folder / "work", folder / "after" / stage)
            run_until("report", start(self._spec))
        self.expected = data_digests(folder / "output")

    def cases(self) -> list[Case]:
        """Every file after every stage, in every way."""
        return [
            Case(moment, stage, str(path.relative_to(self._folder / "after" / stage)), damage)
            for stage in STAGES
            for path in sorted((self._folder / "after" / stage).rglob("*"))
            if path.is_file()
            for damage in DAMAGES
            for moment in MOMENTS
        ]

    def outcome(self, case: Case) -> str:
        """How the damaged release ends: 'right', or what is wrong with it."""
        shutil.rmtree(self._folder / "output", ignore_errors=True)
        shutil.rmtree(self._folder / "work", ignore_errors=True)
        step._loaded.cache_clear()
        try:
            with _small_pieces():
                self._between(case) if case.moment == "between" else self._during(case)
        except MicroaggError as error:
            return f"exit {error.exit_code}: {error.message}"
        if data_digests(self._folder / "output") != self.expected:
            return "other bytes"
        return "something is left" if list((self._folder / "work" / "runs").glob("*")) else "right"

    def _between(self, case: Case) -> None:
        shutil.copytree(self._folder / "after" / case.stage, self._folder / "work")
        self._damage(case)
        run_until("report", start(self._spec))

    def _during(self, case: Case) -> None:
        release, left = start(self._spec), [case]
        if case.stage != STAGES[0]:  # what the stages before left is found by its receipts
            shutil.copytree(self._folder / "after" / STAGES[STAGES.index(case.stage) - 1], self._folder / "work")

        def run() -> None:
            for stage in stages.STAGES:
                run_stage(stage, release)
                if stage.name == case.stage and left:
                    self._damage(left.pop())

        run_healing(release, run)

    def _damage(self, case: Case) -> None:
        path = self._folder / "work" / case.file
        alike = [p for p in sorted(path.parent.iterdir()) if p != path and p.suffix == path.suffix and p.is_file()]
        others = alike or [p for p in sorted(path.parents[1].rglob("*")) if p != path and p.is_file()]
        left = DAMAGES[case.damage](path.read_bytes(), (others or [path])[0].read_bytes())
        if left is None:
            path.unlink()
        else:
            path.write_bytes(left)
