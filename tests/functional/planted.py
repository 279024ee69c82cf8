"""Values that nobody can mistake, a project that has them in every column, and where to look for them."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
from command_line import Ended, Project

TEXTS = {
    "who": "canary-who-Xanthippe",
    "left out": "canary-dropped-Yggdrasil",
    "town": "canary-town-Zwolle",
    "small town": "canary-hamlet-Quuxby",
    "note": "canary-note-Wolverine",
}
NUMBERS = {"x": 918_273_645_546, "number": 728_394_051_627, "code": 837_465_920_183}
FRACTION = 8_675_309.015_625
N = 200


def needles() -> list[bytes]:
    found = [text.encode() for text in TEXTS.values()]
    found += [text.encode("utf-16-le") for text in TEXTS.values()]
    for number in NUMBERS.values():
        found += [str(number).encode(), f"{number:_}".encode(), f"{number:,}".encode(), struct.pack("<q", number)]
        found.append(struct.pack("<d", float(number)))
    return [*found, repr(FRACTION).encode(), struct.pack("<d", FRACTION)]


def canaries() -> pa.Table:
    """Records whose every column holds at least one canary, and names of towns of which some have too few people."""
    town = [TEXTS["town"], "other-" + TEXTS["town"]] * (N // 2)
    town[:2] = [TEXTS["small town"]] * 2
    return pa.table(
        {
            "who": [f"{TEXTS['who']}-{i}" for i in range(N)],
            "number": [NUMBERS["number"] + i * 1000 for i in range(N)],
            "left out": [TEXTS["left out"]] * N,
            "town": town,
            "code": [NUMBERS["code"], 5] * (N // 2),
            "x": [NUMBERS["x"] + i if i % 50 == 0 else i for i in range(N)],
            "y": [FRACTION + i if i % 40 == 0 else i / 7 for i in range(N)],
            "note": [TEXTS["note"], f"{TEXTS['note']}-2", None, "z"] * (N // 4),
        }
    )


ROLES = {
    "identifiers": ["who", "number"],
    "drop": ["left out"],
    "blocking": ["town", "code"],
    "quasi_identifiers": ["x", "y"],
    "confidential": ["note"],
}
CSV = {"url": "people.csv", "csv": {"types": {"number": "int64", "x": "int64", "y": "float64", "code": "int64"}}}


def holders(content: bytes) -> list[bytes]:
    return [needle for needle in needles() if needle in content]


def assert_clean(where: str, content: bytes | str) -> None:
    data = content if isinstance(content, bytes) else content.encode()
    found = holders(data)
    place = data.find(found[0]) if found else 0
    assert not found, f"{where}: {data[max(0, place - 200) : place + 100]!r}"


def files_below(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


@dataclass(frozen=True)
class Watched:
    """A project whose surroundings are searched."""

    project: Project
    prefect: Path
    temporary: Path

    @property
    def environment(self) -> dict[str, str]:
        return {
            "PREFECT_HOME": str(self.prefect),
            "TMPDIR": str(self.temporary),
            "DASK_LOGGING__DISTRIBUTED": "debug",
            "PREFECT_LOGGING_LEVEL": "DEBUG",
            "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "DEBUG",
            "PREFECT_LOGGING_TO_API_ENABLED": "true",
            "PREFECT_RESULTS_PERSIST_BY_DEFAULT": "true",
        }

    def run(self, *arguments: str) -> Ended:
        told = ("--results", "told-results.json", "--log-file", "told-log.jsonl", "--log-format", "json")
        return self.project.command("run", "release.yaml", *told, *arguments, env=self.environment)

    def search(self, ended: Ended) -> None:
        """Look everywhere but into the input, the released files, and the staged rows of a run that failed."""
        assert_clean("stdout", ended.out)
        assert_clean("stderr", ended.err)
        for folder in (self.project.folder, self.prefect, self.temporary):
            for path in folder.rglob("*"):
                assert_clean("a file's name", str(path.relative_to(folder)))
        for path in files_below(self.prefect) + files_below(self.temporary):
            assert_clean(path.name, path.read_bytes())
        for path in self.project.folder.glob("told-*"):
            assert_clean(path.name, path.read_bytes())
        for path in files_below(self.project.work):
            if not path.is_relative_to(self.project.work / "runs"):
                assert_clean(path.name, path.read_bytes())
        for path in files_below(self.project.output):
            if "data" not in path.parts:
                assert_clean(path.name, path.read_bytes())


def watched(folder: Path, cluster: Any) -> Watched:
    for name in ("project", "prefect", "temporary"):
        (folder / name).mkdir()
    return Watched(Project(folder / "project", cluster), folder / "prefect", folder / "temporary")


def assert_released_without_identifiers(project: Project) -> None:
    written = b"".join(path.read_bytes() for path in project.parts())
    for name in ("who", "left out"):
        assert TEXTS[name].encode() not in written
    table = project.released()
    assert table.column_names == ["town", "code", "x", "y", "note"]
    assert NUMBERS["x"] not in table["x"].to_pylist()
    assert FRACTION not in table["y"].to_pylist()
    assert any(TEXTS["town"] in town for town in table["town"].to_pylist())
