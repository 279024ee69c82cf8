"""A finished release as a document for programs, a table for a terminal, and markdown for Prefect; a run's results too.

Only what the manifest publishes and how long things took: nothing here is private, as it leaves the work area.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from microagg_core.group.metrics.figures import AttributeFigures, CorrelationChange, Figures
from microagg_core.group.metrics.statistics import readable
from microagg_core.pages.words import (
    NONE,
    duration,
    markdown_cell,
    markdown_pairs,
    markdown_paragraph,
    markdown_table,
    size_in_words,
)
from microagg_core.plain import to_plain
from microagg_core.release.publish import Published

FORMAT_VERSION = 1


def release_document(published: Published, stages: Sequence[dict[str, Any]], page: str | None = None) -> dict[str, Any]:
    """Make the JSON document that a run ends with; ``page`` is where the operator looks at the release."""
    manifest = published.manifest
    return {
        "format_version": FORMAT_VERSION,
        "status": "already released" if published.already else "released",
        "name": manifest.name,
        "id": manifest.id,
        "revision": manifest.revision,
        "manifest": published.manifest_url,
        "manifest_sha256": manifest.sha256,
        "report": page,
        "records": manifest.rows,
        "withheld": manifest.suppressed,
        **({"several": manifest.several.model_dump(mode="json")} if manifest.several else {}),
        "k": manifest.k,
        "algorithm": manifest.algorithm.model_dump(),
        "files": len(manifest.parts),
        "bytes": sum(part.bytes for part in manifest.parts),
        "series": manifest.series.model_dump(mode="json") if manifest.series else None,
        "refine": manifest.refine,
        "reproducible": manifest.reproducible,
        "losses": manifest.losses.model_dump(mode="json"),
        "checks": to_plain(manifest.checks),
        # No clock that measured them had more to say than milliseconds.
        "stages": [{n: round(v, 3) if isinstance(v, float) else v for n, v in stage.items()} for stage in stages],
        "warnings": list(published.warnings),
    }


def summary_rows(document: dict[str, Any]) -> list[tuple[str, str]]:
    """Choose the document's essentials, as pairs to show.

    >>> rows = summary_rows({"status": "released", "id": "a", "revision": "r0001", "records": 12, "withheld": 0,
    ...     "k": 3, "algorithm": {"name": "mdav", "parameters": {}}, "files": 1, "bytes": 2048, "losses": {},
    ...     "manifest": "out/manifest.json", "checks": [], "stages": []})
    >>> dict(rows)["records"]
    '12'
    """
    losses = Figures.model_validate(document["losses"])
    grouped = losses.of_grouped
    algorithm = document["algorithm"]
    parameters = ", ".join(f"{name}={value}" for name, value in algorithm["parameters"].items())
    rows = [
        (document["status"], f"{document['id']} revision {document['revision']}"),
        ("manifest", document["manifest"]),
        *([("manifest sha256", document["manifest_sha256"])] if "manifest_sha256" in document else []),
        *([("operator report", document["report"])] if document.get("report") else []),
        *_record_rows(document),
        *([("series", _series(document["series"]))] if document.get("series") else []),
        ("k", str(document["k"])),
        ("algorithm", algorithm["name"] + (f" ({parameters})" if parameters else "")),
        *(
            [("tried", f"{', '.join(grouped.tried)}; least loss: {', '.join(grouped.chosen or ())}")]
            if grouped.tried
            else []
        ),
        ("refined", _refinement(document, grouped)),
        ("files", f"{document['files']} ({size_in_words(document['bytes'])})"),
    ]
    rows += _loss_rows(losses)
    if document["checks"]:
        rows.append(("gate", f"{len(document['checks'])} checks passed"))
    seconds = sum(stage["seconds"] for stage in document["stages"])
    if seconds:
        rows.append(("time", f"{seconds:.1f} s"))
    return rows + [("note", warning) for warning in document.get("warnings", [])]


def _record_rows(document: dict[str, Any]) -> list[tuple[str, str]]:
    several = document.get("several")
    what = ", of units of several rows" if several else ""
    withheld = f" ({document['withheld']}{' units' * bool(several)} withheld)" if document["withheld"] else ""
    rows = [("records", f"{document['records']:,}{what}{withheld}")]
    if several and "at_most" in several and several.get("left_out") != 0:
        n = f"{several['left_out']:,}" if "left_out" in several else "some"
        rows.append(("left out", f"{n} records, beyond the {several['keep']} {several['at_most']} of a unit"))
    return rows


def _loss_rows(losses: Figures) -> list[tuple[str, str]]:
    if losses.arrivals is not None:
        n = losses.arrivals.records or 0
        rows = [(name, f"{words} (of the {n:,} arrivals)") for name, words in _loss_rows(losses.arrivals) if n]
        return [*rows, ("not published", losses.withheld or "")]
    rows = []
    if "l_sse" in losses.model_fields_set:
        rows.append(("information loss", f"L_SSE {losses.shown('l_sse')}, L_E {losses.shown('l_e')}"))
    if losses.weighted is not None:
        rows.append(("weighted loss", losses.shown("weighted.l_sse")))
    if losses.gap is not None:
        least = 100 * (losses.lower_bound or 0.0) / losses.sst if losses.sst else 0.0
        rows.append(("lower bound", f"L_SSE {least:.6g} % for any groups of at least k in these blocks"))
        rows.append(("gap", f"at most {losses.gap} % of the loss could be avoided"))
    if losses.certificate and losses.certificate.ratio:
        ratio = losses.certificate.ratio
        rows.append(("certified", f"loss at most {ratio} times the least possible within the released blocks"))
    if losses.withheld:
        rows.append(("not published", losses.withheld))
    if losses.correlation_change:
        rows.append(("correlations", _correlations(losses.correlation_change)))
    return rows


def _correlations(change: CorrelationChange) -> str:
    if not {"mean", "largest"} <= change.model_fields_set:
        return "the change is not published, or not all of it"
    if change.mean is None:
        return "no pair of quasi-identifiers has one before and after"
    left_out = f" ({change.left_out} pairs have none)" if change.left_out else ""
    return f"change by {change.mean} on average, by {change.largest} at most{left_out}"


def _refinement(document: dict[str, Any], losses: Figures) -> str:
    refine = document.get("refine", "off")
    words = f"{refine['seconds']:g} s a block" if isinstance(refine, dict) else str(refine)
    facts = ["nothing was gained"] if losses.refined is False and refine != "off" else []
    if not document.get("reproducible", True):
        facts.append("not reproducible")
    return f"{words} ({', '.join(facts)})" if facts else words


def _series(entry: dict[str, Any]) -> str:
    """Say a night in words; the first is night 0.

    >>> _series({"mode": "atoms", "guarantee": "trace", "night": 3, "smallest_trace": None})
    'atoms, night 3 (trace-k)'
    >>> _series({"mode": "independent", "guarantee": None, "night": 1, "smallest_trace": 1})
    'independent, night 1 (no promise; smallest trace 1)'
    """
    promise = _PROMISES.get(entry["guarantee"], "no promise")
    smallest = entry["smallest_trace"]
    shared = "" if smallest is None else f"; smallest trace {smallest:,}"
    return f"{entry['mode']}, night {entry['night']} ({promise}{shared})"


_PROMISES = {"trace": "trace-k", "trace+changes": "trace-k and change-k"}
#: How a unit is written behind a number, where that is not by its name.
_WRITTEN = {None: "", "the column's": "", "seconds": " s"}


def attribute_table(losses: Figures) -> list[tuple[str, ...]]:
    """Format each attribute: name, loss, IL1s, mean and deviation of what is released, and the variance kept.

    The deviation is in the unit of the column's kind: days for dates, seconds for timestamps, and mostly, as the mean,
    the column's own.

    >>> figures = {"unit": "days", "l_sse": 1.5, "il1s": 0.1, "mean": "2000-01-31", "variance": 9.0}
    >>> attribute_table(Figures.model_validate({"attributes": {"born": {**figures, "variance_kept": 98.5}}}))[1]
    ('born', '1.5 %', '0.1', '2000-01-31', '3 days', '98.5 %')
    """
    attributes = losses.attributes or {}
    has_categories = any("mismatches" in a.model_fields_set or a.categories for a in attributes.values())
    has_parents = any(a.generalized is not None for a in attributes.values())
    rows = [
        (
            name,
            _shown(a.l_sse, " %"),
            _shown(a.il1s),
            _shown(a.mean if a.mean is None or isinstance(a.mean, str) else readable(a.mean)),
            _shown(None if a.variance is None else readable(math.sqrt(a.variance)), _WRITTEN.get(a.unit, f" {a.unit}")),
            _shown(a.variance_kept, " %"),
            *((_shown(a.mismatches, " %"), _kept(a)) if has_categories else ()),
            *((_shown(a.generalized, " %"), _shown(a.generality, " %")) if has_parents else ()),
        )
        for name, a in attributes.items()
    ]
    more = ("changed", "categories kept") if has_categories else ()
    above = ("generalized", "generality") if has_parents else ()
    return [("quasi-identifier", "L_SSE", "IL1s", "mean", "deviation", "variance kept", *more, *above), *rows]


def _kept(of: AttributeFigures) -> str:
    return "-" if of.categories is None else f"{of.categories_kept:,} of {of.categories:,}"


def _shown(figure: float | str | None, unit: str = "") -> str:
    return "-" if figure is None else f"{figure}{unit}"


def as_markdown(document: dict[str, Any]) -> str:
    """Format the document as markdown; names of columns are escaped, values of records are not in it."""
    title = f"# Release {document['id']}, revision {document['revision']}"
    table = markdown_table(attribute_table(Figures.model_validate(document["losses"])))
    return "\n".join([title, "", *markdown_pairs(summary_rows(document)), *table]) + "\n"


#: Figures of a run's results that have an estimate, and what they are called.
_COMPARED = (
    ("time, as of the last release", "wall_seconds", duration),
    ("CPU of tasks, as of the last release", "cpu_seconds", duration),
    ("time in kernels", "kernel_seconds", duration),
    ("memory of a worker", "memory_bytes", size_in_words),
    ("rows in memory, files", "release_bytes", size_in_words),
)


def compared_rows(results: Mapping[str, Any] | None) -> list[tuple[str, str, str]]:
    """Format estimates beside what they came to; rows without either are left out.

    >>> compared_rows({"kernel_seconds": {"estimate": 1.234567, "actual": None}})
    [('time in kernels', '1.2 s', '–')]
    """
    rows = []
    for name, field, in_words in _COMPARED:
        figures = (results or {}).get(field) or {}
        cells = [figures.get(which) for which in ("estimate", "actual")]
        if cells != [None, None]:
            estimate, actual = (NONE if figure is None else in_words(figure) for figure in cells)
            rows.append((name, estimate, actual))
    return rows


def compared_markdown(results: Mapping[str, Any]) -> str:
    """Format estimates beside what they came to as a table; empty where there is nothing to compare."""
    return "".join(f"{line}\n" for line in markdown_table([("", "estimate", "actual"), *compared_rows(results)]))


def results_markdown(results: Mapping[str, Any]) -> str:
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


def stage_rows(results: Mapping[str, Any]) -> list[dict[str, str]]:
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
