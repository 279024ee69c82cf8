"""Compiling once a machine: what it compiles is what releases need, and nobody waits in vain or compiles twice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from threading import Event
from typing import Any

import psutil
import pytest

from microagg_core import compiling
from microagg_core.compiling import TABLES, compile_parts, needed_parts, start_compiling
from microagg_core.errors import ClusterError, InternalError
from microagg_core.kernels.machine_code.code_cache import CodeFolders, code_folders
from servers.process import wait_until
from wheels import build_wheel, install_wheel, our_libraries

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests"

#: Counts what numba compiles from here on, by function; ``compiled`` is a list of names.
COUNTING = """
import json, sys
from numba.core import event
compiled = []
class Listener(event.Listener):
    def on_start(self, e): pass
    def on_end(self, e):
        function = e.data["dispatcher"].py_func
        compiled.append(f"{function.__module__}.{function.__qualname__}")
event.register("numba:compile", Listener())
"""
COMPILE = """
from microagg_core.compiling import needed_parts
from microagg_core.compiling import stamp
from microagg_core.compiling.problems import solve
for part in needed_parts(*json.loads(sys.argv[1])):
    solve(part)
    stamp(part)
print(json.dumps(compiled))
"""
RELEASE = """
from pathlib import Path
from inputs.people import people
from releasing.runs import run_stages, start, write_release
settings = json.loads(sys.argv[1])
for number, change in enumerate(settings):
    path = write_release(Path(sys.argv[2]) / str(number), [people(change.pop("people"))], **change)
    run_stages(start(path))
