"""A finished release as a document for programs, a table for a terminal, and markdown for Prefect.

Only what the manifest publishes and how long things took: nothing here is private.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from microagg_core.storage.publish import Published

FORMAT_VERSION = 1


def release_document(published: Published, stages: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The one JSON document that a run ends with."""
    manifest = published.manifest
    return {
        "format_version": FORMAT_VERSION,
        "status": "already released" if published.already else "released",
        "name": manifest.name,
        "id": manifest.id,
        "revision": manifest.revision,
        "manifest": published.manifest_url,
        "records": manifest.rows,
        "withheld": manifest.suppressed,
        "k": manifest.k,
        "algorithm": manifest.algorithm.model_dump(),
        "files": len(manifest.parts),
        "bytes": sum(part.bytes for part in manifest.parts),
        "refine": manifest.refine,
        "reproducible": manifest.reproducible,
        "losses": manifest.losses,
        "checks": [check.model_dump() for check in manifest.checks],
        "stages": list(stages),
        "warnings": list(published.warnings),
    }


def summary_rows(document: dict[str, Any]) -> list[tuple[str, str]]:
    """The document's essentials, as pairs to show.

    >>> rows = summary_rows({"status": "released", "id": "a", "revision": "r0001", "records": 12, "withheld": 0,
    ...     "k": 3, "algorithm": {"name": "mdav", "parameters": {}}, "files": 1, "bytes": 2048, "losses": {},
    ...     "manifest": "out/manifest.json", "checks": [], "stages": []})
    >>> dict(rows)["records"]
    '12'
    """
    losses = document["losses"]
    algorithm = document["algorithm"]
    parameters = ", ".join(f"{name}={value}" for name, value in algorithm["parameters"].items())
    rows = [
        (document["status"], f"{document['id']} revision {document['revision']}"),
        ("manifest", document["manifest"]),
        (
            "records",
            f"{document['records']:,}" + (f" ({document['withheld']:,} withheld)" if document["withheld"] else ""),
        ),
        ("k", str(document["k"])),
        ("algorithm", algorithm["name"] + (f" ({parameters})" if parameters else "")),
        *([("tried", _choices(losses))] if "tried" in losses else []),
        ("refined", _refinement(document)),
        ("files", f"{document['files']} ({document['bytes'] / 2**20:.1f} MiB)"),
    ]
    if "l_sse" in losses:
        rows.append(("information loss", f"L_SSE {losses['l_sse']} %, L_E {losses['l_e']} %"))
    if "gap" in losses:
        least = 100 * losses["lower_bound"] / losses["sst"] if losses["sst"] > 0 else 0.0
        rows.append(("lower bound", f"L_SSE {least:.6g} % for any groups of at least k in these blocks"))
        rows.append(("gap", f"at most {losses['gap']} % of the loss could be avoided"))
    if ratio := losses.get("certificate", {}).get("ratio"):
        rows.append(("certified", f"loss at most {ratio} times the least possible within the released blocks"))
    if "correlation_change" in losses:
        rows.append(("correlations", f"change by {losses['correlation_change']['mean']} on average"))
    if document["checks"]:
        rows.append(("gate", f"{len(document['checks'])} checks passed"))
    seconds = sum(stage["seconds"] for stage in document["stages"])
    if seconds:
        rows.append(("time", f"{seconds:.1f} s"))
    return rows + [("note", warning) for warning in document.get("warnings", [])]


def _choices(losses: dict[str, Any]) -> str:
    return f"{', '.join(losses['tried'])}; least loss: {', '.join(losses['chosen'])}"


def _refinement(document: dict[str, Any]) -> str:
    refine = document.get("refine", "off")
    words = f"{refine['seconds']:g} s a block" if isinstance(refine, dict) else str(refine)
    facts = [] if document["losses"].get("refined", True) or refine == "off" else ["nothing was gained"]
    if not document.get("reproducible", True):
        facts.append("not reproducible")
    return f"{words} ({', '.join(facts)})" if facts else words


def attribute_rows(document: dict[str, Any]) -> list[tuple[str, ...]]:
    """Per attribute: name, loss, IL1s, mean and the share of variance kept, as text."""
    attributes = document["losses"].get("attributes", {})
    return [
        (
            name,
            f"{a['l_sse']} %",
            f"{a['il1s']}",
            "-" if a["mean"] is None else f"{a['mean']}",
            f"{a['variance_kept']} %",
        )
        for name, a in attributes.items()
    ]


ATTRIBUTE_HEADER = ("quasi-identifier", "L_SSE", "IL1s", "mean", "variance kept")


def as_markdown(document: dict[str, Any]) -> str:
    """The document as markdown; names of columns are escaped, values of records are not in it."""
    lines = [f"# Release {document['id']}, revision {document['revision']}", "", "| | |", "| --- | --- |"]
    lines += [f"| {_cell(name)} | {_cell(text)} |" for name, text in summary_rows(document)]
    attributes = attribute_rows(document)
    if attributes:
        lines += ["", "| " + " | ".join(ATTRIBUTE_HEADER) + " |", "| --- | ---: | ---: | ---: | ---: |"]
        lines += ["| " + " | ".join(_cell(text) for text in row) + " |" for row in attributes]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
