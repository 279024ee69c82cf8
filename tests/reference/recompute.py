"""Recompute every figure that a release publishes, from its input and its files alone, with pandas and numpy.

    python tests/reference/recompute.py [--data FOLDER] [eusilc] [GSS7402] [CPSSW8]

Nothing of microagg is imported: its command makes a release of real files, and what its manifest says is computed
again from what came in and what came out, to six significant digits, or to as many as it says that a figure has; and
of losses by attribute, whether those and no others have fewer of which one released combination makes too much. The
files are those of R's packages laeken and AER, found where R keeps packages or in --data, as .rda or .RData (read with
pyreadr) or as .csv. Every record carries a unique confidential number, by which released records find the ones that
they came from. Exit code 1: a difference.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Context, Decimal
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

KEY = "record_number"
_PLACES = ("/usr/lib/R/site-library", "/usr/lib/R/library", "/usr/local/lib/R/site-library", "/usr/lib64/R/library")


@dataclass(frozen=True)
class RealFile:
    """A file of an R package, and what is to be released of it."""

    name: str
    package: str
    quasi_identifiers: tuple[str, ...]
    blocking: tuple[str, ...]
    confidential: tuple[str, ...]
    settings: dict[str, Any]

    @property
    def roles(self) -> dict[str, list[str]]:
        """The spec's roles; all other columns are left out of the input."""
        return {
            "quasi_identifiers": list(self.quasi_identifiers),
            "blocking": list(self.blocking),
            "confidential": [KEY, *self.confidential],
        }


INCOMES = ("py010n", "py050n", "py090n", "py100n", "py110n", "py120n", "py130n", "py140n")
FILES = {
    file.name: file
    for file in (
        # Children have no personal income: eight components are missing together. Most others are 0.
        RealFile("eusilc", "laeken", ("age", *INCOMES), ("rb090",), ("db040",), {"k": 5}),
        # Only mothers have an age at first birth.
        RealFile(
            "GSS7402",
            "AER",
            ("kids", "age", "education", "siblings", "agefirstbirth"),
            ("ethnicity", "immigrant"),
            ("year", "city16"),
            {"k": 3, "algorithm": "v_mdav"},
        ),
        RealFile(
            "CPSSW8",
            "AER",
            ("earnings", "age", "education"),
            ("gender", "region"),
            (),
            {"k": 5, "refine": "off", "output": {"url": "release", "format": "csv"}},
        ),
    )
}


@dataclass(frozen=True)
class Line:
    """A figure: as published, as recomputed, and whether they are the same to the digits that it has."""

    figure: str
    published: Any
    recomputed: Any
    equal: bool


# --- Finding and releasing a file ----------------------------------------------------------------------------


def find(file: RealFile, folder: Path | None) -> Path | None:
    """Where the file is: in the given folder, in that which MICROAGG_DATA names, or where R keeps packages."""
    folder = folder or (Path(named) if (named := os.environ.get("MICROAGG_DATA")) else None)
    libraries = [*os.environ.get("R_LIBS", "").split(os.pathsep), *_PLACES]
    places = [folder] if folder else [Path(library) / file.package / "data" for library in libraries if library]
    paths = [place / f"{file.name}{ending}" for place in places for ending in (".rda", ".RData", ".csv")]
    return next((path for path in paths if path.is_file()), None)


def read(file: RealFile, path: Path) -> pd.DataFrame:
    if path.suffix == ".csv":
        frame = pd.read_csv(path)
    else:
        import pyreadr

        frame = pyreadr.read_r(str(path))[file.name]
    names = [*file.quasi_identifiers, *file.blocking, *file.confidential]
    frame = frame[names].reset_index(drop=True)
    texts = frame.select_dtypes(exclude="number").columns
    frame[texts] = frame[texts].astype(object).where(frame[texts].notna(), None)
    return frame.assign(**{KEY: np.arange(len(frame)) + 1})