print(json.dumps(compiled))
"""

#: Specializations of our own kernels on the default path, and of numba's functions that they use; a change that needs
#: more of them makes everybody's first release slower.
MOST_OF_OURS, MOST_OF_NUMBAS = 129, 51
#: The only ones that are compiled twice: what sorts both whole numbers and others, and what Python and kernels call.
TWICE = {
    "refinement.changing_groups.total_sse",
    "tools.sorting.stable_order",
    "tools.sorting._sort_run",
    "tools.sorting._merge",
    "tools.sorting.sort_numbers",
}


def _python(script: str, *arguments: str, python: str = sys.executable, **surroundings: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(TESTS), **surroundings}
    run = subprocess.run(
        [python, "-P", "-c", script, *arguments], env=environment, capture_output=True, text=True, timeout=280
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


@pytest.fixture(scope="module")
def warm(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """A cache with all that a default release of groups of 3 or more needs, and what was compiled for it."""
    cache = tmp_path_factory.mktemp("warm")
    said = _python(COUNTING + COMPILE, json.dumps(["mdav", "fast", 5]), MICROAGG_CACHE_DIR=str(cache))
    return cache, json.loads(said)


@pytest.mark.soak("compiles the default path")
def test_the_default_path_compiles_no_more_than_it_did(warm: tuple[Path, list[str]]) -> None:
    count = Counter(name.removeprefix("microagg_core.kernels.") for name in warm[1])
    ours = {name: n for name, n in count.items() if not name.startswith("numba.")}
    assert {name for name, n in ours.items() if n > 1} <= TWICE
    assert sum(ours.values()) <= MOST_OF_OURS
    assert sum(count.values()) - sum(ours.values()) <= MOST_OF_NUMBAS
    entries = Counter(path.name.rpartition("-")[0] for path in warm[0].rglob("*.code"))
    assert entries["kernels.tree.mdav.peel_tree"] == entries["kernels.refinement.annealing.anneal"] == 1
    assert max(entries.values()) == 1


JOBS = [{"people": 300}, {"people": 12_000, "k": 12}, {"people": 9_000, "refine": "off"}]


def test_after_compiling_a_default_release_compiles_nothing(tmp_path: Path) -> None:
    """Whatever its size and k, and whether its columns are texts, numbers, decimals or missing."""
    compile_parts(needed_parts("mdav", "fast", 5))
    assert json.loads(_python(COUNTING + RELEASE, json.dumps(JOBS), str(tmp_path))) == []


@pytest.mark.soak("compiles the default path")
def test_after_compiling_the_default_path_alone_a_default_release_compiles_nothing(
    warm: tuple[Path, list[str]], tmp_path: Path
) -> None:
    said = _python(COUNTING + RELEASE, json.dumps(JOBS), str(tmp_path), MICROAGG_CACHE_DIR=str(warm[0]))
    assert json.loads(said) == []


@pytest.mark.soak("compiles the default path")
def test_another_algorithm_adds_only_what_it_needs(warm: tuple[Path, list[str]], tmp_path: Path) -> None:
    cache = {"MICROAGG_CACHE_DIR": str(warm[0])}
    added = json.loads(_python(COUNTING + COMPILE, json.dumps(["v_mdav", "fast", 3]), **cache))
    assert added and not {name for name in added if name.startswith("microagg_core.kernels.refinement.annealing")}
    jobs = [{"people": 300, "algorithm": "v_mdav"}, {"people": 9000, "algorithm": "v_mdav"}]
    assert json.loads(_python(COUNTING + RELEASE, json.dumps(jobs), str(tmp_path), **cache)) == []


@pytest.fixture
def installed_wheel(warm: tuple[Path, list[str]], tmp_path: Path) -> Path:
    """The Python of an environment with a wheel of the project that brings its compiled kernels; libraries are ours."""
    return install_wheel(build_wheel(tmp_path, kernels=warm[0]), tmp_path / "venv", our_libraries())


@pytest.mark.soak("compiles the default path")
def test_a_wheel_brings_its_kernels_along(installed_wheel: Path, tmp_path: Path) -> None:
    """Where no folder can be written, and so nothing else can have been kept."""
    nowhere = {"MICROAGG_CACHE_DIR": "/dev/null/named", "XDG_CACHE_HOME": "/dev/null/user"}
    proof = (
        "import tempfile, microagg_core\nfrom microagg_core.kernels.machine_code.code_cache import code_folders\n"
        f"assert microagg_core.__file__.startswith({str(tmp_path)!r})\n"
        "usable, tempfile.tempdir = tempfile.gettempdir(), '/dev/null/tmp'\n"
        "assert code_folders().write is None\ntempfile.tempdir = usable\n"
    )
    jobs = json.dumps([{"people": 300}, {"people": 9000}])
    said = _python(COUNTING + proof + RELEASE, jobs, str(tmp_path / "jobs"), python=str(installed_wheel), **nowhere)
    assert json.loads(said) == []


def test_what_a_release_needs_follows_from_its_algorithm_effort_and_k() -> None:
    assert set(needed_parts("best", "off", 2)) > {"mdav", "two_mu_approx", "annealing", "factor"}
    assert "prices" in needed_parts("mdav", "thorough", 3) and "prices" not in needed_parts("mdav", "thorough", 6)
    assert set(needed_parts("v_mdav", 2.5, 3)) == {TABLES, "v_mdav", "bound", "links", "annealing", "mdav"}


ASK = """
import json, os, sys, time
from microagg_core.compiling import compile_parts
said = []
kept = compile_parts(("tables",), say=said.append)
print(json.dumps([kept, said]))
"""


def _start(script: str, *arguments: str, **surroundings: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(TESTS), **surroundings}
    return subprocess.Popen(
        [sys.executable, "-c", script, *arguments], env=environment, stdout=subprocess.PIPE, text=True
    )


def _answer(process: subprocess.Popen[str]) -> Any:
    out, _ = process.communicate(timeout=120)
    return json.loads(out)


def test_of_many_that_ask_at_once_one_compiles(tmp_path: Path) -> None:
    asking = [_start(ASK, MICROAGG_CACHE_DIR=str(tmp_path)) for _ in range(3)]
    answers = [_answer(process) for process in asking]
    assert all(kept for kept, _ in answers)
    assert sum("once for this machine" in line for _, said in answers for line in said) == 1
    assert _answer(_start(ASK, MICROAGG_CACHE_DIR=str(tmp_path))) == [True, []]


def test_where_nothing_can_be_kept_it_says_so_and_where(tmp_path: Path) -> None:
    nowhere = "import tempfile; tempfile.tempdir = '/dev/null/tmp'\n"
    again = "compile_parts(('tables',), say=said.append); assert len(said) == 1\n"
    places = {"MICROAGG_CACHE_DIR": "/dev/null/named", "XDG_CACHE_HOME": "/dev/null/user"}
    kept, said = _answer(_start(nowhere + ASK + again, **places))
    assert not kept
    assert "/dev/null/named" in said[0] and "/dev/null/user" in said[0] and "MICROAGG_CACHE_DIR" in said[0]


def test_a_full_disk_is_told_of_and_not_stamped(tmp_path: Path) -> None:
    full = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))\n"
    again = "compile_parts(('tables',), say=said.append); assert len(said) == 2, 'it is not tried again'\n"
    kept, said = _answer(_start(full + ASK + again, MICROAGG_CACHE_DIR=str(tmp_path)))
    assert not kept and "cannot be kept" in said[-1]
    assert not list(tmp_path.rglob("*.compiled"))


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for code, in this process, in which nothing is compiled yet."""
    folders = CodeFolders((tmp_path,), tmp_path, (tmp_path,))
    monkeypatch.setattr(compiling, "code_folders", lambda: folders)
    monkeypatch.setattr(compiling, "_in_vain", set())
    monkeypatch.setattr(compiling, "_said", Event())
    return tmp_path


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "most likely for memory"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "SIGSEGV"),
        ("raise SystemExit(7)", "code 7"),
        ("print('cluster compiling the kernels ran out of memory')", "ran out of memory"),
    ],
)
def test_a_child_that_dies_is_one_sentence(
    empty: Path, monkeypatch: pytest.MonkeyPatch, program: str, words: str
) -> None:
    monkeypatch.setattr(compiling, "_PROGRAM", program)
    with pytest.raises(ClusterError, match=words):
        compile_parts((TABLES,))


