"""What is released: people who do not exist, with words that nobody can mistake in every column of text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from microagg_core.demo import make_people

#: Every text of the input begins with it, and nothing else that the product touches does.
CANARY = "canary-"
N_PARTS = 4
#: For cases that release the same people in other groups, and are about something else than what that gives away.
AGAIN = {"series": {"mode": "independent", "acknowledge": "overlapping_releases"}}
#: A CSV is one part, hence small: it is there for its own way of being read and written.
CSV_ROWS_MOST = 20_000

_ROLES: Mapping[str, list[str]] = {
    "identifiers": ["person_id"],
    "drop": ["note"],
    "quasi_identifiers": ["birth_date", "dwelling_area_m2", "commute_km", "year_of_arrival"],
    "blocking": ["region", "district", "sex"],
    "confidential": ["education", "diagnosis", "monthly_income", "benefits", "weekly_hours", "remark"],
}


@dataclass(frozen=True)
class Configuration:
    """What is released and how; two releases of one configuration have the same bytes, wherever they are made."""

    name: str
    format: str = "parquet"
    k: int = 5
    refine: str = "off"
    #: Whether the spec leaves it to the product who works: small inputs then need no cluster.
    leaves_cluster_open: bool = False
    #: Another sample of people: what an input is changed into.
    sample: int = 2026

    def spec(self) -> dict[str, Any]:
        """Write the part of the spec that decides the bytes."""
        types = {"birth_date": "date", "dwelling_area_m2": "int32", "commute_km": "float64"}
        types |= {"year_of_arrival": "int16", "monthly_income": "int32", "weekly_hours": "int8"}
        url = f"input/people-*.{self.format}"
        return {
            "name": "people",
            "id": "one",
            "k": self.k,
            "refine": self.refine,
            "input": {"url": url} if self.format == "parquet" else {"url": url, "csv": {"types": types}},
            "output": {"url": "release", "format": self.format},
            "work": {"url": "work"},
            "roles": {role: list(columns) for role, columns in _ROLES.items()},
            "unit": ["person_id"],
            "rounding": {"commute_km": 0.5},
        }

    def rows(self, asked_for: int) -> int:
        return min(asked_for, CSV_ROWS_MOST) if self.format == "csv" else asked_for


PLAIN = Configuration("plain")
REFINED = Configuration("refined", refine="fast")
CSV = Configuration("csv", format="csv", leaves_cluster_open=True)
CONFIGURATIONS = (PLAIN, REFINED, CSV)
#: The same people with a larger k, and other people: releases that are not the same one.
OTHER_K = Configuration("other k", k=7)
OTHER_PEOPLE = Configuration("other people", sample=1984)


def people(rows: int, sample: int) -> pa.Table:
    """Make the table: the demo's, its texts marked, a column that is to be dropped, and one that makes rows wide.

    Wide rows make a release of several files, and only such a release can be half there.
    """
    table = make_people(rows, sample)
    for position, name in enumerate(table.column_names):
        if pa.types.is_string(table.schema.field(name).type) and name != "sex":
            marked = pc.binary_join_element_wise(pa.scalar(CANARY), table.column(name), "")
            table = table.set_column(position, name, marked)
    note = pa.array(np.char.mod(f"{CANARY}note-%d", np.arange(rows) % 97).tolist())
    remark = pa.array(np.char.mod(f"{CANARY}remark-{'so wide that it fills files ' * 6}%d", np.arange(rows) % 61))
    return table.append_column("note", note).append_column("remark", remark)


def write_input(folder: Path, configuration: Configuration, rows: int) -> None:
    """Write the input's parts; the same bytes every time."""
    folder.mkdir(parents=True, exist_ok=True)
    table = people(configuration.rows(rows), configuration.sample)
    if configuration.format == "csv":
        pyarrow.csv.write_csv(table, folder / "people-0.csv")
        return
    ends = np.linspace(0, table.num_rows, N_PARTS + 1).astype(int)
    for part in range(N_PARTS):
        start = int(ends[part])
        pq.write_table(table.slice(start, int(ends[part + 1]) - start), folder / f"people-{part}.parquet")
