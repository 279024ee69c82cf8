"""Compiled kernels on disk: shared by many processes, checkouts and users, and never a reason to fail."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from covering import share
from microagg_core.kernels.machine_code import code_cache
from microagg_core.kernels.machine_code.code_cache import CodeFolders
from microagg_core.kernels.machine_code.target import fingerprint, kernel_sources

ROOT = Path(__file__).resolve().parents[2]

#: Compiles some kernels and says, with a sum, whether they work, how many came from disk, and where they go.
SCRIPT = """
import numpy as np
from microagg_core.kernels.machine_code import code_cache
from microagg_core.kernels.tools import sums
X = np.arange(12.0).reshape(2, 6)
frozen = X.copy(); frozen.flags.writeable = False
for data in (X, frozen):
    assert sums.total_of(data, 1, 6)[0].tolist() == [15.0, 45.0]
hits = sum(sums.total_of.stats.cache_hits.values())
print(hits, code_cache.code_folders().write)
"""
#: Goes before the script: the temporary folder, which root can always write, cannot be written either.
NO_TEMPORARY_FOLDER = "import tempfile; tempfile.tempdir = '/dev/null/tmp'\n"


def _start(cache: Path | str, script: str = SCRIPT, **surroundings: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache), **surroundings}
    environment.pop("MICROAGG_CACHE_DIR", None)
    return subprocess.Popen(
        [sys.executable, "-c", script], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def _finish(process: subprocess.Popen[str]) -> tuple[int, str]:
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    hits, folder = out.split(maxsplit=1)
    return int(hits), folder.strip()


def _run(cache: Path | str, script: str = SCRIPT, **surroundings: str) -> tuple[int, str]:
    return _finish(_start(cache, script, **surroundings))


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache that holds what the script needs; tests that change it make a copy."""
    cache = tmp_path_factory.mktemp("cache")
    assert _run(cache) == (0, str(cache / f"kernels-{fingerprint()}"))
    return cache


@pytest.mark.soak("starts many processes")
def test_many_processes_can_start_at_once_on_an_empty_folder(tmp_path: Path) -> None:
    for process in [_start(tmp_path) for _ in range(4)]:
        _finish(process)
    hits, folder = _run(tmp_path)
    assert hits == 2, "both entries of the kernel, writable and read-only data, are found again"
    assert Path(folder).parent == tmp_path
    entries = sorted(path.name for path in Path(folder).rglob("*total_of*.code"))
    assert len(entries) == 2, "an entry's file is named by what it is for, whoever wrote it"
    assert not list(Path(folder).rglob("*.unfinished"))


def test_another_checkout_uses_what_is_there(filled: Path, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "microagg_core", tmp_path / "microagg_core", ignore=shutil.ignore_patterns("__pycache__"))
    where = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
    proof = f"assert sums.__file__.startswith({str(tmp_path)!r})\n"
    assert _run(filled, where + SCRIPT + proof)[0] == 2


def test_a_variable_of_numba_that_changes_while_a_process_runs_changes_no_target(filled: Path) -> None:
    lines = SCRIPT.splitlines()
    at = lines.index("X = np.arange(12.0).reshape(2, 6)")
    changed = "import os, numba; os.environ['NUMBA_WARNINGS'] = '0'; numba.njit(lambda x: x + 1)(1)"
    script = "\n".join([*lines[:at], changed, *lines[at:]])
    assert _run(filled, script) == (2, str(filled / f"kernels-{fingerprint()}"))


def test_a_changed_kernel_is_compiled_anew_wherever_it_lies(filled: Path, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "microagg_core", tmp_path / "microagg_core", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "microagg_core" / "group" / "refine" / "added.py").write_text(
        "from microagg_core.kernels.machine_code.jit import jit\n\n@jit\ndef one():\n    return 1\n"
    )
    where = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
    hits, folder = _run(shutil.copytree(filled, tmp_path / "cache"), where + SCRIPT)
    assert hits == 0 and Path(folder).name != f"kernels-{fingerprint()}"


