"""A small series in a folder: people with a tag by which a test, and nobody else, tells who is who in the files."""

from __future__ import annotations

import datetime
import shutil
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from microagg_core.release.manifest import Manifest
from microagg_core.release.revisions import committed_revisions_in, read_manifest
from microagg_core.series.ledger import Ledger, ledger_of
from microagg_core.series.verification import verify_ledger
from microagg_core.spec.loading import load_spec
from microagg_core.store.layout import ReleaseLayout, is_release_id
from microagg_core.store.objects import Store
from microagg_flows.release import Release
from releasing.runs import run_stages, start, write_release

ROLES = {"identifiers": ["id"], "quasi_identifiers": ["x", "y"], "blocking": ["town"], "confidential": ["tag"]}
K = 3
DAY = datetime.datetime(2026, 11, 1, 3, 0, tzinfo=datetime.UTC)


def people(ids: Iterable[int]) -> pa.Table:
    who = np.array(list(ids))
    draw = np.random.default_rng(7).normal(size=(1000, 2)).round(2)
    return pa.table(
        {
            "id": who,
            "x": draw[who, 0],
            "y": draw[who, 1],
            "town": [("north", "south")[i % 2] for i in who],
            "tag": [f"tag{i}" for i in who],
        }
    )


@dataclass
class SmallSeries:
    """A folder with a spec, and what its nights published, as a reader kept it."""

    folder: Path
    series: dict[str, Any] | None
    changes: dict[str, Any] = field(default_factory=dict)
    #: For each release, the rows that were in it when it was published.
    kept: dict[str, pa.Table] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        key = self.folder / "key"
        key.write_text("a key of the series for tests")
        key.chmod(0o600)
        series = {"series": {**self.series, "key_file": str(key)}} if self.series else {}
        self.path = write_release(
            self.folder,
            [people(range(6))],
            **{
                "name": "people",
                "roles": ROLES,
                "unit": ["id"],
                "refine": "off",
                "cluster": "none",
                "blocks": {"undersized": "merge"},
                "acknowledge": {"nearly_unique": ["tag"]},
                **series,
                **self.changes,
            },
        )

    @property
    def ledger(self) -> Ledger:
        return ledger_of(load_spec(str(self.path)))

    @property
    def output(self) -> Store:
        spec = load_spec(str(self.path))
        return Store(spec.output.url, dict(spec.output.storage_options))

    def units(self, ids: Iterable[int]) -> str:
        path = self.folder / "units.csv"
        path.write_text("id\n" + "".join(f"{i}\n" for i in ids))
        return str(path)

    def write_input(self, ids: Iterable[int], night: int) -> None:
        for folder in ("input", f"input-{night}"):
            (self.folder / folder).mkdir(exist_ok=True)
            pq.write_table(people(ids), self.folder / folder / "part-0.parquet")

    def night(self, ids: Iterable[int], number: int, **how: Any) -> Release:
        self.write_input(ids, number)
        when = DAY + datetime.timedelta(days=number)
        release = run_stages(start(self.path, identity=f"day-{number}", now=when, **how))
        self.keep()
        return release

    def inputs(self, n: int) -> dict[str, str]:
        return {f"day-{i}": str(self.folder / f"input-{i}" / "*.parquet") for i in range(n)}

    def manifests(self) -> list[Manifest]:
        """All that were published, old to new."""
        output = self.output
        layouts = [
            ReleaseLayout(name, revision)
            for name in filter(is_release_id, output.folders())
            for revision in committed_revisions_in(output, name)
        ]
        manifests = [read_manifest(output, layout) for layout in layouts]
        return sorted(manifests, key=lambda m: (m.series.night if m.series else 0, m.created, m.revision))

    def keep(self) -> None:
        """Read what can be read and was not before, as a stranger would who keeps everything."""
        for manifest in self.manifests():
            folder = manifest.layout.folder
            if folder not in self.kept and not self.output.exists(manifest.layout.withdrawn()):
                names = [manifest.layout.absolute(part.name) for part in manifest.parts]
                tables = [pq.read_table(pa.BufferReader(self.output.read(name))) for name in names]
                if tables:  # a night may have nobody to release
                    self.kept[folder] = pa.concat_tables(tables)

    def readable_tags(self) -> set[str]:
        """Who is in some data file of the output, whatever manifest names it."""
        names = [name for name in self.output.list() if name.endswith(".parquet")]
        tables = [pq.read_table(pa.BufferReader(self.output.read(name))) for name in names]
        return {tag for table in tables for tag in table["tag"].to_pylist()}

    def smallest_history(self) -> int:
        """How many people share the rarest history over everything that was ever published."""
        histories: dict[str, list[object]] = {}
        order = [m.layout.folder for m in self.manifests()]
        assert sorted(order) == sorted(self.kept)
        for place, folder in enumerate(order):
            rows = self.kept[folder].to_pylist()
            for row in rows:
                history = histories.setdefault(row["tag"], [])
                history += [None] * (place - len(history))
                history.append((row["x"], row["y"], row["town"]))
        whole = [tuple(h + [None] * (len(order) - len(h))) for h in histories.values()]
        return min(Counter(whole).values())

    def assert_sound(self) -> None:
        assert [check for check in verify_ledger(self.ledger) if not check.passed] == []


def copy_of(series: SmallSeries, folder: Path) -> SmallSeries:
    """Copy a series with all that its nights left, for a test that changes it."""
    shutil.copytree(series.folder, folder, copy_function=shutil.copy2, dirs_exist_ok=True)
    made = SmallSeries(folder, series.series, series.changes)
    made.keep()
    return made


def atoms(**others: Any) -> dict[str, Any]:
    """A series whose groups stay together."""
    return {"mode": "atoms", **others}