def release(file: RealFile, frame: pd.DataFrame, folder: Path) -> tuple[dict[str, Any], pd.DataFrame]:
    """Have the command release the frame; the manifest, and the released records."""
    frame.to_parquet(folder / "input.parquet", index=False)
    spec = {
        "name": file.name.lower(),
        "id": "recomputed",
        "input": {"url": "input.parquet"},
        "output": {"url": "release"},
        "work": {"url": "work"},
        "roles": file.roles,
        "missing": "separate",
        # What the real files would disclose is not what is recomputed here.
        "acknowledge": dict.fromkeys(
            ("nearly_unique", "jointly_unique", "ties_few_records", "fixes_quasi_identifier", "completes_mean"),
            file.roles["confidential"],
        ),
        **file.settings,
    }
    (folder / "release.yaml").write_text(json.dumps(spec, indent=1), encoding="utf-8")  # YAML reads JSON
    beside = Path(sys.executable).with_name("microagg")
    command = str(beside) if beside.exists() else shutil.which("microagg")
    if command is None:
        sys.exit("the command microagg is not there; install the project first: pip install .")
    arguments = [command, "run", "release.yaml", "--direct", "--quiet"]
    done = subprocess.run(arguments, cwd=folder, stdout=subprocess.DEVNULL, check=False)
    if done.returncode:
        sys.exit(f"microagg run ended with exit code {done.returncode} for {file.name}")
    output = folder / "release"
    manifest_path = output / json.loads((output / "latest.json").read_text())["manifest"]
    manifest = json.loads(manifest_path.read_text())
    parts = [_read_part(manifest_path.parent / part["name"], file) for part in manifest["parts"]]
    return manifest, pd.concat(parts, ignore_index=True)


def _read_part(path: Path, file: RealFile) -> pd.DataFrame:
    if path.suffix == ".parquet":
        return pd.read_parquet(path)
    # As text first: Python reads every digit of a number, pandas may not.
    numbers = dict.fromkeys(file.quasi_identifiers, str)
    return pd.read_csv(path, dtype=numbers).astype(dict.fromkeys(numbers, np.float64))


# --- Recomputing ---------------------------------------------------------------------------------------------


def six(value: float) -> float:
    return float(f"{value:.6g}")


def same(figure: str, published: Any, recomputed: float, slack: float = 1e-10) -> Line:
    """Equal to six digits; a value that lies on the edge between two, within rounding errors, may be either."""
    near = {six(recomputed - slack * abs(recomputed)), six(recomputed + slack * abs(recomputed))}
    return Line(figure, published, six(recomputed), published in near)


def _path(name: str) -> list[str]:
    """Where a figure stands; names of columns may have points."""
    if match := re.fullmatch(r"attributes\.(.+)\.([a-z][a-z0-9_]*)(?:\.(\d+))?", name):
        return ["attributes", *(part for part in match.groups() if part)]
    return name.split(".")


def as_published(losses: dict[str, Any], name: str, recomputed: float, slack: float = 1e-10) -> Line:
    published: Any = losses
    for part in _path(name):
        published = published.get(part, {})
    if published == {}:
        return Line(name, "withheld", six(recomputed), name in re.split(r"[,:;] ", losses.get("withheld", "")))
    within = losses.get("coarser", {}).get(name)
    if within is None:
        return same(name, published, recomputed, slack)
    return Line(name, published, six(recomputed), abs(published - recomputed) <= within * (1 + slack))


