"""The shape of the code: short functions, pinned versions, and nothing that only one machine knows."""

from __future__ import annotations

import ast
import itertools
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from rooms import parsed

ROOT = Path(__file__).resolve().parents[2]
MOST_LINES_OF_A_FUNCTION = 60
MEDIAN_LINES_OF_A_FUNCTION = 15
CODE = sorted(path for folder in ("microagg_core", "flows", "infra") for path in (ROOT / folder).rglob("*.py"))

MACHINE_PATHS = re.compile(
    r"(?<![\w.<>{}/~$*)])/(?:work|root|home|Users|private|mnt)/|/opt/(?:wheels|pypi)|/tmp/bash[_]"
)
REGISTRIES = re.compile(
    r"pypi\.org|pythonhosted\.org|npmjs\.(?:com|org)|docker\.io|ghcr\.io|gcr\.io|quay\.io|mcr\.microsoft\.com"
    r"|(?<![\w./])registry\.[a-z-]+\.[a-z]|(?:extra-)?index[-_]url|find[-_]links|trusted[-_]host"
)
OTHER_CLUTTER = re.compile(r"\bTO" r"DO\b|\bFIX" r"ME\b|\bXX" r"X\b|pragma: no" r" cover|<<<<" r"<<<")


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def tracked_files() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    if listed.returncode != 0:
        pytest.skip("not a git checkout: which files belong to the project cannot be told")
    return [path for name in listed.stdout.split("\0") if name and (path := ROOT / name).is_file()]


def text_of(path: Path) -> str:
    data = path.read_bytes()
    return "" if b"\0" in data else data.decode("utf-8", errors="replace")


def test_functions_are_short() -> None:
    lengths = {
        f"{named(path)}: {node.name}": (node.end_lineno or node.lineno) - node.lineno + 1
        for path in CODE
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert {name: lines for name, lines in lengths.items() if lines > MOST_LINES_OF_A_FUNCTION} == {}
    assert sorted(lengths.values())[len(lengths) // 2] <= MEDIAN_LINES_OF_A_FUNCTION


@pytest.mark.parametrize("what", [MACHINE_PATHS, REGISTRIES, OTHER_CLUTTER], ids=["paths", "registries", "clutter"])
def test_no_file_holds_what_does_not_belong_there(what: re.Pattern[str]) -> None:
    found = [
        f"{named(path)}:{number}"
        for path in tracked_files()
        for number, line in enumerate(text_of(path).splitlines(), 1)
        if what.search(line)
    ]
    assert found == []


def test_every_requirement_has_its_version_in_the_constraints() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    requirements = [*project["dependencies"], *itertools.chain(*project["optional-dependencies"].values())]
    lines = (ROOT / "infra" / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pinned = dict(line.split("==") for line in lines if line and not line.startswith("#"))
    known = {re.sub(r"[-_.]+", "-", name).lower() for name in pinned}
    required = {re.split(r"[\[<>=!~ ]", requirement)[0] for requirement in requirements}
    # The extra that names all others is made of this project's own.
    assert {re.sub(r"[-_.]+", "-", name).lower() for name in required} - known == {"microagg"}
    assert all(re.fullmatch(r"[0-9][0-9a-z.]*", version) for version in pinned.values())


def dependency_lines() -> list[tuple[str, str]]:
    """Every requirement of pyproject.toml, with the line above it."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    project = tomllib.loads(text)["project"]
    requirements = [
        *project["dependencies"],
        *(r for extra in project["optional-dependencies"].values() for r in extra),
    ]
    lines = [line.strip() for line in text.splitlines()]
    return [(r, lines[lines.index(f'"{r}",') - 1]) for r in requirements]


def test_pins_that_hold_a_version_back_are_explained() -> None:
    """The next major version may be shut out without a word; anything narrower has its reason above it."""
    unexplained = []
    for requirement, above in dependency_lines():
        upper = re.findall(r"(?:<=?|==|!=|~=)\s*([0-9.]+)", requirement)
        lower = re.search(r">=\s*([0-9]+)", requirement)
        next_major = lower is not None and upper == [str(int(lower[1]) + 1)]
        if upper and not next_major and not above.startswith("#"):
            unexplained.append(requirement)
    assert unexplained == []
