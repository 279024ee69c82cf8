"""What the file of the image promises; `tests/functional/image.py` builds it and makes releases in it."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "deploy" / "image" / "Containerfile").read_text(encoding="utf-8")
LINES = re.sub(r"\\\n\s*", "", re.sub(r"^#.*\n", "", TEXT, flags=re.MULTILINE)).splitlines()
#: Lines of each stage, without its first.
MADE, FINAL = ([line for line in stage.splitlines() if line] for stage in "\n".join(LINES).split("FROM ${BASE}")[1:])


def _words(lines: list[str], instruction: str) -> list[list[str]]:
    return [line.split()[1:] for line in lines if line.startswith(f"{instruction} ")]


def test_it_runs_as_somebody_without_rights() -> None:
    (user,) = _words(FINAL, "USER")
    assert re.fullmatch(r"[1-9]\d{3,}:[1-9]\d{3,}", user[0])
    after = FINAL[FINAL.index(f"USER {user[0]}") :]
    assert not _words(after, "RUN") and not _words(after, "COPY")
    assert len(_words(after, "CMD")) == 1


def test_it_copies_what_it_names_and_nothing_else() -> None:
    assert not _words(LINES, "ADD")
    copied = [name for words in _words(MADE, "COPY") for name in words[:-1]]
    assert sorted(copied) == [
        "LICENSE",
        "README.md",
        "flows",
        "infra/constraints.txt",
        "microagg_core",
        "pyproject.toml",
    ]
    assert all((ROOT / name).exists() for name in copied)
    assert _words(FINAL, "COPY") == [["--from=made", "/opt/microagg", "/opt/microagg"]]


def test_where_packages_come_from_is_told_at_build_time() -> None:
    instructions = "\n".join(LINES)
    assert "--mount=type=secret,id=pip.conf,target=/etc/pip.conf" in instructions
    assert not re.search(r"https?:|--index|--extra-index|--find|--trusted", instructions)
    assert "PIP_CONSTRAINT=infra/constraints.txt" in instructions


def test_kernels_are_compiled_where_the_program_reads_them_first() -> None:
    warm = next(line for line in MADE if "microagg warm" in line)
    assert "--all" in warm and "microagg_core.kernels" in warm and warm.endswith('/compiled"')


def test_nothing_secret_is_in_its_environment() -> None:
    names = [word.partition("=")[0] for words in _words(LINES, "ENV") + _words(LINES, "ARG") for word in words]
    assert set(names) == {
        "BASE", "EXTRAS", "PATH", "HOME", "PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED", "DO_NOT_TRACK",
        "PREFECT_SERVER_ANALYTICS_ENABLED",
    }  # fmt: skip