def recompute(file: RealFile, manifest: dict[str, Any], came: pd.DataFrame, out: pd.DataFrame) -> list[Line]:
    """Every figure of the manifest, and what is promised of each value; the input in the order of the release."""
    names, losses = list(file.quasi_identifiers), manifest["losses"]
    before, after = (frame[names].astype(np.float64).fillna(np.nan).to_numpy() for frame in (came, out))
    mean, deviation = np.nanmean(before, axis=0), np.nanstd(before, axis=0)
    z, masked = (before - mean) / deviation, (after - mean) / deviation
    return [
        Line("records", losses["records"], len(out), losses["records"] == len(out) == manifest["rows"]),
        Line("withheld", manifest["suppressed"], len(came) - len(out), manifest["suppressed"] == 0),
        _smallest_combination(manifest, out),
        *_totals(losses, z, masked),
        *_bound(file, manifest, z, masked, out),
        *(line for j, name in enumerate(names) for line in _attribute(losses, name, j, z, masked, after)),
        *(
            line
            for j, name in enumerate(names)
            for line in _values(
                losses, manifest["k"], name, pd.Series(before[:, j]).dropna(), pd.Series(after[:, j]).dropna()
            )
        ),
        *_dominance(losses, manifest, z, masked, out, names),
        *_correlations(losses, came[names], out[names]),
        *_promises(manifest, names, before, after, out),
    ]


def _smallest_combination(manifest: dict[str, Any], out: pd.DataFrame) -> Line:
    keys = [column["name"] for column in manifest["columns"] if column["role"] != "confidential"]
    smallest = int(out.groupby(keys, dropna=False).size().min())
    return Line("k, and records of the rarest combination", manifest["k"], smallest, smallest >= manifest["k"])


def _totals(losses: dict[str, Any], z: np.ndarray, masked: np.ndarray) -> list[Line]:
    squared = np.nan_to_num((z - masked) ** 2)
    sse, sst = squared.sum(), np.nansum(z**2)
    sde, sdt = np.sqrt(squared.sum(axis=1)).sum(), np.sqrt(np.nansum(z**2, axis=1)).sum()
    figures = {"sse": sse, "sst": sst, "l_sse": 100 * sse / sst, "sde": sde, "sdt": sdt, "l_e": 100 * sde / sdt}
    return [as_published(losses, name, value) for name, value in figures.items()]


def _bound(
    file: RealFile, manifest: dict[str, Any], z: np.ndarray, masked: np.ndarray, out: pd.DataFrame
) -> list[Line]:
    """The neighbour bound, by looking at all pairs; rounded down, and proved on a scale of 24 bits."""
    losses, k = manifest["losses"], manifest["k"]
    blocks = out[list(file.blocking)].assign(pattern=[row.tobytes() for row in np.isnan(z)])
    bound = sum(
        _least_loss(np.nan_to_num(z[rows]), k)
        for rows in blocks.reset_index(drop=True).groupby(list(blocks), dropna=False).indices.values()
    )
    floor = Context(prec=6, rounding=ROUND_FLOOR).plus
    low, high = (float(floor(Decimal(bound * part))) for part in (1 - 3e-7, 1))
    sse, published = float(np.nansum((z - masked) ** 2)), losses.get("lower_bound")
    if published is None or "lower_bound" in losses.get("coarser", {}):
        return [as_published(losses, "lower_bound", bound)]
    gap = 100 * (sse - published) / sse if sse else 0.0
    return [Line("lower_bound", published, high, low <= published <= high), as_published(losses, "gap", gap)]


def _least_loss(block: np.ndarray, k: int) -> float:
    if len(block) < 2 * k:
        return float(((block - block.mean(axis=0)) ** 2).sum())
    norms, total = (block**2).sum(axis=1), 0.0
    for start in range(0, len(block), 512):
        some = slice(start, start + 512)
        squared = np.maximum(norms[some, None] + norms - 2 * block[some] @ block.T, 0.0)
        total += float(np.partition(squared, k - 1, axis=1)[:, :k].sum())
    return total / (2 * k)


def _attribute(
    losses: dict[str, Any], name: str, j: int, z: np.ndarray, masked: np.ndarray, after: np.ndarray
) -> list[Line]:
    published, there = losses["attributes"][name], ~np.isnan(z[:, j])
    x, y, released = z[there, j], masked[there, j], after[there, j]
    figures = {
        "l_sse": 100 * ((x - y) ** 2).sum() / (x**2).sum(),
        "il1s": np.abs(x - y).mean() / np.sqrt(2),
        "mean": released.mean(),
        "variance": released.var(),
        "variance_kept": 100 * y.var() / x.var(),
    }
    unit = Line(f"attributes.{name}.unit", published["unit"], "the column's", published["unit"] == "the column's")
    return [unit, *(as_published(losses, f"attributes.{name}.{figure}", value) for figure, value in figures.items())]


