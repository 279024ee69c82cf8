"""Recompute every figure that a release publishes, from its input and its files alone, with pandas and numpy.

    python tests/reference/recompute.py [--data FOLDER] [eusilc] [GSS7402] [CPSSW8] [CPS1985]

Nothing of microagg is imported: its command makes a release of real files, and what its manifest says is computed
again from what came in and what came out, to six significant digits, or to as many as it says that a figure has; and
of losses by attribute, whether those and no others have fewer of which one released combination makes too much. What
categories lose is of groups: a released combination is taken to be one, as it is where means have enough digits. The
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
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
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
    #: Of quasi-identifiers, those that are categories; ordinal ones with their levels.
    nominal: tuple[str, ...] = ()
    ordinal: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)

    @property
    def roles(self) -> dict[str, list[Any]]:
        """The spec's roles; all other columns are left out of the input."""
        return {
            "quasi_identifiers": [self._declared(name) for name in self.quasi_identifiers],
            "blocking": list(self.blocking),
            "confidential": [KEY, *self.confidential],
        }

    def _declared(self, name: str) -> str | dict[str, Any]:
        if name in self.ordinal:
            levels = self.ordinal[name]
            return {"name": name, "kind": "ordinal", **({"levels": levels} if isinstance(levels[0], str) else {})}
        return {"name": name, "kind": "nominal"} if name in self.nominal else name


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
        # Years of education have an order, and count by it; wages have enough digits to tell groups apart.
        RealFile(
            "CPS1985",
            "AER",
            ("wage", "age", "education", "occupation", "sector", "ethnicity"),
            ("gender",),
            ("union",),
            {"k": 3},
            nominal=("occupation", "sector", "ethnicity"),
            ordinal={"education": tuple(range(1, 30))},
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
    # R keeps whole numbers as floats, which are no levels.
    frame = frame.astype({name: np.int64 for name, levels in file.ordinal.items() if isinstance(levels[0], int)})
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
    names = [name for name in file.quasi_identifiers if name not in file.nominal]
    numbers = dict.fromkeys(names, str)
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


@dataclass(frozen=True)
class Column:
    """A quasi-identifier before and after: values, midranks, or codes in the order of values; NaN where missing.

    Losses are squared distances of a record's ``points`` from its ``centres``: a number from the released one, and a
    midrank, or the corner of a simplex that stands for a category, from the mean of its group. Points have mean 0 and
    variance 1, and are 0 where missing.
    """

    name: str
    kind: str
    before: np.ndarray
    after: np.ndarray
    points: np.ndarray
    centres: np.ndarray
    #: Of categories, the code or midrank of each.
    values: dict[str, float] = field(default_factory=dict)

    @property
    def squares(self) -> np.ndarray:
        return np.asarray(((self.points - self.centres) ** 2).sum(axis=1))

    @property
    def from_mean(self) -> np.ndarray:
        return np.asarray((self.points**2).sum(axis=1))


def column_of(file: RealFile, name: str, came: pd.Series, out: pd.Series, group: np.ndarray) -> Column:
    if name not in file.nominal and name not in file.ordinal:
        before, after = (of.astype(np.float64).fillna(np.nan).to_numpy() for of in (came, out))
        mean, deviation = np.nanmean(before), np.nanstd(before)
        points, centres = (np.nan_to_num((of - mean) / deviation)[:, None] for of in (before, after))
        return Column(name, "number", before, after, points, centres)
    levels = list(file.ordinal.get(name, ())) or sorted(came.dropna().unique())
    codes, after = (
        of.map({level: float(i) for i, level in enumerate(levels)}).to_numpy(np.float64) for of in (came, out)
    )
    there = ~np.isnan(codes)
    counts = np.bincount(codes[there].astype(int), minlength=len(levels))
    if name in file.ordinal:
        ranks = np.cumsum(counts) - counts / 2
        before, after = (np.where(np.isnan(of), np.nan, ranks[np.nan_to_num(of).astype(int)]) for of in (codes, after))
        points = np.nan_to_num((before - np.nanmean(before)) / np.nanstd(before))[:, None]
    else:
        before, shares = codes, counts / counts.sum()
        corners = (np.eye(len(levels)) - shares) / np.sqrt(1 - (shares**2).sum())
        points = np.where(there[:, None], corners[np.nan_to_num(codes).astype(int)], 0.0)
    # All of a group have a value, or none.
    centres = pd.DataFrame(points).groupby(group).transform("mean").to_numpy()
    values = dict(zip(map(str, levels), ranks.tolist() if name in file.ordinal else range(len(levels)), strict=True))
    return Column(name, "ordinal" if name in file.ordinal else "nominal", before, after, points, centres, values)


def recompute(file: RealFile, manifest: dict[str, Any], came: pd.DataFrame, out: pd.DataFrame) -> list[Line]:
    """Every figure of the manifest, and what is promised of each value; the input in the order of the release."""
    losses, group = manifest["losses"], _groups(manifest, out)
    columns = [column_of(file, name, came[name], out[name], group) for name in file.quasi_identifiers]
    numbers = [column for column in columns if column.kind == "number"]
    categories = [column for column in columns if column.kind != "number"]
    return [
        Line("records", losses["records"], len(out), losses["records"] == len(out) == manifest["rows"]),
        Line("withheld", manifest["suppressed"], len(came) - len(out), manifest["suppressed"] == 0),
        _smallest_combination(manifest, out),
        *_totals(losses, columns),
        *_bound(file, manifest, columns, out),
        *(line for column in numbers for line in _attribute(losses, column)),
        *(line for column in categories for line in _category(losses, column)),
        *(line for column in numbers for line in _values(losses, manifest["k"], column)),
        *_dominance(losses, columns, group),
        *_correlations(losses, [column for column in columns if column.kind != "nominal"]),
        *(line for column in numbers for line in _promises(column, group)),
        *(line for column in categories for line in _promises_of_category(column, group)),
    ]


def _groups(manifest: dict[str, Any], out: pd.DataFrame) -> np.ndarray:
    keys = [column["name"] for column in manifest["columns"] if column["role"] != "confidential"]
    return np.asarray(out.groupby(keys, dropna=False, sort=False).ngroup())


def _smallest_combination(manifest: dict[str, Any], out: pd.DataFrame) -> Line:
    keys = [column["name"] for column in manifest["columns"] if column["role"] != "confidential"]
    smallest = int(out.groupby(keys, dropna=False).size().min())
    return Line("k, and records of the rarest combination", manifest["k"], smallest, smallest >= manifest["k"])


def _totals(losses: dict[str, Any], columns: list[Column]) -> list[Line]:
    lost = np.sum([column.squares for column in columns], axis=0)
    all_there = np.sum([column.from_mean for column in columns], axis=0)
    sse, sst, sde, sdt = lost.sum(), all_there.sum(), np.sqrt(lost).sum(), np.sqrt(all_there).sum()
    figures = {"sse": sse, "sst": sst, "l_sse": 100 * sse / sst, "sde": sde, "sdt": sdt, "l_e": 100 * sde / sdt}
    return [as_published(losses, name, value) for name, value in figures.items()]


def _bound(file: RealFile, manifest: dict[str, Any], columns: list[Column], out: pd.DataFrame) -> list[Line]:
    """The neighbour bound, by looking at all pairs; rounded down, and proved on a scale of 24 bits."""
    losses, k = manifest["losses"], manifest["k"]
    points = np.hstack([column.points for column in columns])
    missing = np.isnan(np.column_stack([column.before for column in columns]))
    blocks = out[list(file.blocking)].assign(pattern=[row.tobytes() for row in missing])
    bound = sum(
        _least_loss(points[rows], k)
        for rows in blocks.reset_index(drop=True).groupby(list(blocks), dropna=False).indices.values()
    )
    floor = Context(prec=6, rounding=ROUND_FLOOR).plus
    low, high = (float(floor(Decimal(bound * part))) for part in (1 - 3e-7, 1))
    sse, published = float(sum(column.squares.sum() for column in columns)), losses.get("lower_bound")
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


def _attribute(losses: dict[str, Any], column: Column) -> list[Line]:
    name, there = column.name, ~np.isnan(column.before)
    published, released = losses["attributes"][name], column.after[there]
    x, y = column.points[there, 0], column.centres[there, 0]
    figures = {
        "l_sse": 100 * ((x - y) ** 2).sum() / (x**2).sum(),
        "il1s": np.abs(x - y).mean() / np.sqrt(2),
        "mean": released.mean(),
        "variance": released.var(),
        "variance_kept": 100 * y.var() / x.var(),
    }
    unit = Line(f"attributes.{name}.unit", published["unit"], "the column's", published["unit"] == "the column's")
    return [unit, *(as_published(losses, f"attributes.{name}.{figure}", value) for figure, value in figures.items())]


def _category(losses: dict[str, Any], column: Column) -> list[Line]:
    """Losses of a group's chance to differ; changed records; and ranks moved, or shares and categories kept."""
    name, there = column.name, ~np.isnan(column.before)
    before, after, published = column.before[there], column.after[there], losses["attributes"][name]
    figures = {
        "l_sse": 100 * column.squares.sum() / column.from_mean.sum(),
        "mismatches": 100 * (before != after).mean(),
    }
    if column.kind == "ordinal":
        figures["rank_displacement"] = 100 * np.abs(before - after).mean() / len(before)
    else:
        shares = [pd.Series(of).value_counts(normalize=True) for of in (before, after)]
        figures["margins"] = 50 * shares[0].sub(shares[1], fill_value=0).abs().sum()
        figures["categories"], figures["categories_kept"] = (len(of) for of in shares)
    told = published["shares"]
    own = [100 * (after == column.values[of["category"]]).mean() for of in told]
    figures["other_shares"] = 100 * (~np.isin(after, [column.values[of["category"]] for of in told])).mean()
    unit = Line(f"attributes.{name}.unit", published["unit"], "categories", published["unit"] == "categories")
    lines = [as_published(losses, f"attributes.{name}.{figure}", value, 1e-9) for figure, value in figures.items()]
    came = [100 * (before == column.values[of["category"]]).mean() for of in told]
    near = [
        six(share) == of["share"] and abs(of.get("share_before", was) - was) <= of.get("within", 0) + 1e-9
        for of, share, was in zip(told, own, came, strict=True)
    ]
    return [unit, *lines, Line(f"attributes.{name}.shares", told, list(zip(own, came, strict=True)), all(near))]


def _values(losses: dict[str, Any], k: int, column: Column) -> Iterator[Line]:
    """Shares of zeros and of the five most frequent other values, and quantiles; and who has those of the input."""
    name, (before, after) = column.name, (pd.Series(side).dropna() for side in (column.before, column.after))
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


def _dominance(losses: dict[str, Any], columns: list[Column], group: np.ndarray) -> Iterator[Line]:
    """Whether just those losses have few digits of which two combinations leave less than 1.05 times what one makes."""
    for column in columns:
        if column.kind == "number":
            made = {"l_sse": column.squares, "il1s": np.sqrt(column.squares)}
        else:
            changed = np.nan_to_num(column.before) != np.nan_to_num(column.after)
            made = {"l_sse": column.squares, "mismatches": changed.astype(np.float64)}
        for figure, of_records in made.items():
            by_group = np.bincount(group, of_records)
            first, second, *_ = (*np.sort(by_group)[::-1], 0.0, 0.0)
            share = round((by_group.sum() - first - second) / first, 3) if first else math.inf
            path = f"attributes.{column.name}.{figure}"
            full = figure in losses["attributes"][column.name] and path not in losses.get("coarser", {})
            said = "all digits" if full else "fewer digits"
            yield Line(f"{path}: rest, of the largest", said, share, full == (share >= 1.05))


def _correlations(losses: dict[str, Any], columns: list[Column]) -> list[Line]:
    published, pairs = losses["correlation_change"], np.triu_indices(len(columns), 1)
    before, after = (
        pd.DataFrame({column.name: getattr(column, side) for column in columns}).corr() for side in ("before", "after")
    )
    change = (after - before).abs().to_numpy()[pairs]
    known = change[~np.isnan(change)]
    counts = {"pairs": len(known), "left_out": len(change) - len(known)}
    return [
        *(Line(f"correlation_change.{n}", published[n], v, published[n] == v) for n, v in counts.items()),
        # A change is the difference of two numbers near 1: rounding errors weigh more.
        as_published(losses, "correlation_change.mean", known.mean(), slack=1e-9),
        as_published(losses, "correlation_change.largest", known.max(), slack=1e-9),
    ]


def _promises(column: Column, group: np.ndarray) -> Iterator[Line]:
    """A value lies between the least and the greatest of its combination; of equal values, it is that value."""
    name, there = column.name, ~np.isnan(column.before)
    went, by_group = column.after[there], pd.Series(column.before[there]).groupby(group[there])
    least, greatest = by_group.transform("min").to_numpy(), by_group.transform("max").to_numpy()
    outside = int(((went < least) | (went > greatest)).sum())
    yield Line(f"{name}: records outside their group's range", 0, outside, outside == 0)
    zeros = (least == 0) & (greatest == 0)
    kept = int((went[zeros] == 0).sum())
    yield Line(f"{name}: zeros of groups of zeros, kept as zeros", int(zeros.sum()), kept, kept == zeros.sum())
    gaps = int((np.isnan(column.after) != ~there).sum())
    yield Line(f"{name}: missing values that came or went", 0, gaps, gaps == 0)


def _promises_of_category(column: Column, group: np.ndarray) -> Iterator[Line]:
    """A category is its combination's lower median, or its most frequent: of several the rarest, then the first."""
    there = ~np.isnan(column.before)
    came, everywhere = pd.Series(column.before[there]), pd.Series(column.before).value_counts()

    def released(own: pd.Series) -> float:
        if column.kind == "ordinal":
            return float(np.sort(own)[(len(own) - 1) // 2])
        counts = own.value_counts()
        return float(min(counts[counts == counts.max()].index, key=lambda code: (everywhere[code], code)))

    expected = came.groupby(group[there]).transform(released).to_numpy()
    others = int((expected != column.after[there]).sum())
    yield Line(f"{column.name}: records with another category than their group's", 0, others, others == 0)
    gaps = int((np.isnan(column.after) != ~there).sum())
    yield Line(f"{column.name}: missing values that came or went", 0, gaps, gaps == 0)


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
