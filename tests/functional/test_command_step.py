"""A release driven task by task, by calls in any order: the files of `microagg run`, and sentences for wrong calls."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from command_line import COMMAND, Ended, Project, run_command

from inputs.people import people

ROOT = Path(__file__).resolve().parents[2]
ROLES = {
    "identifiers": ["id"],
    "quasi_identifiers": ["x", "y"],
    "blocking": ["region", "town"],
    "confidential": ["note", "amount"],
}
#: What sbatch does with an array, by this machine alone: elements in any order, two at a time, one of them twice.
SBATCH = """
import os, random, subprocess, sys
from concurrent.futures import ThreadPoolExecutor
options = [word for word in sys.argv[1:] if word.startswith("--")]
job = [word for word in sys.argv[1:] if not word.startswith("--")]
assert "--wait" in options and "--mem=2G" in options, options
(array,) = [word.removeprefix("--array=") for word in options if word.startswith("--array=")]
numbers = []
for part in array.split(","):
    first, _, last = part.partition("-")
    numbers += range(int(first), int(last or first) + 1)
random.Random(len(numbers)).shuffle(numbers)
def element(number):
    done = subprocess.run(job, env={**os.environ, "SLURM_ARRAY_TASK_ID": str(number)})
    return done.returncode
with ThreadPoolExecutor(2) as threads:
    sys.exit(max(threads.map(element, [*numbers, *(numbers[:1] if len(numbers) > 1 else ())])))
"""


def written(folder: Path) -> Project:
    """A release of two parts, with blocks that are cut, and so with every step there is but counting."""
    folder.mkdir()
    project = Project(folder, cluster=None)
    for i in range(2):
        project.write(people(400, first=400 * i), f"input/{i}.parquet")
    project.write_spec(ROLES, input={"url": "input/*.parquet"}, blocks={"max_records": 100})
    return project


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Checksums of the release as one command makes it."""
    project = written(tmp_path_factory.mktemp("whole") / "run")
    project.release()
    return project.data_checksums()


@dataclass(frozen=True)
class Next:
    """What comes next: a step, the numbers of its tasks that are left, and the run's key."""

    step: str
    numbers: list[int]
    run: str

    def arguments(self, number: int) -> tuple[str, ...]:
        return ("step", self.step, "--number", str(number), "--run", self.run, "-q", "release.yaml")


def next_tasks(project: Project) -> Next:
    """What `microagg step` says; no step where the release is done."""
    ended = project.call("step", "report", "-q", "--json", "release.yaml")
    assert ended.code == 0, ended.err
    told = ended.document()
    numbers: list[int] = []
    for part in filter(None, told["numbers"].split(",")):
        first, _, last = part.partition("-")
        numbers += range(int(first), int(last or first) + 1)
    assert len(numbers) == told["left"] <= told["tasks"]
    return Next(told["step"], numbers, told["run"])


def go_on(project: Project, last: str = "") -> Iterator[Next]:
    """Do all tasks in this process, those of a step from the last to the first; stops before a step."""
    while (told := next_tasks(project)).step != last:
        for number in reversed(told.numbers):
            ended = project.call(*told.arguments(number))
            assert (ended.code, ended.out) == (0, ""), ended.err
        yield told


def test_calls_in_another_order_and_again_make_the_same_files(tmp_path: Path, expected: list[str]) -> None:
    project, steps = written(tmp_path / "steps"), []
    told = next_tasks(project)
    assert (told.step, told.numbers) == ("survey", [0, 1])
    assert run_command(*told.arguments(1), cwd=project.folder) == Ended(0, "", "")
    assert next_tasks(project) == replace(told, numbers=[0])
    assert project.call("step", "survey", "-q", "release.yaml") == Ended(0, f"survey 0 {told.run}\n", "")
    for told in go_on(project):
        steps.append(told.step)
        project.assert_nothing_published()
        assert project.call(*told.arguments(told.numbers[0])) == Ended(0, "", "")
    assert len(steps) == len(set(steps)) and {"survey", "anonymize", "check-files"} <= set(steps)
    assert project.data_checksums() == expected
    assert list((project.work / "runs").glob("*")) == []
    assert project.call("step", "report", "-q", "release.yaml") == Ended(0, "done\n", "")