@pytest.mark.parametrize(
    "setting", share([{"NUMBA_OPT": "1"}, {"NUMBA_BOUNDSCHECK": "1"}, {"NUMBA_CPU_NAME": "generic"}], 1), ids=str
)
def test_code_made_otherwise_lies_elsewhere(filled: Path, tmp_path: Path, setting: dict[str, str]) -> None:
    hits, folder = _run(shutil.copytree(filled, tmp_path / "cache"), **setting)
    assert hits == 0 and Path(folder).name != f"kernels-{fingerprint()}"


def test_the_target_is_a_level_and_not_this_machines_processor(tmp_path: Path) -> None:
    script = (
        "from microagg_core.kernels.machine_code import jit\n"
        "from numba.core.registry import cpu_target\n"
        "print(0, *cpu_target.target_context.codegen().magic_tuple()[1:])"
    )
    assert _run(tmp_path, script)[1] in ("x86-64-v3", "generic")


def test_kernels_work_where_somebody_else_compiled_first(filled: Path, tmp_path: Path) -> None:
    """Then numba's code generator is there already, made for this very processor."""
    foreign = "import numba\nassert numba.njit(lambda x: x + 1)(1) == 2\n"
    hits, folder = _run(shutil.copytree(filled, tmp_path / "cache"), foreign + SCRIPT)
    assert hits == 0 and Path(folder).name != f"kernels-{fingerprint()}"


def test_a_damaged_entry_is_compiled_again(filled: Path, tmp_path: Path) -> None:
    cache = shutil.copytree(filled, tmp_path / "cache")
    entries = sorted(cache.rglob("*total_of*.code"))
    for entry, damage in zip(entries, (lambda b: b[:100], lambda b: b[:-9] + b"x" + b[-8:]), strict=True):
        entry.write_bytes(damage(entry.read_bytes()))
    assert _run(cache)[0] == 0
    assert _run(cache)[0] == 2


def test_where_nothing_can_be_written_it_costs_only_time() -> None:
    assert _run("/dev/null/named", NO_TEMPORARY_FOLDER + SCRIPT, XDG_CACHE_HOME="/dev/null/user") == (0, "None")


def test_a_disk_that_takes_no_more_costs_only_time(tmp_path: Path) -> None:
    no_file_above_100_bytes = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))\n"
    hits, folder = _run(tmp_path, no_file_above_100_bytes + SCRIPT)
    assert hits == 0 and not list(Path(folder).iterdir())


def test_a_named_folder_that_cannot_be_written_is_read_all_the_same(filled: Path, tmp_path: Path) -> None:
    """As by another user: what is there is used, what is not goes to the user's own cache."""
    denied = (
        "import os\nallowed = os.access\n"
        f"os.access = lambda path, mode: not str(path).startswith({str(filled)!r}) and allowed(path, mode)\n"
    )
    hits, folder = _run(filled, denied + SCRIPT, XDG_CACHE_HOME=str(tmp_path))
    assert hits == 2 and Path(folder).parent == tmp_path / "microagg"


def _folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, user: int) -> CodeFolders:
    monkeypatch.setattr(os, "getuid", lambda: user)
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null/user")
    monkeypatch.setattr(code_cache.tempfile, "gettempdir", lambda: str(tmp_path / "temporary"))
    return code_cache.code_folders.__wrapped__()


def test_a_folder_that_cannot_be_made_gives_way_to_the_users_and_that_to_one_among_the_temporary_files(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MICROAGG_CACHE_DIR", "/dev/null/named")
    temporary = _folders(monkeypatch, tmp_path, os.getuid()).write
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user"))
    of_user = code_cache.code_folders.__wrapped__().write
    assert temporary is not None and temporary.parent == tmp_path / "temporary" / f"microagg-{os.getuid()}"
    assert of_user is not None and of_user.parent == tmp_path / "user" / "microagg"
    assert of_user.stat().st_mode & 0o777 == temporary.parent.stat().st_mode & 0o777 == 0o700


SOMEBODY = 54321


@pytest.mark.parametrize(("mode", "is_used"), [(0o755, True), (0o775, False), (0o757, False)])
def test_a_named_folder_of_somebody_else_is_trusted_if_only_he_can_write_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, mode: int, is_used: bool
) -> None:
    base = tmp_path / "shared"
    folder = base / f"kernels-{fingerprint()}"
    folder.mkdir(parents=True)
    base.chmod(mode)
    if os.getuid() == 0:
        for path in (base, folder):
            os.chown(path, SOMEBODY + 1, -1)
    monkeypatch.setenv("MICROAGG_CACHE_DIR", str(base))
    found = _folders(monkeypatch, tmp_path, SOMEBODY)
    assert (folder in found.read) == is_used
    folder.chmod(mode)
    assert (folder in _folders(monkeypatch, tmp_path, SOMEBODY).read) == is_used


