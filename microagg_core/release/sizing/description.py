"""A release described by its size alone, and the place where it would be made: ``rows=1e9,keys=3e6,workers=100``.

Of keys that nobody has counted the sizes are drawn from a distribution; the plan is then made as for a real release.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, get_args, get_origin, get_type_hints

import numpy as np
import pyarrow as pa

from microagg_core.arrays import Ints
from microagg_core.blocks.cuts import Cut, Tree
from microagg_core.blocks.plan import BlockPlan, default_max_records, plan_blocks
from microagg_core.blocks.strata import Strata
from microagg_core.errors import SpecError
from microagg_core.group.algorithms import algorithms
from microagg_core.group.algorithms.info import AlgorithmInfo
from microagg_core.spec.clusters import LocalCluster
from microagg_core.spec.release import ReleaseSpec
from microagg_core.store.urls import is_local

Format = Literal["parquet", "csv", "arrow"]

_SIZE = re.compile(r"([0-9.]+(?:e[+-]?[0-9]+)?)\s*([A-Za-z]*)", re.IGNORECASE)
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "b": 10**9, "t": 10**12}
_UNITS |= {f"{unit}b": 10**power for unit, power in (("k", 3), ("m", 6), ("g", 9), ("t", 12))}
_UNITS |= {f"{unit}ib": 2**power for unit, power in (("k", 10), ("m", 20), ("g", 30), ("t", 40))}
#: What may be no number at all, or none above zero.
_MAY_BE_ZERO = {"identifiers", "spread", "latency", "failures", "core_hour", "put", "get", "gb_month", "max_records"}
_MAY_BE_ZERO |= {"row_bytes", "input_row_bytes", "part_rows", "blocking"}
#: What is more than this would take the forecast itself too long.
_MOST = {"rows": 1e11, "keys": 3e7, "workers": 1e5, "threads": 1e3, "columns": 1e4, "identifiers": 100, "blocking": 100}


@dataclass(frozen=True)
class Description:
    """A release described without data: its size, its workers, its prices."""

    #: Of the input: its records, and the distinct combinations of blocking values.
    rows: int = 1_000_000
    keys: int = 1_000
    #: Quasi-identifiers and confidential columns together; and columns with these roles.
    columns: int = 8
    quasi_identifiers: int = 4
    blocking: int = 2
    identifiers: int = 1
    #: As in a spec; ``max_records=0`` leaves it to the algorithm.
    k: int = 5
    algorithm: str = "mdav"
    refine: Literal["off", "fast", "thorough"] = "fast"
    max_records: int = 0
    #: How many records a key has: all as many, or the n-th largest in proportion to ``n^-spread``.
    sizes: Literal["zipf", "equal"] = "zipf"
    spread: float = 0.6
    #: Whether records of a key lie together in the input, or anywhere.
    order: Literal["mixed", "sorted"] = "mixed"
    #: Of a row's released columns in memory, and of a row in the input file; 0: as in a census.
    row_bytes: float = 0.0
    input_row_bytes: float = 0.0
    #: Rows of an input part; 0: as many as parts are cut to.
    part_rows: int = 0
    #: Of the release, and of the input.
    format: Format = "parquet"
    input_format: Format = "parquet"
    #: Workers, threads of each, its memory, and a core's speed beside the one on which the figures were measured.
    workers: int = 2
    threads: int = 1
    memory: int = 2 * 2**30
    speed: float = 1.0
    #: Where input, work area and output lie; seconds to the first byte of an answer, bytes a second of one worker, and
    #: of all of them; requests a second that it takes for each prefix.
    store: Literal["s3", "disk"] = "s3"
    latency: float = 0.02
    bandwidth: float = 100e6
    store_bandwidth: float = 100e9
    puts: float = 3500.0
    gets: float = 5500.0
    #: Of a worker, an hour.
    failures: float = 0.0
    #: Prices: of an hour of a core, of a request, of a month of a GB.
    core_hour: float = 0.04
    put: float = 5e-6
    get: float = 4e-7
    gb_month: float = 0.023

    @property
    def confidential(self) -> int:
        return self.columns - self.quasi_identifiers

    @property
    def info(self) -> AlgorithmInfo:
        return algorithms()[self.algorithm].with_refinement(self.refine)

    @property
    def lanes(self) -> int:
        return self.workers * self.threads

    def changed(self, values: Mapping[str, Any]) -> Description:
        """Say the same with other values, unless they do not go together."""
        one = replace(self, **values)
        if one.algorithm not in algorithms():
            raise SpecError(f"--describe: {one.algorithm!r} is no algorithm; choose one of {', '.join(algorithms())}")
        problems = {
            algorithms()[one.algorithm].refuses(one.k, one.quasi_identifiers): True,
            f"columns={one.columns} are fewer than quasi_identifiers={one.quasi_identifiers}; "
            "columns are quasi-identifiers and confidential ones together": one.quasi_identifiers > one.columns,
            f"rows={one.rows} are fewer than k={one.k}": one.rows < one.k,
            f"keys={one.keys} are more than rows={one.rows}": one.keys > one.rows,
            f"max_records={one.max_records} is below twice k={one.k}": one.max_records != 0
            and one.max_records < 2 * one.k,
        }
        for problem, is_so in problems.items():
            if problem and is_so:
                raise SpecError(f"--describe: {problem}")
        return one


_FIELDS: dict[str, type[Any]] = {field.name: type(field.default) for field in fields(Description)}
_WORDS = {name: get_args(hint) for name, hint in get_type_hints(Description).items() if get_origin(hint) is Literal}


def read_number(text: str) -> float:
    """A number as people write it; ValueError for anything else.

    >>> read_number("1e9"), read_number("3M"), read_number("2GiB")
    (1000000000.0, 3000000.0, 2147483648.0)
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None or match[2].lower() not in _UNITS:
        raise ValueError(text)
    number = float(match[1]) * _UNITS[match[2].lower()]
    if not math.isfinite(number):
        raise ValueError(text)
    return number


