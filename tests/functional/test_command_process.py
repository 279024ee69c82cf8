"""The command as a process: signals, streams that are closed, troubles after publishing, and what is left behind."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pytest
from command_line import AGAIN, COMMAND, NOISE, Ended, Project, after_stage, leave, run_command, start_command

from covering import share
from microagg_core.errors import StorageError, TransientClusterError
from servers.process import wait_until
from trouble.holding import SURVEY, Held

RUN = ("run", "release.yaml", "--direct")
KEPT = "microagg: interrupted; what is finished is kept, and the same command goes on from there"


def await_line(process: subprocess.Popen[str], line: str) -> None:
    """Read what a command says until it says this."""
    assert process.stderr is not None
    while (said := process.stderr.readline()) != f"{line}\n":
        assert said or process.poll() is None


@pytest.fixture
def surveying(tmp_path: Path) -> Held:
    """A worker in the middle of the first stage, until the test lets it go on."""
    return Held(tmp_path / "surveying", SURVEY)


@pytest.fixture
def temporary(tmp_path: Path) -> Path:
    """A folder for all that a command makes beside its results."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    return folder


def shell(line: str, cwd: Path) -> Ended:
    """A line as one would type it; {microagg} is the command, and the exit code is its own."""
    script = f"set -o pipefail; {line.format(microagg=COMMAND)}"
    done = subprocess.run(["bash", "-c", script], cwd=cwd, capture_output=True, text=True, timeout=300)
    return Ended(done.returncode, done.stdout, done.stderr)


# --- streams ---


def test_a_reader_that_has_seen_enough_is_no_failure(tmp_path: Path) -> None:
    ended = shell("{microagg} schema | true", tmp_path)
    assert (ended.code, ended.err) == (0, "")


def without_cluster(folder: Path) -> None:
    """Have the release of a folder made by the command's process itself."""
    spec = folder / "release.yaml"
    spec.write_text(spec.read_text().replace("  local: {workers: 1, threads: 1, memory: 1GiB}", "  none"))


def test_a_release_needs_nobody_who_reads(companies: Path) -> None:
    """Piped into a reader that goes, and with the standard streams closed."""
    without_cluster(companies)
    ended = shell("{microagg} run release.yaml --direct 2>&1 | head -1", companies)
    assert (ended.code, len(ended.out.splitlines())) == (0, 1)
    with (companies / "release.yaml").open("a") as spec:
        spec.write(f"\n{json.dumps(AGAIN)[1:-1]}\n")
    again = shell("{microagg} run release.yaml --direct --id again >&- 2>&- <&-", companies)
    assert again.code == 0 and not [word for word in NOISE if word in again.out + again.err]


def test_what_is_wrong_is_said_where_somebody_reads(tmp_path: Path) -> None:
    ended = shell("{microagg} run nowhere.yaml 2>&-", tmp_path)
    assert ended.code == 2
    assert ended.out.startswith("microagg: nowhere.yaml: there is no such file")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_behind_standard_output_is_said(tmp_path: Path) -> None:
    shell("{microagg} schema >/dev/full", tmp_path).assert_refused(5, "writing standard output failed")


# --- signals ---


