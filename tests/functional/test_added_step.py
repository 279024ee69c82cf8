"""A step is one file: a release does it at the end of its stage, and ``microagg step`` hands out its tasks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import Project

from inputs.added_modules import AddModule
from inputs.people import people
from microagg_core import runner

ROLES = {
    "identifiers": ["id"],
    "quasi_identifiers": ["x", "y"],
    "blocking": ["region", "town"],
    "confidential": ["note", "amount"],
}
COUNT_ROWS = """
    from microagg_core.errors import DataError
    from microagg_core.release.step import JsonOutput, Pieces, Step, Work
    from microagg_core.release.steps.scatter import SCATTERED

    COUNTED = JsonOutput("counted", int)

    def count(work: Work) -> int:
        rows = work.gather(SCATTERED).num_rows
        work.write(COUNTED, rows)
        return rows

    def tell(written: Pieces) -> str:
        if sum(written.read_all(COUNTED)) > 1000:
            raise DataError("too many rows to count")
        return f"{sum(written.read_all(COUNTED))} rows are counted"

    COUNT_ROWS = Step(
        name="count-rows",
        stage="scatter",
        per="partition",
        does=count,
        receives=(SCATTERED,),
        writes=(COUNTED,),
        by_itself=True,
        tells=tell,
    )
"""


@pytest.fixture
def count_rows(add_module: AddModule) -> Iterator[None]:
    add_module("microagg_core.release.steps", "counting_rows", COUNT_ROWS)
    runner.steps.cache_clear()
    yield
    runner.steps.cache_clear()


def written(folder: Path, n: int = 400) -> Project:
    folder.mkdir()
    project = Project(folder, cluster=None)
    for i in range(2):
        project.write(people(n, first=n * i), f"input/{i}.parquet")
    project.write_spec(ROLES, input={"url": "input/*.parquet"}, blocks={"max_records": 100})
    return project


@pytest.mark.usefixtures("count_rows")
def test_a_release_does_an_added_step(tmp_path: Path) -> None:
    ended = written(tmp_path / "run").call("run", "release.yaml", "--direct")
    assert ended.code == 0 and "800 rows are counted" in ended.err
    assert (
        "| scatter | count-rows |" not in runner.steps_table()
        and "|  | count-rows | partition |" in runner.steps_table()
    )
    refused = written(tmp_path / "refused", 600).call("run", "release.yaml", "--direct")
    assert refused.code == 3 and "too many rows to count" in refused.err


@pytest.mark.usefixtures("count_rows")
def test_microagg_step_hands_out_the_tasks_of_an_added_step(tmp_path: Path) -> None:
    project, steps = written(tmp_path / "steps"), []
    while (line := project.call("step", "report", "-q", "release.yaml").out.strip()) != "done":
        step, numbers, run = line.split()
        steps.append(step)
        first, _, last = numbers.partition("-")
        for number in range(int(first), int(last or first) + 1):
            ended = project.call("step", step, "--number", str(number), "--run", run, "-q", "release.yaml")
            assert ended.code == 0, ended.err
    assert steps.index("scatter") + 1 == steps.index("count-rows") == steps.index("anonymize") - 1