def read_description(text: str, given: Mapping[str, Any] | None = None) -> Description:
    """A description as it is written, ``name=value`` with commas between; ``given`` is known from elsewhere.

    >>> read_description("rows=1e9, keys=3M, memory=2GiB").keys
    3000000
    """
    values = dict(given or {})
    for one in filter(None, (part.strip() for part in text.split(","))):
        name, is_set, value = (piece.strip() for piece in one.partition("="))
        if not is_set or name not in _FIELDS:
            raise SpecError(f"--describe: {name!r} is not known; write NAME=VALUE with one of {', '.join(_FIELDS)}")
        values[name] = _value(name, value)
    return Description().changed(values)


def _value(name: str, text: str) -> Any:
    if name == "algorithm":
        return text
    if name in _WORDS:
        if text not in _WORDS[name]:
            raise SpecError(f"--describe: {name} is one of {', '.join(_WORDS[name])} (got {text!r})")
        return text
    try:
        number = read_number(text)
    except ValueError:
        raise SpecError(f"--describe: {name} is a number such as 1e9, 3M or 2GiB (got {text!r})") from None
    if number <= 0 and name not in _MAY_BE_ZERO:
        raise SpecError(f"--describe: {name} must be above 0 (got {text!r})")
    if number > _MOST.get(name, math.inf):
        raise SpecError(f"--describe: {name} must be at most {_MOST[name]:,.0f} (got {text!r})")
    if _FIELDS[name] is int and number != int(number):
        raise SpecError(f"--describe: {name} is a whole number (got {text!r})")
    return _FIELDS[name](number)


def described(spec: ReleaseSpec) -> dict[str, Any]:
    """Values of a description, by name."""
    if not isinstance(spec.refine, str):
        raise SpecError("refine: seconds for each block cannot be described; add --set refine=off, fast or thorough")
    roles = spec.roles
    values: dict[str, Any] = {
        "columns": roles.n_averaged + len(roles.confidential),
        "quasi_identifiers": roles.n_averaged,
        "blocking": len(roles.blocking),
        "identifiers": len(roles.identifiers),
        "k": spec.k,
        "algorithm": spec.algorithm.name,
        "refine": spec.refine,
        "max_records": spec.blocks.max_records or 0,
        "format": spec.output.format,
        "store": "disk" if is_local(spec.work.url) else "s3",
    }
    if not roles.blocking:
        values["keys"] = 1
    if isinstance(spec.cluster, LocalCluster):
        cluster = spec.cluster
        values |= {"workers": cluster.workers, "threads": cluster.threads, "memory": cluster.memory_bytes}
    return values


#: Bytes of a released or blocking column in memory, and of an input row besides: a census with short codes.
_COLUMN_BYTES, _IDENTIFIER_BYTES = 5.2, 12.0


