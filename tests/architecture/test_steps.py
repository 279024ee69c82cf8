"""What steps declare fits together, and the README shows it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from microagg_core.runner import companions, steps, steps_table

README = Path(__file__).resolve().parents[2] / "flows" / "README.md"
#: Written by a step for arrivals and by one for survivors, or by a companion and by a step of its own.
SEVERAL_MAKERS = {"candidate", "origins", "notes", "looked", "drawn-rows"}


def test_the_readme_shows_the_steps_as_they_are() -> None:
    """Where it fails: put in what ``steps_table()`` gives, as the README says."""
    assert steps_table() in README.read_text(encoding="utf-8")


def test_what_a_step_reads_of_others_another_writes() -> None:
    written, sent = set[str](), set[str]()
    for step in steps().values():
        for one in (step, *companions(step.name)):
            written |= {output.name for output in (*one.writes, *one.sends)}
            sent |= {output.name for output in one.sends}
    for step in steps().values():
        besides = [output for one in companions(step.name) for output in one.same]
        assert {output.name for output in (*step.same, *step.all, *besides)} <= written
        assert {output.name for output in step.receives} <= sent


def test_an_object_has_one_maker() -> None:
    names = [
        output.name
        for step in steps().values()
        for one in (step, *companions(step.name))
        for output in (*one.writes, *one.sends)
    ]
    assert {name for name, n in Counter(names).items() if n > 1} == SEVERAL_MAKERS
