"""What a receiver demands of a release, beyond what its manifest says of itself.

A manifest is written by whoever made the release. Held against its own promises alone, a release with a k that is too
small, or with a telling column declared confidential, is sound. So a receiver says himself what he was promised: k, the
columns that others may know, the number of records, what groups hold of confidential columns, the digest of the
manifest or the key of whoever signs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from microagg_core.errors import SpecError
from microagg_core.inspect.check import Check
from microagg_core.inspect.demand import Demand
from microagg_core.release.manifest import Manifest
from microagg_core.release.minisign import PublicKey

_SHA256 = re.compile(r"[0-9a-f]{64}")
_ROLES = {
    "quasi_identifier": "a quasi-identifier",
    "weight": "the weight",
    "blocking": "a blocking column",
    "confidential": "confidential",
}


@dataclass(frozen=True)
class Demands:
    """Demands of a receiver; whoever demands anything demands that nothing is left unexplained.

    >>> Demands(k=1)
    Traceback (most recent call last):
    microagg_core.errors.SpecError: --k: must be at least 2 (got 1)
    """

    k: int | None = None
    quasi_identifiers: tuple[str, ...] = ()
    blocking: tuple[str, ...] = ()
    sha256: str | None = None
    rows: int | None = None
    public_key: PublicKey | None = None
    #: Least number of distinct values, and most distance from the whole release, in every combination, by column.
    distinct: Mapping[str, int] = field(default_factory=dict)
    t: Mapping[str, float] = field(default_factory=dict)
    #: Files that are not part of the release, hard links, no records and unknown fields are failures, not remarks.
    strict: bool = False

    def __post_init__(self) -> None:
        if self.k is not None and self.k < 2:
            raise SpecError(f"--k: must be at least 2 (got {self.k})")
        if self.rows is not None and self.rows < 1:
            raise SpecError(f"--rows: must be at least 1 (got {self.rows})")
        if self.sha256 is not None and not _SHA256.fullmatch(self.sha256):
            raise SpecError("--sha256: must be the manifest's digest, 64 hexadecimal digits, as the run printed it")
        for column in self.quasi_identifiers:
            if column in self.blocking:
                raise SpecError(f"--blocking: {column!r} is among the quasi-identifiers too; name it once")
        for column, least in self.distinct.items():
            if least < 2:
                raise SpecError(f"--distinct: must be at least 2 (got {least} for {column!r})")
        for column, most in self.t.items():
            if not 0 < most < 1:
                raise SpecError(f"--t: must be between 0 and 1 (got {most:g} for {column!r})")

    @property
    def is_strict(self) -> bool:
        demanded = (self.k, self.sha256, self.rows, self.public_key, self.columns or None, self.protect or None)
        return self.strict or any(demand is not None for demand in demanded)

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.quasi_identifiers, *self.blocking)))

    @property
    def protect(self) -> tuple[Demand, ...]:
        columns = dict.fromkeys((*self.distinct, *self.t))
        return tuple(Demand(name, self.distinct.get(name, 0), self.t.get(name)) for name in columns)

    def k_of(self, manifest: Manifest) -> int:
        return max(manifest.k, self.k or 0)

    def checks(self, manifest: Manifest, sha256: str) -> Iterator[Check]:
        """Check that the manifest says what is demanded; whether the files bear it out is checked elsewhere."""
        if self.sha256 is not None:
            same = sha256 == self.sha256
            other = f"the manifest's digest is {sha256}, not the one that is demanded"
            yield Check("digest demanded", same, "the manifest is the one that is demanded" if same else other)
        if self.rows is not None:
            detail = f"{manifest.rows} records are declared, and {self.rows} demanded"
            yield Check("rows demanded", manifest.rows == self.rows, detail)
        if self.k is not None:
            yield Check("k demanded", manifest.k >= self.k, f"k={manifest.k} is promised, and k={self.k} demanded")
        if self.columns:
            yield self._columns_check(manifest)

    def _columns_check(self, manifest: Manifest) -> Check:
        role_of = {column.name: column.role for column in manifest.columns}
        roles = dict.fromkeys(self.quasi_identifiers, "quasi_identifier")
        roles |= dict.fromkeys(self.blocking, "blocking")
        wrong = [_mismatch(name, role, role_of.get(name)) for name, role in roles.items() if role_of.get(name) != role]
        detail = "; ".join(wrong) or f"the {len(roles)} columns that are demanded are among the key columns"
        return Check("columns demanded", not wrong, detail)


def _mismatch(name: str, wanted: str, role: str | None) -> str:
    if role is None:
        return f"{name!r} is not among the columns"
    return f"{name!r} is {_ROLES[role]} there, and demanded as {_ROLES[wanted]}"
