"""The figures by which releases are forecast, fitted to recorded ones: what a row, a key, a slice or a block takes."""

from __future__ import annotations

import datetime
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from recorded_release import Case
from scipy.optimize import nnls

from microagg_core.data.formats.reading import BATCH_ROWS
from microagg_core.release.sizing.description import Description, draw_plan, sizes_of_keys
from microagg_core.release.sizing.tasks import UPLOAD, measured_steps, sizes_by_figure

FIGURES = Path(__file__).resolve().parents[2] / "microagg_core" / "release" / "sizing" / "figures.json"
#: Whatever figures are fitted for.
STEPS = (*measured_steps(), UPLOAD)
#: What a task of each step is made of, and what it writes for that.
MADE_OF = {
    "survey": ("task", "row", "row_quasi", "row_confidential", "row_identifier", "batch_key"),
    "units": ("task", "row", "slice_read"),
    "keys": ("task", "key", "stream_read"),
    "scatter": ("task", "row", "row_quasi", "row_confidential", "key", "route", "stream_written"),
    "anonymize": ("task", "row", "row_quasi", "row_confidential", "block", "stream_read", "stream_written"),
    "assemble": ("task", "row", "row_quasi", "row_confidential", "stream_read"),
    "check-files": ("task", "row", "row_quasi", "row_confidential"),
    "upload": ("task", "row_byte"),
}  # fmt: skip
#: What the algorithm and refinement take, measured on their own within the tasks of anonymize.
KERNELS = ("kernel", "refined_kernel", "refined_block", "block", "block_quasi")
WRITES = {
    "survey": ("task", "row_identifier", "key", "row_confidential"),
    "units": ("task",),
    "keys": ("task", "key"),
    "scatter": ("task", "row_byte", "stream_written"),
    "anonymize": ("task", "row_byte", "row_quasi", "stream_written", "block"),
    "assemble": ("task", "row", "row_byte", "row_quasi"),
    "check-files": ("task",),
    "upload": ("task",),
}
#: What the flow's own seconds of each stage are for, and its memory.
FLOW = {
    "survey": ("release", "sketch", "slice_survey"),
    "plan": ("release", "key", "block"),
    "scatter": ("release", "part"),
    "anonymize": ("release", "partition", "file", "slice_scatter", "slice_anonymize"),
    "validate": ("release", "part", "file"),
    "measure": ("release", "partition", "block"),
    "publish": ("release", "file", "block"),
    "report": ("release", "object"),
}
#: Memory of the survey, which is free again when the plan is made.
_SURVEY_BYTES = ("release", "sketch")


def read_recordings(folder: Path, what: str) -> list[dict[str, Any]]:
    paths = sorted(folder.glob(f"{what}-*.json"), key=lambda path: int(path.stem.split("-")[-1]))
    return [json.loads(path.read_text(encoding="utf-8")) for path in paths]


def _keys_among(case: Case, rows: int) -> float:
    sizes = sizes_of_keys(Description(rows=case.rows, keys=case.blocks))
    return float(-np.expm1(-sizes * min(1.0, rows / case.rows)).sum())


def _model_ratio(case: Case, facts: dict[str, float]) -> float:
    """How the registry's seconds of the algorithm have changed since the release was recorded."""
    described = {"rows": case.rows, "keys": case.blocks, "refine": case.refine}
    plan = draw_plan(Description(**described, quasi_identifiers=case.quasi_identifiers))
    return float(plan.block_seconds.sum()) / facts["model_seconds"]