@pytest.fixture
def on_slurm(tmp_path: Path) -> dict[str, str]:
    """An environment whose sbatch runs the elements of an array by itself."""
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "sbatch").write_text(f"#!{sys.executable}\n{SBATCH}")
    (programs / "sbatch").chmod(0o755)
    (programs / "microagg").symlink_to(COMMAND)
    return {**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}


@pytest.mark.soak("starts the command for every task")
def test_the_script_for_slurm_goes_on_and_makes_the_release(
    tmp_path: Path, on_slurm: dict[str, str], expected: list[str]
) -> None:
    """From where it was stopped before: the steps until then are done in this process, which is quicker."""
    project = written(tmp_path / "slurm")
    assert [told.step for told in go_on(project, "assemble")][-1] == "anonymize"
    script = [ROOT / "deploy" / "slurm" / "release.sh", "release.yaml", "--id", "one"]
    done = subprocess.run(script, cwd=project.folder, env=on_slurm, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    assert project.data_checksums() == expected


def test_the_script_for_slurm_ends_as_the_call_that_failed(tmp_path: Path, on_slurm: dict[str, str]) -> None:
    project = written(tmp_path / "slurm")
    shutil.rmtree(project.folder / "input")
    script = [ROOT / "deploy" / "slurm" / "release.sh", "release.yaml"]
    done = subprocess.run(script, cwd=project.folder, env=on_slurm, capture_output=True, text=True, timeout=300)
    Ended(done.returncode, done.stdout, done.stderr).assert_refused(7, "no file matches")


def test_wrong_calls_are_sentences(tmp_path: Path) -> None:
    project = written(tmp_path / "wrong")
    run = next_tasks(project).run

    def refused(*arguments: str) -> Ended:
        return project.call("step", *arguments, "-q", "release.yaml")

    refused("nonsense").assert_refused(2, "there is no stage 'nonsense'; name one of the stages: survey, ")
    refused("assemble").assert_refused(2, "assemble is done task by task and takes --number; without it, name one of")
    refused("plan", "--number", "0", "--run", run).assert_refused(2, "there is no step 'plan' with tasks; there are: ")
    refused("survey", "--number", "2", "--run", run).assert_refused(2, "--number: survey has the tasks 0-1 (got 2)")
    refused("anonymize", "--number", "0", "--run", run).assert_refused(2, "as what comes before it is not done")
    refused("survey", "--number", "0").assert_refused(2, "--run: is needed with --number")
    refused("survey", "--number", "0", "--run", "0000").assert_refused(2, "--run: there is no run '0000' in ")
    refused("survey", "--number", "0", "--run", "../x").assert_refused(2, "--run: there is no run '../x' in ")
    refused("survey", "--number", "0", "--run", run, "--id", "two").assert_refused(2, "are not for a task")
    refused("report", "--run", "0000").assert_refused(2, "is not that of run '0000' any more")


def test_work_that_is_damaged_between_calls_is_done_again(tmp_path: Path, expected: list[str]) -> None:
    project = written(tmp_path / "damaged")
    steps = [told.step for told in go_on(project, "anonymize")]
    told = next_tasks(project)
    for rows in (project.work / "runs").glob(f"*/{told.run}/scatter/*.slices"):
        data = rows.read_bytes()
        rows.write_bytes(data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 4]) + data[len(data) // 2 + 1 :])
    project.call(*told.arguments(told.numbers[0])).assert_refused(
        5, "were damaged or gone; microagg step report, without --number, says which tasks"
    )
    again = [told.step for told in go_on(project)]
    assert again[0] == steps[-1] != "anonymize"
    assert project.data_checksums() == expected


def test_the_gate_looks_again_after_a_failure(tmp_path: Path) -> None:
    project = written(tmp_path / "again")
    steps: list[str] = []
    for told in go_on(project):
        steps.append(told.step)
        if steps.count("check-files") == 1 and told.step == "check-files":
            project.output.write_text("a file in the place of the output")
            project.call("step", "report", "-q", "release.yaml").assert_refused(5, "a file stands where a folder")
            project.output.unlink()
    assert steps.count("check-files") == 2
    assert steps.count("anonymize") == 1
    assert project.released().num_rows == 800
