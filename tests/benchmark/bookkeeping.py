"""What a release costs the flow itself: the plan and the bookkeeping of a census, with workers that do nothing.

    python tests/benchmark/bookkeeping.py --rows 1e9 --blocks 3e6 --parts 470

Prints one JSON document: CPU seconds of the flow by stage, its largest memory, and what it kept account of.
"""

from __future__ import annotations

import argparse
import datetime
import json
import resource
import tempfile
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
from census import CONFIDENTIAL, QUASI_IDENTIFIERS, write_spec
from null_workers import Census, null_workers

from microagg_core.data.formats.reading import InputListing, InputPart, Stretch
from microagg_core.group.metrics.moments import EMPTY
from microagg_core.spec.loading import load_spec
from microagg_flows.release import Release, new_release
from microagg_flows.stages import run_until

_SCHEMA = pa.schema(
    {
        "region": pa.int16(),
        "group": pa.string(),
        "birth": pa.date32(),
        "income": pa.float64(),
        "area": pa.int32(),
        "commute": pa.float32(),
        "diagnosis": pa.string(),
        "wage": pa.int64(),
        "benefit": pa.bool_(),
        "hours": pa.int8(),
    }
)


def listing(parts: int) -> InputListing:
    urls = [f"file:///nowhere/part-{number:05d}.parquet" for number in range(parts)]
    return InputListing(
        tuple(InputPart(number, (Stretch(url, place=(0, 1)),)) for number, url in enumerate(urls)),
        _SCHEMA,
        tuple((url, "1/1") for url in urls),
    )


def make_release(folder: Path, census: Census) -> Release:
    roles = {
        "quasi_identifiers": QUASI_IDENTIFIERS,
        "blocking": ["region", "group"],
        "confidential": CONFIDENTIAL,
    }
    spec = load_spec(str(write_spec(folder, algorithm="mdav", roles=roles)))
    with (
        patch("microagg_flows.stages.list_input", lambda _: listing(census.parts)),
        patch("microagg_flows.stages.rough_moments", lambda *_: [EMPTY] * 4),
        patch("microagg_flows.pages.keep_look_ahead"),  # which nobody keeps of so many
        null_workers(census) as workers,
    ):
        release = new_release(spec, workers, None, False, datetime.datetime.now(datetime.UTC))
        run_until("report", release)
    return release


def measure(census: Census) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as name:
        release = make_release(Path(name), census)
    seconds = {outcome.name: round(outcome.flow_cpu_seconds, 2) for outcome in release.outcomes}
    outline = release.planned.outline
    return {
        **census.__dict__,
        "blocks": outline.n_blocks,
        "partitions": outline.n_partitions,
        "files": outline.n_files,
        "flow_cpu_seconds": round(sum(seconds.values()), 1),
        "stages": seconds,
        "flow_peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10,
    }


def main() -> None:
    """Read the arguments, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=float, default=1e9)
    parser.add_argument("--blocks", type=float, default=3e6)
    parser.add_argument("--parts", type=int, default=470)
    a = parser.parse_args()
    print(json.dumps(measure(Census(int(a.rows), int(a.blocks), a.parts)), indent=1))


if __name__ == "__main__":
    main()
