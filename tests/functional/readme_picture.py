"""The README's pictures of a release, drawn from real runs of the command.

    python tests/functional/readme_picture.py            prints them
    python tests/functional/readme_picture.py --write    puts them into the README

The first is ``deploy/examples/sme``: some of its companies before and after, and the lines of the terminal. The second
is a sentence on the demo. Only the seconds differ from run to run: :func:`timeless` takes them out.
"""

from __future__ import annotations

import argparse
import csv
import re
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from command_line import run_command

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
EXAMPLE = ROOT / "deploy" / "examples" / "sme"
#: The companies that the picture shows, by name, and their columns.
SHOWN = ("A&A Ltd", "B&B SpA", "D&D BV", "E&E SL")
MASKED, KEPT = ("sector", "surface_m2", "employees"), "turnover_eur"
#: The stages whose lines are shown; the last line names a folder of the machine.
STAGE_LINE = re.compile(r"^(\w+ +)[\d.]+ s  (?!manifest at )(.*)$", re.MULTILINE)


def between(name: str) -> re.Pattern[str]:
    return re.compile(rf"(?<=<!-- picture: {name} -->\n).*?(?=<!-- end of the picture -->)", re.DOTALL)


def timeless(text: str) -> str:
    """The text without the seconds of stages.

    >>> timeless("plan           0.3 s  1 blocking keys make 1 blocks")
    'plan  1 blocking keys make 1 blocks'
    """
    return STAGE_LINE.sub(lambda line: f"{line[1].rstrip()}  {line[2]}", text)


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def company_table(before: list[dict[str, str]], after: list[dict[str, str]]) -> str:
    """Some companies as they came in and as they went out; their turnover, which is kept, tells which is which."""
    released = {record[KEPT]: record for record in after}
    lines = [
        "| company | sector | surface | employees | turnover | | sector | surface | employees | turnover |",
        "| --- | --- | ---: | ---: | ---: | --- | --- | ---: | ---: | ---: |",
    ]
    named = {record["company"]: record for record in before}
    for company in SHOWN:
        record = named[company]
        cells = [company, *(record[c] for c in (*MASKED, KEPT)), "→"]
        cells += [released[record[KEPT]][c] for c in (*MASKED, KEPT)]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def stage_lines(said: str) -> str:
    return "".join(f"{line[0]}\n" for line in STAGE_LINE.finditer(said))


def example_picture(folder: Path) -> str:
    place = shutil.copytree(EXAMPLE, folder / "sme", ignore=shutil.ignore_patterns("release", "work"))
    ended = run_command("run", "release.yaml", cwd=place)
    if ended.code:
        raise RuntimeError(ended.err)
    (file,) = place.glob("release/example/r0001/data/*.csv")
    table = company_table(rows(place / "companies.csv"), rows(file))
    return f"{table}\n```\n$ microagg run deploy/examples/sme/release.yaml\n{stage_lines(ended.err)}```\n"


def demo_sentence(folder: Path) -> str:
    ended = run_command("demo", "--direct", cwd=folder)
    if ended.code:
        raise RuntimeError(ended.err)
    said = stage_lines(ended.err)
    blocks = re.search(r"make (\d+ blocks in \d+ partitions)", said)
    loss = re.search(r"information loss (.* could be avoided)", said)
    if blocks is None or loss is None:
        raise RuntimeError(said)
    return f"The demo releases 200,000 people in {blocks[1]},\nand loses {loss[1]}.\n"


PICTURES: dict[str, Callable[[Path], str]] = {"example": example_picture, "demo": demo_sentence}


def main() -> None:
    """Print the pictures, or write them into the README."""
    parser = argparse.ArgumentParser(description="The pictures of a release in README.md.")
    parser.add_argument("--write", action="store_true", help="put them into README.md")
    arguments = parser.parse_args()
    for name, draw in PICTURES.items():
        with tempfile.TemporaryDirectory() as folder:
            picture = draw(Path(folder))
        if arguments.write:
            text = README.read_text(encoding="utf-8")
            README.write_text(between(name).sub(picture.replace("\\", r"\\"), text), encoding="utf-8")
        else:
            print(picture)


if __name__ == "__main__":
    sys.exit(main())