def _values(losses: dict[str, Any], k: int, name: str, before: pd.Series, after: pd.Series) -> Iterator[Line]:
    """Shares of zeros and of the five most frequent other values, and quantiles; and who has those of the input."""
    coarser, published = losses.get("coarser", {}), losses["attributes"][name]
    if "quantiles" not in published:  # of the arrivals of a later night
        return
    for end, side in (("_before", before), ("", after)):
        heaps = side[side != 0].value_counts().nlargest(5).sum()
        for figure, count in (("zeros", (side == 0).sum()), ("heaps", heaps)):
            yield as_published(losses, f"attributes.{name}.{figure}{end}", 100 * count / len(side))
        for percent in (5, 25, 50, 75, 95):
            figure = f"attributes.{name}.quantiles{end}.{percent}"
            yield as_published(losses, figure, side.quantile(percent / 100))
    for percent, value in published["quantiles_before"].items():
        within = coarser.get(f"attributes.{name}.quantiles_before.{percent}", 1e-5 * abs(value))
        near = int(((before - value).abs() <= within).sum())
        enough = near >= max(k, 10) and min(int(percent), 100 - int(percent)) / 100 * len(before) >= max(k, 10)
        yield Line(f"{name}: records at the quantile {percent} %", max(k, 10), near, enough)


def _dominance(
    losses: dict[str, Any],
    manifest: dict[str, Any],
    z: np.ndarray,
    masked: np.ndarray,
    out: pd.DataFrame,
    names: list[str],
) -> Iterator[Line]:
    """Whether just those losses have few digits of which two combinations leave less than 1.05 times what one makes."""
    keys = [column["name"] for column in manifest["columns"] if column["role"] != "confidential"]
    group = out.groupby(keys, dropna=False, sort=False).ngroup().to_numpy()
    for figure, made in (("l_sse", (z - masked) ** 2), ("il1s", np.abs(z - masked))):
        by_group = pd.DataFrame(np.nan_to_num(made)).groupby(group).sum().to_numpy()
        for j, name in enumerate(names):
            first, second, *_ = (*np.sort(by_group[:, j])[::-1], 0.0, 0.0)
            share = round((by_group[:, j].sum() - first - second) / first, 3) if first else math.inf
            full = figure in losses["attributes"][name] and f"attributes.{name}.{figure}" not in losses.get(
                "coarser", {}
            )
            said = "all digits" if full else "fewer digits"
            yield Line(f"attributes.{name}.{figure}: rest, of the largest", said, share, full == (share >= 1.05))


def _correlations(losses: dict[str, Any], before: pd.DataFrame, after: pd.DataFrame) -> list[Line]:
    published = losses["correlation_change"]
    pairs = np.triu_indices(before.shape[1], 1)
    change = (after.astype(float).corr() - before.astype(float).corr()).abs().to_numpy()[pairs]
    known = change[~np.isnan(change)]
    counts = {"pairs": len(known), "left_out": len(change) - len(known)}
    return [
        *(Line(f"correlation_change.{n}", published[n], v, published[n] == v) for n, v in counts.items()),
        # A change is the difference of two numbers near 1: rounding errors weigh more.
        as_published(losses, "correlation_change.mean", known.mean(), slack=1e-9),
        as_published(losses, "correlation_change.largest", known.max(), slack=1e-9),
    ]


