"""Compare a release's files with its input, with nothing of the product: what came in is what is released."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd
import pyarrow as pa

from seasons.readable import table_of
from soak.places import Place
from soak.reader import read_json
from soak.site import Site


def of_content(site: Site, output: Place, folder: str) -> Iterator[str]:
    """What of a release is not so by its files and its input; a sentence each."""
    roles = site.spec["roles"]
    manifest = read_json(output, f"{folder}/manifest.json")
    released = _frame(
        [table_of(part["name"], output.read(f"{folder}/{part['name']}") or b"") for part in manifest["parts"]]
    )
    given = _frame([table_of(path.name, path.read_bytes()) for path in sorted((site.folder / "input").iterdir())])
    if set(released.columns) != {
        column for role in ("quasi_identifiers", "blocking", "confidential") for column in roles[role]
    }:
        yield f"released columns are {sorted(released.columns)}"
        return
    if len(released) != len(given):
        yield f"{len(released)} records are released of {len(given)}"
    keys = [*roles["blocking"], *roles["quasi_identifiers"]]
    if (least := int(released.groupby(keys, dropna=False).size().min())) < site.spec["k"]:
        yield f"a combination has {least} records, of k={site.spec['k']}"
    confidential = list(roles["confidential"])
    if not _counts(released, confidential).equals(_counts(given, confidential)):
        yield "confidential values are not those of the input"
    for column in roles["quasi_identifiers"]:
        before, after = (_numbers(frame[column]) for frame in (given, released))
        if abs(before.mean() - after.mean()) > 5e-3 * before.std():
            yield f"the mean of {column} is not that of the input"
        if after.min() < before.min() or after.max() > before.max() or after.nunique() > len(after) // site.spec["k"]:
            yield f"{column} does not hold means of groups"


def _frame(tables: list[pa.Table | None]) -> pd.DataFrame:
    return pa.concat_tables([table for table in tables if table is not None]).to_pandas()


def _counts(frame: pd.DataFrame, columns: list[str]) -> pd.Series:
    return frame[columns].astype(str).value_counts(sort=False).sort_index()


def _numbers(values: pd.Series) -> pd.Series:
    if pd.api.types.is_string_dtype(values):  # of Python objects, or of Arrow in newer versions
        first = str(values.iloc[0])
        values = pd.to_datetime(values) if first.count("-") == 2 else pd.to_numeric(values)
    if pd.api.types.is_datetime64_any_dtype(values):
        return values.astype("int64") / 86_400e9
    return values.astype(float)
