"""Markdown and tables of a run's results, the JSON document that a run leaves, for whoever looks at Prefect's pages.

Unlike the document they leave the work area, so they have no counts but those that a manifest publishes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from microagg_core.pages.words import (
    NONE,
    duration,
    markdown_cell,
    markdown_pairs,
    markdown_paragraph,
    size_in_words,
)

Document = Mapping[str, Any]
_COMPARED = (
    ("time, as of the last release", "wall_seconds", duration),
    ("CPU of tasks, as of the last release", "cpu_seconds", duration),
    ("time in kernels", "kernel_seconds", duration),
    ("memory of a worker", "memory_bytes", size_in_words),
    ("rows in memory, files", "release_bytes", size_in_words),
)


def compared_rows(results: Document) -> list[tuple[str, str, str]]:
    """Format estimates beside what they came to; rows without either are left out.

    >>> compared_rows({"kernel_seconds": {"estimate": 1.234567, "actual": None}})
    [('time in kernels', '1.2 s', '–')]
    """
    rows = []
    for name, field, in_words in _COMPARED:
        figures = results.get(field, {})
        cells = [figures.get(which) for which in ("estimate", "actual")]
        if cells != [None, None]:
            estimate, actual = (NONE if figure is None else in_words(figure) for figure in cells)
            rows.append((name, estimate, actual))
    return rows


def results_markdown(results: Document) -> str:
    """Describe a run that released nothing."""
    title = " ".join(word for word in (results["series"], results["id"]) if word) or "a release"
    outcome, code = results["outcome"], results["exit_code"]
    rows = [
        ("outcome", outcome + (f" (exit {code})" if code is not None else "")),
        ("stage", results["stage"]),
        *(("note", warning) for warning in results["warnings"]),
        ("began", results["started"]),
        ("ended", results["ended"]),
    ]
    sentences = (("what happened", results["sentence"]), ("what to do", results["what_to_do"]))
    lines = [line for name, text in sentences if text for line in markdown_paragraph(name, text)]
    lines += ["", *markdown_pairs([(name, text) for name, text in rows if text])]
    return "\n".join([f"# {markdown_cell(title)}: {outcome}", *lines]) + "\n" + compared_markdown(results)


def compared_markdown(results: Document) -> str:
    """Format estimates beside what they came to as a table; empty where there is nothing to compare."""
    rows = compared_rows(results)
    if not rows:
        return ""
    lines = ["", "| | estimate | actual |", "| --- | ---: | ---: |"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)]) + "\n"


def stage_rows(results: Document) -> list[dict[str, str]]:
    """Format a row for each stage, with as many digits as a person reads; without its sentence, which may be long."""
    return [
        {
            "stage": str(stage["name"]),
            "time": duration(stage["seconds"]),
            "CPU of tasks": duration(stage["cpu_seconds"]),
            "CPU of the flow": duration(stage["flow_cpu_seconds"]),
            "peak of a worker": size_in_words(stage["peak_bytes"]) if stage["peak_bytes"] else NONE,
        }
        for stage in results["stages"]
    ]
