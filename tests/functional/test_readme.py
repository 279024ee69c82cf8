"""The READMEs are true: pictures are drawn again from real runs, examples run, and commands have their options."""

from __future__ import annotations

import doctest
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from command_line import call_command, run_command
from readme_picture import PICTURES, README, ROOT, between, timeless

READMES = sorted(
    path for place in ("*.md", "deploy/*.md", "flows/*.md", "microagg_core/**/*.md") for path in ROOT.glob(place)
)
HOUSEHOLDS = ROOT / "deploy" / "examples" / "households"
EXAMPLES = [path for path in READMES if ">>> " in path.read_text(encoding="utf-8")]
FENCED = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
#: A command as it is printed, with what follows on its line.
COMMAND = re.compile(r"(?<![\w-])microagg ([a-z]+)((?: [^`\n]+)?)")


def assert_true(name: str, folder: Path) -> None:
    """A picture is what is drawn now; where it is not: python tests/functional/readme_picture.py --write."""
    shown = between(name).search(README.read_text(encoding="utf-8"))
    assert shown is not None
    assert timeless(shown[0]) == timeless(PICTURES[name](folder))


def test_the_picture_of_the_example_is_true(tmp_path: Path) -> None:
    assert_true("example", tmp_path)


@pytest.mark.soak("releases 200,000 people")
def test_the_sentence_on_the_demo_is_true(tmp_path: Path) -> None:
    assert_true("demo", tmp_path)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: str(path.relative_to(ROOT)))
def test_examples_of_a_readme_run(path: Path) -> None:
    failed, tried = doctest.testfile(str(path), module_relative=False, encoding="utf-8")
    assert tried > 0
    assert failed == 0


def test_the_example_in_python_runs() -> None:
    example = ROOT / "deploy" / "examples" / "python" / "masking.py"
    run = subprocess.run([sys.executable, str(example)], capture_output=True, text=True, check=True)
    assert "k = 3: information loss 34.0 %, groups of [3, 4, 4]" in run.stdout


def test_households_of_the_example_share_all_that_is_released(tmp_path: Path) -> None:
    """Whoever puts rows together by the rent, which is each household's own, finds three households of each profile."""
    place = shutil.copytree(HOUSEHOLDS, tmp_path / "households", ignore=shutil.ignore_patterns("release", "work"))
    assert run_command("run", "release.yaml", "--quiet", cwd=place).code == 0
    (file,) = place.glob("release/example/r0001/data/*.csv")
    released = pd.read_csv(file).sort_values(["age", "sex", "tenure"])
    rows = released[["age", "sex", "tenure"]].astype(str).agg(" ".join, axis=1)
    assert rows.groupby(released["rent"]).agg(", ".join).value_counts().tolist() == [3, 3, 3, 3]
    assert released.groupby("rent")["tenure"].nunique().eq(1).all()


def printed_commands() -> dict[str, set[str]]:
    """The commands that the READMEs print in code, each with the options that stand behind it."""
    options: dict[str, set[str]] = {}
    for path in READMES:
        text = path.read_text(encoding="utf-8")
        fenced = FENCED.findall(text)
        inline = [" ".join(code.split()) for code in re.findall(r"`([^`]+)`", FENCED.sub("", text))]
        for name, rest in COMMAND.findall("\n".join([*fenced, *inline])):
            if name == "series":  # commands of its own stand behind it
                name = f"series {rest.split()[0]}"
            options.setdefault(name, set()).update(re.findall(r"--[a-z]+", rest.partition("#")[0]))
    return options


def test_printed_commands_are_there_with_their_options(tmp_path: Path) -> None:
    commands = printed_commands()
    assert {"run", "plan", "verify", "init", "compare", "warm", "clean"} <= commands.keys()
    for name, options in commands.items():
        shown = call_command(*name.split(), "--help", cwd=tmp_path)
        assert shown.code == 0, name
        assert {option for option in options if option not in shown.out} == set(), name


@pytest.mark.parametrize("surroundings", [{"COLUMNS": "30"}, {"GITHUB_ACTIONS": "true", "FORCE_COLOR": "1"}], ids=str)
def test_options_are_whole_on_any_terminal(surroundings: dict[str, str]) -> None:
    shown = run_command("run", "--help", env=surroundings)
    assert {option for option in printed_commands()["run"] if option not in shown.out} == set()