#: The command, with a person who presses Ctrl-C three times when a module is imported.
IMPATIENT = """
import builtins, os, signal, sys
wanted, imported = sys.argv.pop(1), builtins.__import__
def press(name, *others, **named):
    if name == wanted:
        builtins.__import__ = imported
        for _ in range(3):
            os.kill(0, signal.SIGINT)
    return imported(name, *others, **named)
builtins.__import__ = press
from microagg_flows.command import main
if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize("module", share(["typer", "pyarrow", "distributed", "microagg_flows.releasing", "prefect"], 2))
def test_an_impatient_person_gets_one_sentence(module: str, companies: Path, temporary: Path) -> None:
    """Three times Ctrl-C, to the whole group as a terminal sends it, while the command is still being loaded."""
    (companies / "impatient.py").write_text(IMPATIENT)
    arguments = (module, *(RUN if module != "prefect" else RUN[:2]), "-q")
    program = (sys.executable, "impatient.py")
    ended = leave(start_command(*arguments, cwd=companies, env={"TMPDIR": str(temporary)}, program=program))
    assert (ended.code, ended.out) == (130, ""), ended.err
    assert len(ended.err.splitlines()) == 1
    assert ended.err.startswith("microagg: interrupted; ")
    assert list(temporary.iterdir()) == []


def test_a_terminal_that_is_closed_interrupts(companies: Path, temporary: Path, surveying: Held) -> None:
    """The first line is read, then terminal and readers are gone."""
    process = start_command(*RUN, cwd=companies, env={"TMPDIR": str(temporary), **surveying.environment})
    assert process.stderr is not None and process.stdout is not None
    await_line(process, "survey: 1 tasks")
    surveying.begins()
    children = psutil.Process(process.pid).children(recursive=True)
    assert children
    os.killpg(process.pid, signal.SIGHUP)
    process.stderr.close()
    process.stdout.close()
    assert process.wait(200) == 130
    assert psutil.wait_procs(children, timeout=60)[1] == []
    assert list(temporary.iterdir()) == []


@pytest.mark.soak("makes a release on a cluster of its own")
def test_under_nohup_a_closed_terminal_is_no_matter(companies: Path, surveying: Held) -> None:
    process = start_command(*RUN, "--json", cwd=companies, env=surveying.environment, program=("nohup", COMMAND))
    surveying.begins()
    process.send_signal(signal.SIGHUP)
    surveying.let_go()
    ended = leave(process)
    assert ended.code == 0, ended.err
    assert ended.document()["status"] == "released"


@pytest.mark.soak("runs are interrupted in the same way")
@pytest.mark.parametrize(
    ("held", "command"),
    [
        (SURVEY, ("plan", "release.yaml")),
        ("microagg_core.compare.bare_file.compare", ("compare", "companies.csv", "--k", "3")),
    ],
)
def test_an_interrupted_look_promises_nothing(held: str, command: tuple[str, ...], companies: Path) -> None:
    looking = Held(companies / "looking", held)
    process = start_command(*command, "-q", cwd=companies, env=looking.environment)
    looking.begins()
    process.send_signal(signal.SIGINT)
    ended = leave(process)
    assert (ended.code, ended.err) == (130, "microagg: interrupted; nothing was written\n")


STUCK = """
import sys, time
from microagg_flows import stages
def stuck(release):
    says = ["stuck"]
    while True:
        try:  # a signal may come as soon as it is said
            if says:
                print(says.pop(), file=sys.stderr, flush=True)
            time.sleep(60)
        except BaseException:
            pass
stages.STAGES = (stages.Stage("report", stuck, always=True),)
from microagg_flows.command import main
sys.argv[0] = "microagg"
if __name__ == "__main__":
    main()
