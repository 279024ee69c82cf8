"""What bootstrap.py does, once it knows that this Python is new enough."""

from __future__ import annotations

import hashlib
import itertools
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CONSTRAINTS = ROOT / "infra" / "constraints.txt"
#: What `test` can be asked for, and what pytest is given for it; lint is ruff and mypy.
CATEGORIES: dict[str, list[str]] = {
    **{
        name: [f"tests/{name}"]
        for name in (
            "unit", "property", "reference", "integration", "functional", "architecture", "benchmark", "soak"
        )
    },
    "doctests": ["microagg_core", "flows/microagg_flows"],
    "lint": [],
}  # fmt: skip
#: Those that are over before kernels would be compiled and processes started: they run none.
QUICK = {"unit", "architecture", "lint"}
USAGE = f"""\
python3 infra/bootstrap.py demo [ARGS]                set everything up, then run `microagg demo ARGS`
python3 infra/bootstrap.py test [CATEGORY...] [ARGS]  set everything up, then run these tests, with ARGS for pytest;
                                                      without a category: all of {", ".join(CATEGORIES)}"""
STAMP = "microagg-installed.txt"
EXTRAS = {"demo": "[all]", "test": "[all,test]"}
#: The size of the demo's groups: other sizes need no other kernels, but for pairs.
DEMO_K = "5"
PIP_ADVICE = (
    f"{sys.executable} needs its venv module with ensurepip, or pip 22.3 or newer; install "
    f"python{sys.version_info[0]}.{sys.version_info[1]}-venv or python3-pip from your distribution"
)


class SetupError(Exception):
    """A reason why the project cannot be set up, as one sentence for the person at the terminal."""