def row_bytes(description: Description) -> float:
    """Estimate the bytes in memory of what travels of a row."""
    return description.row_bytes or _COLUMN_BYTES * (description.columns + description.blocking)


def input_row_bytes(description: Description) -> float:
    """Estimate the bytes of an input row before compression."""
    if description.input_row_bytes:
        return description.input_row_bytes
    return row_bytes(description) + _IDENTIFIER_BYTES * description.identifiers


def sizes_of_keys(description: Description) -> Ints:
    """Records of each key, the largest first.

    >>> sizes_of_keys(Description(rows=10, keys=4, sizes="equal")).tolist()
    [3, 3, 2, 2]
    """
    rank = np.arange(1, description.keys + 1, dtype=np.float64)
    weight = rank**-description.spread if description.sizes == "zipf" else np.ones_like(rank)
    bounds = np.rint(np.cumsum(weight / weight.sum()) * description.rows).astype(np.int64)
    return -np.sort(-np.diff(bounds, prepend=0))


def draw_plan(description: Description) -> BlockPlan:
    """The plan, by the planner of real releases; keys below k are merged with their neighbours.

    >>> draw_plan(Description(rows=100_000, keys=100)).n_blocks
    100
    """
    strata = _strata(description)
    info, p, k = description.info, description.quasi_identifiers, description.k
    width = row_bytes(description)
    limit = description.max_records or default_max_records(info, p, k, width)
    trees, leaf_rows = _cut(strata.rows, limit)
    return plan_blocks(strata, trees, leaf_rows, info, p, k, width, limit, _released(description))


def _strata(description: Description) -> Strata:
    rows = _merged(sizes_of_keys(description), description.k)
    # The largest keys are anywhere among the others, as they are by their labels.
    rows = np.random.default_rng(0).permutation(rows)
    numbers = np.arange(len(rows))
    return Strata(
        key_hashes=np.arange(description.keys, dtype=np.uint64),
        stratum_of_hash=np.minimum(np.arange(description.keys), len(rows) - 1),
        hash_seed=0,
        units=rows,
        pattern=np.zeros(len(rows), dtype=np.uint64),
        label=numbers,
        depth=np.full(len(rows), description.blocking),
        n_keys=np.ones(len(rows), dtype=np.int64),
        labels=pa.table({"label": numbers}),
        suppressed_keys=0,
        suppressed_rows=0,
        undersized_keys=0,
    )


def _merged(sizes: Ints, k: int) -> Ints:
    """Sizes in descending order, those below k put together until they reach it."""
    small = np.searchsorted(-sizes, -k, side="right")
    if small == len(sizes):
        return sizes
    few = sizes[small:]
    joined = np.bincount((np.cumsum(few) - few) // k, few).astype(np.int64)
    joined = joined[joined > 0]
    lacking = joined < k
    spare = int(joined[lacking].sum())
    kept = np.append(sizes[:small], joined[~lacking])
    kept[-1] += spare
    return kept


def _cut(rows: Ints, limit: int) -> tuple[dict[int, Tree], dict[int, Ints]]:
    """Cut strata above the limit: in halves, until all are below it."""
    trees: dict[int, Tree] = {}
    leaf_rows: dict[int, Ints] = {}
    for number in np.flatnonzero(rows > limit).tolist():
        levels = int(np.ceil(np.log2(rows[number] / limit)))
        trees[number] = _halved(levels)
        leaves = 1 << levels
        leaf_rows[number] = np.diff(np.arange(leaves + 1) * int(rows[number]) // leaves)
    return trees, leaf_rows


def _halved(levels: int) -> Tree:
    return Cut(0, 0.0, _halved(levels - 1), _halved(levels - 1)) if levels else None


def _released(description: Description) -> pa.Schema:
    """Make columns as wide as those of the release."""
    own = row_bytes(description) * description.columns / (description.columns + description.blocking)
    quasi = [pa.field(f"q{j}", pa.float64()) for j in range(description.quasi_identifiers)]
    width = max(1, int((own - 8 * len(quasi)) / max(1, description.confidential)))
    hidden = [pa.field(f"c{j}", pa.binary(width)) for j in range(description.confidential)]
    return pa.schema([*(pa.field(f"b{j}", pa.string()) for j in range(description.blocking)), *quasi, *hidden])
