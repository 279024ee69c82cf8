"""What a ledger says of one night, as a document that is written once: the links of its chain.

A document is made of what the run decided and of nothing else: no time of day, nothing that was drawn. So a run that
died and is started again writes the very same one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import fields
from typing import Any, Literal, Self

from pydantic import ConfigDict
from pydantic.dataclasses import dataclass

from microagg_core.errors import StorageError
from microagg_core.plain import from_json, to_plain
from microagg_core.series.digests import UnitForm
from microagg_core.store.layout import ReleaseLayout, night_of
from microagg_core.store.objects import canonical_json

_STRICT = ConfigDict(extra="forbid")
_FORMAT: Literal[2] = 2


@dataclass(frozen=True, config=_STRICT)
class FrozenColumn:
    name: str
    type: str
    role: str


@dataclass(frozen=True, config=_STRICT)
class Frozen:
    """Facts that stay the same from the first night of a series to the last; only k may rise."""

    k: int
    #: The columns that name a unit; none where a unit is a row.
    unit: tuple[str, ...]
    columns: tuple[FrozenColumn, ...]
    #: The rounding of means, by column, as it was settled.
    rounding: dict[str, str | float]
    #: What a column's kind learned from the first night's values, as plain values.
    traits: dict[str, Any]
    missing: str
    mode: str
    guarantee: str
    #: How ids are compared; a ledger that does not say was begun when that was by their text, and goes on so.
    unit_form: UnitForm = "text"
    #: The columns that name a row of a unit; None where a unit has one row.
    rows: tuple[str, ...] | None = None


@dataclass(frozen=True, config=_STRICT)
class RangeFile:
    name: str
    bytes: int
    sha256: str
    rows: int


class Counts:
    def __add__(self, other: Self) -> Self:
        names = [field.name for field in fields(self)]  # type: ignore[arg-type]
        return type(self)(*(getattr(self, name) + getattr(other, name) for name in names))


@dataclass(frozen=True, config=_STRICT)
class UnitCounts(Counts):
    """Units by :class:`~microagg_core.series.units.State` after a night; as changes they may be negative."""

    #: Live units that this night released, ghosts among them.
    released: int = 0
    #: Live units that it did not.
    withheld: int = 0
    held: int = 0
    #: All that will never be released again, whenever they were last.
    vanished: int = 0
    forgotten: int = 0

    @property
    def live(self) -> int:
        return self.released + self.withheld

    @property
    def units(self) -> int:
        return self.live + self.held + self.vanished + self.forgotten


@dataclass(frozen=True, config=_STRICT)
class Past:
    """Facts of all nights of a series up to one, so that no promise is made for the last alone.

    >>> Past(("independent",), 1, 3) + Past(("atoms",), 1, 5)
    Past(modes=('atoms', 'independent'), repeating=2, least_k=3)
    """

    #: In alphabetical order.
    modes: tuple[str, ...]
    #: How many nights published units that a later night might publish again.
    repeating: int
    least_k: int

    def __add__(self, other: Past) -> Past:
        modes = tuple(sorted({*self.modes, *other.modes}))
        return Past(modes, self.repeating + other.repeating, min(self.least_k, other.least_k))


@dataclass(frozen=True, config=_STRICT)
class Generation:
    night: int
    #: A release; or some units were forgotten; or the night before was never published, and this one takes it back.
    kind: Literal["night", "erasure", "void"]
    release_id: str
    revision: str
    #: The URL of the output.
    output: str
    #: A digest of the release's files.
    manifest_sha256: str
    #: The day of the release (2026-11-18), as the run's identity has it.
    date: str
    run_key: str
    #: The SHA-256 of the document of the night before; nothing for the first.
    parent: str
    #: Tells the key under which units are digested from others, and tells nothing of it.
    key_fingerprint: str
    n_ranges: int
    #: The files of the range with number i at place i: all of its units, then what later nights changed.
    ranges: tuple[tuple[RangeFile, ...], ...]
    #: The file of each range of atoms.
    atoms: tuple[RangeFile, ...]
    #: The number from which the next night's atoms are numbered.
    next_number: int
    frozen: Frozen
    counts: UnitCounts
    #: How many units share the rarest trace among all units that were ever released; None where that is not known.
    smallest_trace: int | None
    #: Of all nights up to this one; None in documents that were written before this was kept.
    past: Past | None = None
    format: Literal[2] = _FORMAT
    #: The numbers of ghosts that manifests of the series gave.
    ghosts_told: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not self.ranges or len(self.ranges) != self.n_ranges or not all(self.ranges) or not self.atoms:
            raise ValueError("a generation has a file for each of its ranges")
        if any(n & (n - 1) for n in (self.n_ranges, len(self.atoms))):
            raise ValueError("the number of ranges is a power of two")

    @property
    def files(self) -> Iterator[RangeFile]:
        yield from (file for files in self.ranges for file in files)
        yield from self.atoms

    @property
    def n_bytes(self) -> int:
        return sum(file.bytes for file in self.files)

    @property
    def own_past(self) -> Past:
        repeats = self.kind == "night" and self.frozen.mode != "disjoint"
        return Past((self.frozen.mode,), int(repeats), self.frozen.k)

    @property
    def goes_on_from(self) -> int:
        """The night whose state this one began with; -1 for the first. A void takes back the night before it."""
        takes_back = self.kind == "void" and self.manifest_sha256 != ""
        return self.night - (2 if takes_back else 1)

    @property
    def layout(self) -> ReleaseLayout:
        return ReleaseLayout(self.release_id, self.revision)

    def to_bytes(self) -> bytes:
        return canonical_json(to_plain(self))

    @classmethod
    def from_bytes(cls, data: bytes, night: int, url: str) -> Generation:
        try:
            generation = from_json(cls, data)
        except ValueError:
            raise broken(f"{url} is damaged: it is no document of a ledger") from None
        nights = [night_of(file.name) for file in generation.files]
        if generation.night != night or any(of is None or of > night for of in nights):
            raise broken(f"{url} is the document of another night")
        return generation


def parts_digest(checksums: Iterable[str]) -> str:
    digest = hashlib.sha256()
    for checksum in checksums:
        digest.update(checksum.encode())
    return digest.hexdigest()


def broken(what: str) -> StorageError:
    return StorageError(f"{what}; restore it, or make the ledger again with microagg series rebuild")
