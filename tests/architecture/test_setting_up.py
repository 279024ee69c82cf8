"""The first command of a fresh clone: what it decides before it installs anything."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
BOOTSTRAP = ROOT / "infra" / "bootstrap.py"


@pytest.fixture
def setup() -> ModuleType:
    spec = importlib.util.spec_from_file_location("setting_up", ROOT / "infra" / "setting_up.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def venv(setup: ModuleType, tmp_path: Path) -> Path:
    """A real environment without packages, stamped as installed."""
    folder = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (folder / setup.STAMP).write_text(setup.fingerprint() + "[all]\n")
    return folder


def bootstrap(*arguments: str, **surroundings: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(BOOTSTRAP), *arguments]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **surroundings})


def test_a_wrong_call_shows_the_two_commands() -> None:
    run = bootstrap("demos")
    assert run.returncode == 2
    assert "bootstrap.py demo" in run.stderr and "bootstrap.py test" in run.stderr
    run = bootstrap("test", "unit", "units")
    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr == (
        "bootstrap: no tests are called 'units'; there are unit, property, reference, integration, functional, "
        "architecture, benchmark, soak, doctests, lint\n"
    )


def test_a_folder_that_is_no_environment_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    run = bootstrap("demo", MICROAGG_VENV=str(tmp_path))
    assert run.returncode == 1
    assert "is no environment of this Python" in run.stderr and "Traceback" not in run.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_where_no_environment_can_be_made_it_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    run = bootstrap("demo", MICROAGG_VENV=str(tmp_path / "file" / "venv"))
    assert run.returncode == 1
    assert "no virtual environment can be made" in run.stderr and "Traceback" not in run.stderr


def test_what_is_installed_is_not_installed_again(setup: ModuleType, venv: Path) -> None:
    assert setup.is_installed(venv, "[all]")
    assert not setup.is_installed(venv, "[all,test]")
    (venv / setup.STAMP).write_text(setup.fingerprint() + "[all,test]\n")
    assert setup.is_installed(venv, "[all]") and setup.is_installed(venv, "[all,test]")


def test_other_requirements_are_installed(
    setup: ModuleType, venv: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clone = tmp_path / "clone"
    (clone / "infra").mkdir(parents=True)
    monkeypatch.setattr(setup, "ROOT", clone)
    monkeypatch.setattr(setup, "CONSTRAINTS", clone / "infra" / "constraints.txt")
    for changed in (clone / "pyproject.toml", setup.CONSTRAINTS):
        for path in (clone / "pyproject.toml", setup.CONSTRAINTS):
            path.write_text("")
        (venv / setup.STAMP).write_text(setup.fingerprint() + "[all]\n")
        assert setup.is_installed(venv, "[all]")
        changed.write_text("# changed")
        assert not setup.is_installed(venv, "[all]")


def test_an_environment_whose_python_is_gone_is_not_used(setup: ModuleType, venv: Path) -> None:
    python = setup.program(venv, "python")
    assert setup.works(python)
    python.unlink()
    python.symlink_to("/nowhere/python3")
    assert not setup.works(python) and not setup.is_installed(venv, "[all]")


def test_an_environment_without_pip_is_filled_by_the_one_outside(setup: ModuleType, venv: Path) -> None:
    if importlib.util.find_spec("pip") is None:
        pytest.skip("this Python has no pip itself, so there is none to lend")
    pip = setup.pip_for(setup.program(venv, "python"))
    assert pip[0] == sys.executable and "--python" in pip


def test_what_leads_out_of_the_environment_is_taken_from_the_surroundings(
    setup: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PYTHONPATH", "PIP_TARGET", "PIP_USER"):
        monkeypatch.setenv(name, "1")
    assert {"PYTHONPATH", "PIP_TARGET"} & setup.clean().keys() == set()
    assert setup.clean()["PIP_USER"] == "0"


def test_every_check_runs_and_the_first_failure_is_the_exit_code(
    setup: ModuleType, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    ran: list[list[str]] = []

    def follow(command: list[str], folder: Path) -> int:
        ran.append(command[2:])
        return {"mypy": 2, "ruff": 0}.get(command[2], 5)

    monkeypatch.setattr(setup, "follow", follow)
    monkeypatch.setattr(setup, "start", lambda command, folder: subprocess.Popen([sys.executable, "-c", ""]))
    assert setup.run_checks(Path("venv"), [], ["-k", "x"]) == 2
    assert [command[0] for command in ran] == ["ruff", "ruff", "mypy", "pytest"]
    assert ran[-1] == ["pytest", *setup.side_by_side(), "-k", "x"]
    assert "failed before the tests: mypy" in capfd.readouterr().out


@pytest.mark.parametrize(
    ("categories", "expected"),
    [
        (["unit", "doctests"], [["pytest", "PARALLEL", "tests/unit", "microagg_core", "flows/microagg_flows", "-x"]]),
        (["lint"], [["ruff", "check", "."], ["ruff", "format", "--check", "."], ["mypy"]]),
        (["lint", "unit"], [["ruff"], ["ruff"], ["mypy"], ["pytest", "tests/unit", "-x"]]),
    ],
)
def test_a_category_runs_alone(setup: ModuleType, categories: list[str], expected: list[list[str]]) -> None:
    """Those that need no kernels start no processes side by side either: they are over before these would be up."""
    assert setup.categories_of([*categories, "-x", "soak"]) == categories
    commands = [command[2:] for command in setup.checks("python", categories, ["-x"]).values()]
    for command, words in zip(commands, expected, strict=True):
        found = [word for word in words if word != "PARALLEL"]
        if "PARALLEL" in words:
            found[1:1] = setup.side_by_side()
        assert command[: len(found)] == found


def test_every_folder_of_tests_is_a_category(setup: ModuleType) -> None:
    """And all that pytest collects without a category is in one."""
    folders = {path.parent.relative_to(ROOT) for path in (ROOT / "tests").rglob("test_*.py")}
    places = {Path(place) for category in setup.CATEGORIES.values() for place in category}
    assert folders | {Path("microagg_core"), Path("flows/microagg_flows")} == places
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["pytest"]["ini_options"]
    assert {Path(place) for place in settings["testpaths"]} == {Path("tests")} | {
        p for p in places if p.parts[0] != "tests"
    }


@pytest.mark.parametrize(
    ("arguments", "compiles", "code", "ends"),
    [
        (["unit", "lint"], False, 0, 0),
        ([], True, 5, 0),
        ([], True, 130, 130),
    ],
)
def test_kernels_are_compiled_once_and_only_for_tests_that_run_them(
    setup: ModuleType, monkeypatch: pytest.MonkeyPatch, arguments: list[str], compiles: bool, code: int, ends: int
) -> None:
    """Beside what needs none of them; tests do without, if need be, but not where somebody interrupted."""
    began: list[list[str]] = []
    ran: list[str] = []

    def start(command: list[str], folder: Path) -> subprocess.Popen[bytes]:
        began.append(command[1:])
        return subprocess.Popen([sys.executable, "-c", f"raise SystemExit({code})"])

    monkeypatch.setattr(setup, "set_up", lambda venv, extra: None)
    monkeypatch.setattr(setup, "start", start)
    monkeypatch.setattr(setup, "follow", lambda command, folder: ran.append(command[2]) or 0)
    assert setup.main(["test", *arguments]) == ends
    assert began == ([["warm", "--all"]] if compiles else [])
    assert ("pytest" in ran) is (ends == 0)


def test_the_hosted_checks_and_the_hooks_run_the_commands_that_there_are(setup: ModuleType) -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8"))
    assert workflow["jobs"]["everything"]["steps"][-1] == {"run": ".ci/run"}
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
    (repository,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"]
    for hook in repository["hooks"]:
        program, script, command, *categories = hook["entry"].split()
        assert (program, script, command) == ("python3", "infra/bootstrap.py", "test")
        assert setup.is_quick(categories) and set(categories) <= set(setup.CATEGORIES)


def test_the_readme_of_the_tests_has_every_category(setup: ModuleType) -> None:
    text = (ROOT / "tests" / "README.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `(\w+)` \| .* \| .* \|$", text, re.MULTILINE)) == set(setup.CATEGORIES)