def test_a_child_that_cannot_start_is_one_sentence(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", __file__)
    with pytest.raises(ClusterError, match="cannot be started \\(Permission denied\\)"):
        compile_parts((TABLES,))


def test_a_bug_in_the_child_is_told_as_one(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling, "_PROGRAM", "print('internal a bug: compiling'); raise SystemExit(1)")
    with pytest.raises(InternalError, match="a bug: compiling"), start_compiling("mdav", "fast", 5) as compiled:
        compiled.result()


def test_a_child_that_does_not_end_is_given_up(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling, "_PROGRAM", "import time; time.sleep(100)")
    monkeypatch.setattr(compiling, "_MOST_SECONDS_OF_CHILD", 0.1)
    with pytest.raises(ClusterError, match="given up"):
        compile_parts((TABLES,))


def test_what_runs_in_the_background_ends_when_it_is_cancelled(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling, "_PROGRAM", "import time; time.sleep(100)")
    before = set(psutil.Process().children())
    with start_compiling("mdav", "fast", 5):
        wait_until(lambda: set(psutil.Process().children()) - before, "the child")
    assert set(psutil.Process().children()) == before


HOLD = """
import fcntl, os, sys, time
lock = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
fcntl.flock(lock, fcntl.LOCK_EX)
print("held", flush=True)
time.sleep(100)
"""


def test_a_lock_goes_with_the_process_that_held_it(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[tuple[str, ...]] = []
    monkeypatch.setattr(compiling, "run_child", lambda parts, done, cancelled: ran.append(parts))
    monkeypatch.setattr(compiling, "_SAY_AFTER_SECONDS", 0.0)
    said: list[str] = []

    def tell(line: str) -> None:
        said.append(line)
        holder.kill()

    holder = _start(HOLD, str(empty / "compiling.lock"))
    assert holder.stdout is not None and holder.stdout.readline() == "held\n"
    compile_parts((TABLES,), say=tell)
    assert ran == [(TABLES,)] and "another process is compiling" in said[0]
    holder.communicate()


def test_waiting_for_another_process_has_an_end(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling, "_MOST_SECONDS", 0.0)
    holder = _start(HOLD, str(empty / "compiling.lock"))
    assert holder.stdout is not None and holder.stdout.readline() == "held\n"
    with pytest.raises(ClusterError, match="MICROAGG_CACHE_DIR"):
        compile_parts((TABLES,))
    holder.kill()
    holder.communicate()


PARENT = """
import signal
from threading import Event
from microagg_core import compiling
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell has its background commands ignore it
compiling._PROGRAM = '''
import os, threading, time
from microagg_core.compiling import problems
threading.Thread(target=problems._end_with_the_parent, daemon=True).start()
print("done", os.getpid(), flush=True)
time.sleep(100)
'''
compiling.run_child(("x",), lambda pid: print(pid, flush=True), Event())
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_the_child_ends_with_its_parent(how: signal.Signals) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    assert psutil.pid_exists(pid)
    parent.send_signal(how)
    parent.communicate(timeout=30)
    wait_until(lambda: not _runs(pid), "the child's end")


def _runs(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _command(arguments: list[str], surroundings: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    command = Path(sys.executable).with_name("microagg")
    return subprocess.run(
        [command, *arguments], env={**os.environ, **surroundings}, capture_output=True, text=True, timeout=280
    )


def test_the_command_says_what_is_kept_and_where() -> None:
    compile_parts(needed_parts("mdav", "fast", 5))
    done = _command(["warm", "--k", "5"], {})
    assert done.returncode == 0 and "compiled already" in done.stdout and str(code_folders().write) in done.stdout
    for wrong in (["--algorithm", "mdavv"], ["--refine", "slow"]):
        refused = _command(["warm", *wrong], {})
        assert refused.returncode == 2 and refused.stderr.startswith("microagg: --")
