"""Releases with the pages that stand beside them, for tests that read both as their users do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from inputs.people import people
from microagg_core.data.formats.writing import released_format
from microagg_core.release.manifest import Manifest, PartEntry, ReleaseFacts
from microagg_core.release.pages.pages import public_pages
from microagg_core.release.pages.words import in_role
from microagg_core.release.publish import StagedPart, publish
from microagg_core.release.revisions import part_batches
from microagg_core.store.objects import Store, sha256_hex
from releasing.parts import facts_for
from releasing.runs import run_stages, start, write_release

ABOUT = {
    "title": "People of three regions",
    "description": "Made-up people.\n\nOne row is one person.",
    "publisher": "Statistics Example",
    "contact": "data@example.org",
    "licence": "CC-BY-4.0",
    "url": "https://data.example.org/people",
    "keywords": ["people", "made up"],
    "period": "2024",
    "geography": "Nowhere",
    "columns": {
        "x": {"label": "Distance to the sea", "unit": "km"},
        "note": {"label": "A note", "description": "of two digits"},
    },
}


def beside(manifest_path: Path) -> Manifest:
    manifest = Manifest.from_bytes(manifest_path.read_bytes(), str(manifest_path))
    for name, page in public_pages(manifest).items():
        (manifest_path.parent / name).write_bytes(page)
    return manifest


def described_release(folder: Path, form: str, n: int = 400, **changes: Any) -> Path:
    output: dict[str, Any] = {"url": "output", "format": form}
    if form == "csv":
        output["csv"] = {"delimiter": ";", "null_word": "NA"}
    run_stages(start(write_release(folder, [people(n)], **{"output": output, "about": ABOUT, **changes})))
    (path,) = (folder / "output").rglob("manifest.json")
    return in_two_parts(path, folder)


def in_two_parts(path: Path, folder: Path) -> Path:
    """The release of a manifest once more, in two parts, with its pages."""
    manifest = Manifest.from_bytes(path.read_bytes(), str(path))
    table = pa.concat_tables(part_batches(path.parent / manifest.parts[0].name, manifest)[1])
    work, half = Store(str(folder / "halves")), table.num_rows // 2
    blocking = [column.name for column in in_role(manifest, "blocking")]
    parts = []
    for name, rows in (("first", table.slice(0, half)), ("second", table.slice(half))):
        data = released_format(manifest).to_bytes(rows.combine_chunks(), blocking)
        work.put(name, data)
        parts.append(StagedPart(work, name, rows.num_rows, len(data), sha256_hex(data)))
    facts = ReleaseFacts(**{name: getattr(manifest, name) for name in ReleaseFacts.model_fields})
    published = publish(Store(str(folder / "published")), facts, parts)
    found = folder / "published" / published.manifest.layout.manifest()
    beside(found)
    return found.parent


def manifest_of(
    columns: dict[str, str], *, form: str = "parquet", parts: int = 1, name: str = "people", **others: Any
) -> Manifest:
    table = pa.table({column: pa.array([1.0]) for column in columns})
    entries = [
        PartEntry(name=f"data/part-{i:05d}-{i:016x}-{'0' * 12}.{form}", rows=1, bytes=9, sha256=f"{i:016x}{'0' * 48}")
        for i in range(parts)
    ]
    facts = facts_for([table] * parts, form=form, **{"name": name, **others})
    made = [c.model_copy(update={"role": columns[c.name]}) for c in facts.columns]
    return Manifest.of(facts.model_copy(update={"columns": tuple(made)}), "r0001", tuple(entries))