def rows_of(recordings: Iterable[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], dict[str, float]]]:
    """Every recorded task, and what it was made of."""
    for recording in recordings:
        case, facts = Case(**recording["case"]), recording["facts"]
        described = Description(
            quasi_identifiers=case.quasi_identifiers,
            columns=case.quasi_identifiers + case.confidential,
            refine=case.refine,
            row_bytes=facts["row_bytes"],
        )
        own, steps = _keys_among(case, case.part_rows), Counter(task["step"] for task in recording["tasks"])
        ratio, of_batch = _model_ratio(case, facts), _keys_among(case, BATCH_ROWS)
        for task in recording["tasks"]:
            # Receipts of units have repeated units alone.
            rows = facts["rows"] / steps["units"] if task["step"] == "units" else task["rows"]
            counts = {
                "block": task["blocks"],
                "key": own * facts["parts"] / steps["keys"] if task["step"] == "keys" else own,
                "route": facts["keys"],
                "batch_key": np.ceil(task["rows"] / BATCH_ROWS) * of_batch,
                **{
                    f"{what}_{way}": task[f"{what}s_{way}"]
                    for what in ("slice", "stream")
                    for way in ("read", "written")
                },
            }
            arrays = {name: np.array([float(value)]) for name, value in counts.items()}
            sizes = sizes_by_figure(described, np.array([float(rows)]), task["model_seconds"] * ratio, **arrays)
            task["outside"] = task["cpu_seconds"] - task["kernel_seconds"]
            yield task, {name: float(value[0]) for name, value in sizes.items()}


def fitted(wanted: list[float], parts: list[dict[str, float]], names: tuple[str, ...]) -> dict[str, float]:
    """MeasuredFigures, none below zero, whose sums are near what is wanted, large ones counting for more."""
    y = np.array(wanted)
    A = np.array([[of_task[name] for name in names] for of_task in parts])
    if not y.any():
        return {}
    weight = 1 / np.sqrt(np.maximum(y, 0.02 * y.max() + 1e-12))
    scale = np.maximum(np.abs(A).max(axis=0), 1e-12)
    found, _ = nnls(A / scale * weight[:, None], y * weight)
    return {name: float(f"{value:.4g}") for name, value in zip(names, found / scale, strict=True) if value > 0}


def fit_steps(recordings: list[dict[str, Any]], what: str, names: dict[str, tuple[str, ...]]) -> dict[str, Any]:
    """MeasuredFigures of each step for what its tasks took or wrote."""
    rows = list(rows_of(recordings))
    figures = {}
    for step in STEPS:
        mine = [(task[what], parts) for task, parts in rows if task["step"] == step]
        figures[step] = fitted([value for value, _ in mine], [parts for _, parts in mine], names[step])
    return figures


def fit_remote(disks: list[dict[str, Any]], buckets: list[dict[str, Any]]) -> dict[str, float]:
    """What a bucket costs a worker more than a disk, and its server, by requests and bytes."""
    pairs = [both for d, b in zip(disks, buckets, strict=True) for both in zip(d["tasks"], b["tasks"], strict=True)]
    longer = np.array([in_bucket["cpu_seconds"] - on_disk["cpu_seconds"] for on_disk, in_bucket in pairs])
    A = np.array([_traffic_of(in_bucket) for _, in_bucket in pairs])
    found, _ = nnls(A / A.max(axis=0), longer)
    request, byte = found / A.max(axis=0)
    served = [[sum(of) for of in zip(*map(_traffic_of, bucket["tasks"]), strict=True)] for bucket in buckets]
    asked = [
        {"server_request": of_tasks[0] + sum(bucket["flow_requests"].values()), "server_byte": of_tasks[1]}
        for of_tasks, bucket in zip(served, buckets, strict=True)
    ]
    server = fitted([bucket["facts"]["server_seconds"] for bucket in buckets], asked, ("server_request", "server_byte"))
    return {
        "request": float(f"{request:.4g}"),
        "byte": float(f"{byte:.4g}"),
        "server_request": server.get("server_request", 0.0),
        "server_byte": server.get("server_byte", 0.0),
    }


def _traffic_of(task: dict[str, Any]) -> tuple[float, float]:
    return task["asked"], task["moved"]


def counts_of(book: dict[str, Any]) -> dict[str, float]:
    """What the flow of a census with null workers had to do with; there every task sends something to every other."""
    parts, partitions, files = book["parts"], book["partitions"], book["files"]
    own = min(book["keys"], book["rows"] / parts)
    return {
        "release": 1.0,
        "part": parts,
        "sketch": 4 * parts,
        "key": book["keys"],
        "block": book["blocks"],
        "partition": partitions,
        "file": files,
        "slice_survey": parts * np.ceil(own / 4096),
        "slice_scatter": parts * partitions,
        "slice_anonymize": partitions + files,
        "object": 8 * parts + 4 * partitions + 6 * files,
    }