"""


def press(pid: int) -> None:
    """Send a signal, and wait until it has arrived: of two that wait to be taken, the kernel keeps one."""
    os.kill(pid, signal.SIGINT)
    status, bit = Path(f"/proc/{pid}/status"), 1 << (signal.SIGINT - 1)
    waiting = re.compile(r"^(?:SigPnd|ShdPnd):\s*(\w+)$", re.MULTILINE)
    wait_until(lambda: not any(int(mask, 16) & bit for mask in waiting.findall(status.read_text())), "the signal")


def test_what_does_not_let_go_is_ended_when_asked_twice(companies: Path, temporary: Path) -> None:
    (companies / "stuck.py").write_text(STUCK)
    program = (sys.executable, "stuck.py")
    process = start_command(*RUN, cwd=companies, env={"TMPDIR": str(temporary)}, program=program)
    await_line(process, "stuck")
    children = psutil.Process(process.pid).children(recursive=True)
    for _ in range(2):
        press(process.pid)
    ended = leave(process)
    assert (ended.code, ended.err) == (130, f"{KEPT}\n")
    assert children and psutil.wait_procs(children, timeout=60)[1] == []
    assert list(temporary.iterdir()) == []


# --- after the release is out ---


def fail_with(error: BaseException) -> Any:
    def fail(_: Any) -> None:
        raise error

    return fail


AFTERWARDS: dict[str, BaseException] = {
    "interrupted while clearing up, which the same command finishes": KeyboardInterrupt(),
    "afterwards: the cluster went away": TransientClusterError("the cluster went away"),
    "afterwards: a bug: ": ValueError("a record"),
}


def test_what_comes_after_publishing_does_not_unmake_the_release(
    companies: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = Project(companies)
    without_cluster(companies)
    after_stage(monkeypatch, "plan", fail_with(StorageError("no space is left")))
    project.call(*RUN).assert_refused(5, "no space is left")
    monkeypatch.undo()
    for says, error in AFTERWARDS.items():
        shutil.rmtree(project.output, ignore_errors=True)
        after_stage(monkeypatch, "publish", fail_with(error))
        ended = project.call(*RUN, "--quiet", "--json")
        assert ended.code == 0, ended.err
        assert ended.document()["status"] == "released"
        (said,) = ended.sentences()
        assert said.startswith("release example is published in ") and f"; {says}" in said
        assert "a record" not in ended.err
        monkeypatch.undo()
    assert project.call("verify", "release").code == 0
    assert project.call(*RUN, "--quiet", "--json").document()["status"] == "already released"
    assert list((companies / "work").glob("runs/*")) == []


# --- what is left behind ---


def test_a_killed_run_leaves_nothing_that_the_next_does_not_clear(
    companies: Path, temporary: Path, surveying: Held
) -> None:
    environment = {"TMPDIR": str(temporary)}
    process = start_command(*RUN, cwd=companies, env={**environment, **surveying.environment})
    surveying.begins()
    children = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    leave(process)
    assert psutil.wait_procs(children, timeout=60)[1] == []
    left = list(temporary.iterdir())
    assert len(left) == 1 and left[0].stat().st_mode & 0o777 == 0o700
    ended = run_command(*RUN, "-q", cwd=companies, env=environment)
    assert (ended.code, ended.err) == (0, "")
    assert list(temporary.iterdir()) == []


@pytest.mark.soak("makes a release and a plan, each with a cluster of its own")
def test_a_folder_that_is_in_use_stays(companies: Path, temporary: Path, surveying: Held) -> None:
    environment = {"TMPDIR": str(temporary)}
    process = start_command(*RUN, cwd=companies, env={**environment, **surveying.environment})
    surveying.begins()
    process.send_signal(signal.SIGSTOP)
    mine = set(temporary.iterdir())
    assert run_command("plan", "release.yaml", "-q", cwd=companies, env=environment).code == 0
    assert set(temporary.iterdir()) == mine
    process.send_signal(signal.SIGCONT)
    surveying.let_go()
    assert leave(process).code == 0
    assert list(temporary.iterdir()) == []


def test_no_temporary_folder_is_a_sentence(companies: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere() -> str:
        raise FileNotFoundError("no usable temporary directory")

    monkeypatch.setattr("tempfile.gettempdir", nowhere)
    Project(companies).call(*RUN).assert_refused(5, "no temporary folder can be written to", "set TMPDIR")


@pytest.mark.soak("compiles the default path, where kernels are kept below the home")
def test_a_user_without_a_home_gets_the_release(companies: Path, temporary: Path) -> None:
    nowhere = {"HOME": "/proc/no-home", "TMPDIR": str(temporary), "PREFECT_HOME": "/proc/no-home"}
    ended = run_command(*RUN, "-q", "--json", cwd=companies, env=nowhere)
    assert (ended.code, ended.err) == (0, "")
    assert json.loads(ended.out)["status"] == "released"
    # Compiled kernels stay for the next run, where they cannot be kept anywhere else.
    assert {path.name for path in temporary.iterdir()} <= {f"microagg-{os.getuid()}"}


READ_ONLY = 'mount -o remount,ro,bind /dev/shm && exec "$@"'
MACHINES = {
    "or a loopback network; raise its limits": ("--net",),
    "/dev/shm cannot be written to; mount it": ("--mount", "sh", "-c", READ_ONLY, "sh"),
}


@pytest.mark.soak("starts a cluster for one sentence")
@pytest.mark.parametrize("says", MACHINES)
def test_a_machine_without_what_workers_need_is_told_at_once(says: str, companies: Path) -> None:
    kind, *program = MACHINES[says]
    apart = ["unshare", kind, "--map-root-user"]
    if shutil.which("unshare") is None or subprocess.run([*apart, "true"], capture_output=True).returncode != 0:
        pytest.skip("this machine gives nobody a network or disks of his own (unshare)")
    leave(start_command(*RUN, cwd=companies, program=(*apart, *program, COMMAND))).assert_refused(6, says)


@pytest.mark.soak("starts a cluster for one sentence")
def test_a_wide_file_is_refused_before_it_kills_its_workers(project: Project) -> None:
    """Workers of 512 MiB died in the survey, again and again, of 2 MiB a column."""
    rng = np.random.default_rng(7)
    wide = pa.table({f"c{i}": rng.normal(size=30_000) for i in range(300)})
    project.write(wide)
    confidential = wide.column_names[3:]
    roles = {"quasi_identifiers": wide.column_names[:3], "confidential": confidential}
    small = {"local": {"workers": 1, "threads": 1, "memory": "512MiB"}}
    project.write_spec(roles, cluster=small, acknowledge={"nearly_unique": confidential})
    ended = project.command("run", "release.yaml", "--direct", "-q")
    ended.assert_refused(
        6, "the survey of 300 columns needs about 564 MiB for its rows, and each worker thread has 69 MiB"
    )
    project.assert_nothing_published()
