"""What the READMEs name is there, and the specs that they print are specs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from microagg_core.spec.loading import load_spec
from microagg_flows.command.commands.release import run
from microagg_flows.stages import STAGES

ROOT = Path(__file__).resolve().parents[2]
READMES = sorted(
    path
    for place in (".github/*.md", "*.md", "deploy/**/*.md", "flows/**/*.md", "infra/*.md", "microagg_core/**/*.md")
    for path in ROOT.glob(place)
)
LINK = re.compile(r"\]\((?!https?://|#)([^)#]+)")
#: A path from the project's top, as a command or a sentence names it; files that a run makes are no part of it.
NAMED_PATH = re.compile(r"(?<![\w./<-])((?:deploy|flows|infra|microagg_core|tests)/[\w./-]*\w)")
MADE_BY_RUNS = frozenset({"microagg_core/kernels/compiled", "deploy/examples/sme/release", "deploy/examples/sme/work"})


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def blocks(path: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", path.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def test_links_lead_somewhere() -> None:
    links = [(path, link) for path in READMES for link in LINK.findall(path.read_text(encoding="utf-8"))]
    assert [(named(path), link) for path, link in links if not (path.parent / link).exists()] == []


def test_files_that_are_named_are_there() -> None:
    missing = [
        (named(path), name)
        for path in READMES
        for name in sorted(set(NAMED_PATH.findall(" ".join(path.read_text(encoding="utf-8").split()))))
        if "NAME" not in name and name not in MADE_BY_RUNS and not (ROOT / name).exists()
    ]
    assert missing == []


@pytest.mark.parametrize("path", [path for path in READMES if blocks(path, "yaml")], ids=named)
def test_a_printed_spec_is_a_spec(path: Path, tmp_path: Path) -> None:
    for text in blocks(path, "yaml"):
        (tmp_path / "release.yaml").write_text(text, encoding="utf-8")
        assert load_spec(str(tmp_path / "release.yaml")).k >= 2


def test_the_first_page_stays_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 160


def test_the_stages_are_listed_in_their_order() -> None:
    """In the flows' README, and in what the command says of itself."""
    stages = [stage.name for stage in STAGES]
    table = (ROOT / "flows" / "README.md").read_text(encoding="utf-8").partition("| stage |")[2].partition("\n\n")[0]
    assert re.findall(r"^\| (\w+) \|", table, re.MULTILINE) == stages
    assert run.function.__doc__ == f"Make a release: {', '.join(stages)}."