def fit_flow(books: list[dict[str, Any]]) -> tuple[dict[str, Any], dict[str, float]]:
    counts = [counts_of(book) for book in books]
    seconds = {
        stage: fitted([book["stages"][stage] + 1e-3 for book in books], counts, names) for stage, names in FLOW.items()
    }
    peaks = [float(book["flow_peak_mib"]) * 2**20 for book in books]
    few = [at for at, book in enumerate(books) if book["keys"] <= 3 * 10**5]
    memory = fitted([peaks[at] for at in few], [counts[at] for at in few], _SURVEY_BYTES)
    # Of the census with the most keys for its parts, what is more than the base is the plan's.
    most = max(range(len(books)), key=lambda at: books[at]["keys"] / books[at]["parts"])
    memory["key"] = float(f"{(peaks[most] - memory['release']) / books[most]['keys']:.4g}")
    return seconds, memory


def report(recordings: list[dict[str, Any]], cpu: dict[str, Any]) -> None:
    """How far the figures are from what they were fitted to, in percent."""
    for recording in recordings:
        took: dict[str, float] = dict.fromkeys(STEPS, 0.0)
        says = dict(took)
        for task, parts in rows_of([recording]):
            took[task["step"]] += task["cpu_seconds"]
            says[task["step"]] += sum(value * parts[name] for name, value in cpu[task["step"]].items())
        off = {step: f"{100 * (says[step] / took[step] - 1):+.0f}" for step in took if took[step] > 0.1}
        whole = 100 * (sum(says.values()) / sum(took.values()) - 1)
        print(f"{Case(**recording['case'])}\n   {sum(took.values()):.1f} s, {whole:+.1f} %: {off}")


def fit(folder: Path, machine: str, keep: bool) -> None:
    """Fit, report, and write the figures."""
    cases, disks = read_recordings(folder, "case"), read_recordings(folder, "disk")
    cpu = fit_steps(cases, "outside", MADE_OF)
    kernels = fit_steps(cases, "kernel_seconds", dict.fromkeys(STEPS, KERNELS))["anonymize"]
    cpu["anonymize"] = dict(Counter(cpu["anonymize"]) + Counter(kernels))
    report(cases, cpu)
    flow, flow_bytes = fit_flow(read_recordings(folder, "book"))
    dispatch = read_recordings(folder, "dispatch")[0]
    base = next(case for case in cases if case["case"]["quasi_identifiers"] == case["case"]["confidential"] == 4)
    facts, uploads = base["facts"], [task for task in base["tasks"] if task["step"] == "upload"]
    released = sum(task["bytes_read"] for task in uploads) / (facts["rows"] * facts["row_bytes"])
    read = facts["input_bytes"] / (facts["rows"] * (facts["row_bytes"] + 12.0))
    figures = {
        "measured": f"{datetime.date.today().isoformat()}, {machine}",
        "cpu": cpu,
        "written": fit_steps(cases, "bytes_written", WRITES),
        "flow": flow,
        "flow_bytes": {**flow_bytes, "route_stored": 16.0},
        "remote": fit_remote(disks, read_recordings(folder, "bucket")),
        "dispatch": {
            "submit": float(f"{dispatch['flow'] / 2:.3g}"),
            "take": float(f"{dispatch['flow'] / 2:.3g}"),
            "scheduler": float(f"{dispatch['scheduler']:.3g}"),
            "start": float(f"{max(0.0, disks[0]['facts']['start']) + dispatch['start']:.3g}"),
        },
        # Of CSV, whose numbers are texts, nobody has more than a rule of thumb.
        "stored": {
            "parquet": float(f"{read:.3g}"),
            "arrow": 1.0,
            "csv": 1.3,
            "cut_parquet": float(f"{facts['encoded_bytes'] / (facts['rows'] * (facts['row_bytes'] + 12.0)):.3g}"),
            "cut_arrow": 1.0,
            "cut_csv": 1.3,
            "released_parquet": float(f"{released:.3g}"),
            "released_arrow": 1.0,
            "released_csv": 1.3,
        },
    }
    text = json.dumps(figures, indent=1) + "\n"
    if keep:
        print(text)
    else:
        FIGURES.write_text(text, encoding="utf-8")