def main(arguments: list[str]) -> int:
    """Set up, run the command, and return its exit code; 2 for a wrong call, 1 where setting up fails."""
    if not arguments or arguments[0] not in EXTRAS:
        print(USAGE, file=sys.stderr)
        return 2
    command, rest = arguments[0], arguments[1:]
    categories = categories_of(rest) if command == "test" else []
    unknown = [name for name in categories if name not in CATEGORIES]
    if unknown:
        print(f"bootstrap: no tests are called {unknown[0]!r}; there are {', '.join(CATEGORIES)}", file=sys.stderr)
        return 2
    try:
        venv = Path(os.environ.get("MICROAGG_VENV") or ROOT / ".venv").absolute()
        set_up(venv, EXTRAS[command])
    except SetupError as error:
        print(f"bootstrap: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return run_demo(venv, rest) if command == "demo" else run_checks(venv, categories, rest[len(categories) :])


def categories_of(arguments: list[str]) -> list[str]:
    """Take the words that the arguments begin with: an option or a path is pytest's, and so is all that follows it."""
    return list(itertools.takewhile(lambda argument: re.fullmatch(r"\w+", argument), arguments))


def is_quick(categories: list[str]) -> bool:
    return bool(categories) and QUICK.issuperset(categories)


def set_up(venv: Path, extra: str) -> None:
    python = program(venv, "python")
    if is_installed(venv, extra):
        return
    print(f"bootstrap: setting up {venv}; this takes a few minutes, once", flush=True)
    ours = venv == ROOT / ".venv" or (venv / STAMP).exists()
    # Without a stamp the last set-up did not get to its end.
    if not works(python) or (ours and not (venv / STAMP).exists()):
        make_venv(venv, ours)
    pip = pip_for(python)
    # setuptools first and at its own pinned version: an isolated build would fetch the newest.
    install(pip, ["setuptools"])
    install(pip, ["--no-build-isolation", "--editable", f"{ROOT}{extra}"])
    (venv / STAMP).write_text(f"{fingerprint()}{extra}\n", encoding="utf-8")


def is_installed(venv: Path, extra: str) -> bool:
    """Tell whether the environment holds what this clone asks for; the test packages include the demo's."""
    try:
        stamp = (venv / STAMP).read_text(encoding="utf-8").strip()
    except OSError:
        return False
    return stamp in (fingerprint() + extra, fingerprint() + EXTRAS["test"]) and works(program(venv, "python"))


def fingerprint() -> str:
    """Hash what an installation depends on: where the clone is, what it asks for, and the Python that has it."""
    digest = hashlib.sha256(f"{ROOT} {sys.version_info[:2]}".encode())
    for path in (ROOT / "pyproject.toml", CONSTRAINTS):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def program(venv: Path, name: str) -> Path:
    return venv / "Scripts" / f"{name}.exe" if os.name == "nt" else venv / "bin" / name


def works(python: Path) -> bool:
    """Tell whether there is an environment of this Python's version that starts: an upgrade may have broken it."""
    if not python.exists():
        return False
    code = f"import sys; sys.exit(sys.version_info[:2] != {tuple(sys.version_info[:2])})"
    return quietly([str(python), "-c", code]) == 0


def make_venv(venv: Path, ours: bool) -> None:
    """Make a new environment; without a pip of its own where this Python cannot give it one."""
    if venv.exists() and not ours and any(venv.iterdir()):
        raise SetupError(
            f"{venv} is there and is no environment of this Python; move it, or name another in MICROAGG_VENV"
        )
    for way in (["--clear"], ["--clear", "--without-pip"]):
        if quietly([sys.executable, "-m", "venv", *way, str(venv)]) == 0:
            return
    raise SetupError(f"no virtual environment can be made in {venv}; check that it can be written, and {PIP_ADVICE}")


def pip_for(python: Path) -> list[str]:
    """Find the pip that installs into the environment: its own, or this Python's where it has none."""
    if quietly([str(python), "-m", "pip", "--version"]) == 0:
        return [str(python), "-m", "pip"]
    outside = [sys.executable, "-m", "pip", "--python", str(python)]
    if quietly([*outside, "--version"]) == 0:
        return outside
    raise SetupError(f"there is no pip to install with: {PIP_ADVICE}")


def install(pip: list[str], what: list[str]) -> None:
    command = [*pip, "install", "--quiet", "--constraint", str(CONSTRAINTS), *what]
    if subprocess.run(command, env=clean()).returncode != 0:
        raise SetupError("installing failed, as pip says above; check the network or the package index, and run again")


def quietly(command: list[str]) -> int:
    return subprocess.run(command, env=clean(), capture_output=True).returncode


def clean() -> dict[str, str]:
    """Take from the surroundings what would lead Python or pip out of the environment."""
    astray = {"PYTHONPATH", "PYTHONHOME", "PIP_TARGET", "PIP_PREFIX", "PIP_USER", "VIRTUAL_ENV"}
    kept = {name: value for name, value in os.environ.items() if name not in astray}
    # A user's pip configuration may ask for --user, which a virtual environment refuses.
    return {**kept, "PIP_USER": "0", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}


def run_demo(venv: Path, arguments: list[str]) -> int:
    """Run `microagg demo` in the folder where the user is, once what it needs is compiled, if it can be."""
    microagg = str(program(venv, "microagg"))
    if follow([microagg, "warm", "--k", DEMO_K], Path.cwd()) == 130:
        return 130
    return follow([microagg, "demo", *arguments], Path.cwd())


def run_checks(venv: Path, categories: list[str], arguments: list[str]) -> int:
    """Run the checks that are asked for, the tests last; return the exit code of the first that failed.

    All kernels are compiled meanwhile: no test waits for them, and no two that run side by side compile the same.
    """
    commands = checks(str(program(venv, "python")), categories, arguments)
    tests = {"pytest": commands.pop("pytest")} if "pytest" in commands else {}
    compiling = [] if is_quick(categories) else [start([str(program(venv, "microagg")), "warm", "--all"], ROOT)]
    failed = run_each(commands)
    if 130 in [*failed.values(), *map(end_of, compiling)]:
        return 130
    if tests and failed:
        print(f"bootstrap: failed before the tests: {', '.join(failed)}", flush=True)
    failed |= run_each(tests)
    return 130 if 130 in failed.values() else next(iter(failed.values()), 0)


def run_each(commands: dict[str, list[str]]) -> dict[str, int]:
    """Run commands in sight of the user, up to one that is interrupted; return the exit codes of those that failed."""
    failed: dict[str, int] = {}
    for name, command in commands.items():
        print(f"bootstrap: {name}", flush=True)
        if code := follow(command, ROOT):
            failed[name] = code
        if code == 130:
            break
    return failed


def checks(python: str, categories: list[str], arguments: list[str]) -> dict[str, list[str]]:
    """List the commands for some categories, or for all where none is named."""
    lint = {
        "ruff check": [python, "-m", "ruff", "check", "."],
        "ruff format": [python, "-m", "ruff", "format", "--check", "."],
        "mypy": [python, "-m", "mypy"],
    }
    places = [place for name in categories for place in CATEGORIES[name]]
    pytest = {
        "pytest": [python, "-m", "pytest", *(() if is_quick(categories) else side_by_side()), *places, *arguments]
    }
    return {**(lint if not categories or "lint" in categories else {}), **(pytest if places or not categories else {})}


def side_by_side() -> list[str]:
    """Have pytest run files of tests on every core; a few at most, as each starts servers and clusters of its own."""
    return ["-n", str(min(os.cpu_count() or 1, 4)), "--dist", "loadfile", "--no-loadscope-reorder"]


def follow(command: list[str], folder: Path) -> int:
    return end_of(start(command, folder))


def start(command: list[str], folder: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(command, cwd=folder, env=clean())


def end_of(process: subprocess.Popen[bytes]) -> int:
    """Wait for the exit code of a command; 130 when it was interrupted, as a shell has it."""
    while True:
        try:
            code = process.wait()
            return 128 - code if code < 0 else code
        except KeyboardInterrupt:
            # The command got the same signal and is putting things away.
            continue
