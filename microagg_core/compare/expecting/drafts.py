"""Drafts: what is looked at, and which settings of a release are tried on it."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from microagg_core.compare.expecting.cells import Cell


@dataclass(frozen=True)
class Step:
    """A cut on the way to a piece: records with ``x[attribute] <= threshold`` lie to its left."""

    attribute: int
    threshold: float
    goes_left: bool


@dataclass(frozen=True)
class DrawnBlock:
    """A block that is looked at, or a piece of one; and the part of all records that it stands for."""

    stratum: int
    #: Of the stratum's records those behind these cuts; without cuts all.
    path: tuple[Step, ...]
    #: The number of the block, which makes its seed.
    block: int
    label: int
    #: Records that it stands for, but for a factor.
    weight: float


@dataclass(frozen=True)
class LookAhead:
    """What is looked at for one k."""

    k: int
    hash_seed: int
    #: Released by a plan with this k, and not.
    records: int
    withheld: int
    #: Whether it is everything that would be released.
    is_whole: bool
    units: tuple[DrawnBlock, ...]


@dataclass(frozen=True)
class CellLook:
    """A cell, and what it is tried on."""

    cell: Cell
    #: The place of what is looked at, among all drafts.
    draft: int
    #: The spec's, and others by which it is seen what they change.
    seeds: tuple[int, ...]
    #: Whether it is proved what any groups lose at least.
    proves: bool
    #: CPU seconds of all blocks of a release, by the models, proofs included.
    model_seconds: float


@dataclass(frozen=True)
class Frugality:
    """How much may be looked at: records for one k, and CPU seconds for one cell."""

    rows: int
    seconds: float
    #: Whether less is looked at where a cell would take longer; else it is left out.
    shrinks: bool = True
    seeds: int = 1
    proves: bool = False
    #: Whether kernels may be compiled that the release itself does not need.
    compiles: bool = False
    #: Algorithms that may take as long as they do.
    patient_with: tuple[str, ...] = ()


@dataclass(frozen=True)
class Drafts:
    """What is looked at, the routes of its keys, what is tried on it, and why other cells are not."""

    drafts: tuple[LookAhead, ...]
    routes: tuple[pa.Table, ...]
    looks: tuple[CellLook, ...]
    left_out: tuple[tuple[Cell, str], ...]
