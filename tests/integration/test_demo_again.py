"""The demo is a series: made again on another day, it carries everybody as released first."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from microagg_core.demo import write_demo
from microagg_core.release.verify import verify
from releasing.runs import released_table, run_stages, start

N = 1200


def in_order(table: pa.Table) -> pa.Table:
    return table.sort_by([(name, "ascending") for name in table.column_names])


def test_the_demo_goes_on_on_another_day(tmp_path: Path) -> None:
    tables = []
    for night, day in enumerate(["2026-11-18", "2026-11-19"]):
        made = run_stages(start(write_demo(tmp_path, N), identity=day))
        assert made.published is not None and made.published.manifest.series is not None
        assert (made.published.manifest.id, made.published.manifest.series.night) == (day, night)
        tables.append(in_order(released_table(tmp_path / "release")))
    assert tables[0].num_rows == N and tables[1].equals(tables[0])
    assert verify(str(tmp_path / "release")).passed
