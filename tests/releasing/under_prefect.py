"""Releases of a few people, to be made under a Prefect server, and what their commands and runs may say."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from microagg_core.demo import make_people
from microagg_flows.stages import STAGES
from releasing.runs import write_release
from servers.prefect_server import PrefectServer

COMMAND = str(Path(sys.executable).with_name("microagg"))
ROLES = {
    "identifiers": ["person_id"],
    "quasi_identifiers": ["birth_date", "dwelling_area_m2", "commute_km", "year_of_arrival"],
    "blocking": ["region", "district", "sex"],
    "confidential": ["education", "diagnosis", "monthly_income", "benefits", "weekly_hours"],
}
PROGRESS_LINE = re.compile(r"[a-z-]+: \d+ tasks|[a-z]+ +\d+\.\d s  .+")
#: What logging adds, and what libraries print when they are in trouble.
NOISE = re.compile(r"Traceback|File \"|\| (INFO|WARNING|ERROR|CRITICAL) |Warning:|locked")
STAGE_NAMES = [stage.name for stage in STAGES]


def some_people(n: int = 3000) -> list[pa.Table]:
    whole = make_people(n)
    return [whole.slice(0, n // 2), whole.slice(n // 2)]


def spec_of(folder: Path, tables: list[pa.Table], **changes: Any) -> Path:
    folder.mkdir()
    local = {"local": {"workers": 1, "threads": 1, "memory": "1GiB"}}
    return write_release(folder, tables, **{"roles": ROLES, "cluster": local, **changes})


def outcomes(spec: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in (spec.parent / "work" / "audit" / "runs").iterdir()]


def with_an_infinity(tables: list[pa.Table]) -> list[pa.Table]:
    last = tables[-1]
    far = last["commute_km"].to_numpy().copy()
    far[-1] = np.inf
    place = last.schema.get_field_index("commute_km")
    return [*tables[:-1], last.set_column(place, "commute_km", pa.array(far))]


def assert_nothing_published(spec: Path) -> None:
    assert [path for path in (spec.parent / "output").rglob("*") if path.is_file()] == []


def command(server: PrefectServer, spec: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """`microagg run`, as its user calls it."""
    arguments = [COMMAND, "run", str(spec), *options]
    return subprocess.run(arguments, env=server.environment(), capture_output=True, text=True, timeout=180)