def test_a_folder_that_others_can_write_is_not_used_even_by_its_owner(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = tmp_path / f"kernels-{fingerprint()}"
    folder.mkdir()
    folder.chmod(0o777)
    monkeypatch.setenv("MICROAGG_CACHE_DIR", str(tmp_path))
    assert folder not in _folders(monkeypatch, tmp_path, os.getuid()).read


def test_a_link_among_the_temporary_files_is_not_followed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MICROAGG_CACHE_DIR", "/dev/null/named")
    (tmp_path / "temporary").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "temporary" / f"microagg-{os.getuid()}").symlink_to(tmp_path / "elsewhere")
    assert _folders(monkeypatch, tmp_path, os.getuid()).write is None


def test_the_users_cache_in_the_home_of_somebody_else_is_not_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As with `sudo`, which may keep HOME: root would run what the user put there."""
    user = os.getuid() or SOMEBODY
    if os.getuid() == 0:
        (tmp_path / "microagg").mkdir()
        os.chown(tmp_path / "microagg", user, -1)
    monkeypatch.setattr(os, "getuid", lambda: user + 1)
    monkeypatch.delenv("MICROAGG_CACHE_DIR", raising=False)
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(code_cache.tempfile, "gettempdir", lambda: "/dev/null/tmp")
    found = code_cache.code_folders.__wrapped__()
    assert found.write is None and found.tried[0] == tmp_path / "microagg"


def test_kernels_need_no_source_that_the_fingerprint_does_not_see() -> None:
    names = (".".join(path.relative_to(ROOT).with_suffix("").parts) for path in kernel_sources())
    # Names of types change no code: the compiler does not read them.
    seen = {name.removesuffix(".__init__") for name in names} | {"microagg_core.arrays"}
    for path in kernel_sources():
        words = [line.split() for line in path.read_text(encoding="utf-8").splitlines()]
        used = {line[1] for line in words if line[:1] in (["from"], ["import"]) and "microagg_core" in line[1]}
        assert used <= seen, path.name


def test_functions_of_different_processes_never_have_one_symbol(tmp_path: Path) -> None:
    """Numba counts functions from 1 in each process, and links those of one name and count as one."""
    script = (
        "from microagg_core.kernels.machine_code.jit import jit\n"
        "double = jit(lambda x: 2 * x)\n"
        "double(4)\n"
        "print(*(done.fndesc.unique_name for done in double.overloads.values()))\n"
    )
    names = {_start(tmp_path, script).communicate(timeout=120)[0] for _ in range(2)}
    assert len(names) == 2 and all("lambda" in name for name in names)


def test_without_a_home_compiled_code_outlasts_the_run_that_made_it(tmp_path: Path) -> None:
    """A run has a temporary folder of its own, which goes with it; kernels are for the next run too."""
    script = (
        "from microagg_flows.process import scratch\n"
        "with scratch() as folder:\n"
        "    from microagg_core.kernels.machine_code.code_cache import code_folders\n"
        "    print(folder, code_folders().write)\n"
    )
    named = ("MICROAGG_CACHE_DIR", "NUMBA_CACHE_DIR", "XDG_CACHE_HOME")
    environment = {name: value for name, value in os.environ.items() if name not in named}
    environment |= {"HOME": "/proc/nowhere", "TMPDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    scratch, kept = map(Path, done.stdout.split())
    assert scratch.parent == tmp_path and not scratch.exists()
    assert kept.is_dir() and kept.parent.parent == tmp_path