def _promises(
    manifest: dict[str, Any], names: list[str], before: np.ndarray, after: np.ndarray, out: pd.DataFrame
) -> Iterator[Line]:
    """A value lies between the least and the greatest of its combination; of equal values, it is that value."""
    keys = [column["name"] for column in manifest["columns"] if column["role"] != "confidential"]
    group = out.groupby(keys, dropna=False, sort=False).ngroup().to_numpy()
    for j, name in enumerate(names):
        there = ~np.isnan(before[:, j])
        came, went = pd.Series(before[there, j]), after[there, j]
        by_group = came.groupby(group[there])
        least, greatest = by_group.transform("min").to_numpy(), by_group.transform("max").to_numpy()
        outside = int(((went < least) | (went > greatest)).sum())
        yield Line(f"{name}: records outside their group's range", 0, outside, outside == 0)
        zeros = (least == 0) & (greatest == 0)
        kept = int((went[zeros] == 0).sum())
        yield Line(f"{name}: zeros of groups of zeros, kept as zeros", int(zeros.sum()), kept, kept == zeros.sum())
        gaps = int((np.isnan(after[:, j]) != ~there).sum())
        yield Line(f"{name}: missing values that came or went", 0, gaps, gaps == 0)


def paired(frame: pd.DataFrame, out: pd.DataFrame) -> pd.DataFrame:
    """The input's records in the order of the released ones, by the confidential number."""
    return frame.set_index(KEY).loc[out[KEY]].reset_index()


def kept(file: RealFile, came: pd.DataFrame, out: pd.DataFrame) -> list[Line]:
    """Blocking and confidential values are each record's own (a merged blocking value is a list of such)."""
    lines = []
    for name in (*file.confidential, *file.blocking):
        pairs = zip(came[name].astype("string"), out[name].astype("string"), strict=True)
        lists = name in file.blocking
        differ = sum(
            not (a is pd.NA and b is pd.NA) and (b is pd.NA or a not in (b.split("|") if lists else [b]))
            for a, b in pairs
        )
        lines.append(Line(f"{name}: values that are not the record's own", 0, differ, differ == 0))
    return lines


# --- Telling -------------------------------------------------------------------------------------------------


def walk(file: RealFile, path: Path, folder: Path) -> list[Line]:
    """Release a file in a folder, and recompute what its manifest says."""
    frame = read(file, path)
    manifest, out = release(file, frame, folder)
    came = paired(frame, out)
    return [*recompute(file, manifest, came, out), *kept(file, came, out)]


def show(file: RealFile, lines: list[Line]) -> int:
    """Print a line a figure; how many differ."""
    width = max(len(line.figure) for line in lines)
    print(f"\n{file.name}\n{'figure':<{width}}  {'manifest':>14}  {'recomputed':>14}  equal to the digits given")
    for line in lines:
        print(
            f"{line.figure:<{width}}  {line.published!s:>14}  {line.recomputed!s:>14}  {'yes' if line.equal else 'NO'}"
        )
    differing = sum(not line.equal for line in lines)
    print(f"{file.name}: {len(lines)} figures, {differing} differ")
    return differing


def main() -> None:
    """Walk the named files, or all."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("files", nargs="*", metavar="FILE", help=", ".join(FILES))
    parser.add_argument("--data", type=Path, help="folder with the files as .rda, .RData or .csv")
    chosen = parser.parse_args()
    if unknown := [name for name in chosen.files if name not in FILES]:
        parser.error(f"there is no file {unknown[0]!r}; it must be among {', '.join(FILES)}")
    differing = 0
    for name in chosen.files or FILES:
        path = find(FILES[name], chosen.data)
        if path is None:
            place = chosen.data or f"R's package {FILES[name].package}"
            print(f"{name} is skipped: it is not in {place}; install the package, or give --data a folder that has it")
            continue
        if path.suffix != ".csv" and find_spec("pyreadr") is None:
            print(
                f"{name} is skipped: reading {path} needs pyreadr; install it, or give --data a folder with {name}.csv"
            )
            continue
        with tempfile.TemporaryDirectory() as folder:
            differing += show(FILES[name], walk(FILES[name], path, Path(folder)))
    sys.exit(1 if differing else 0)


if __name__ == "__main__":
    main()
