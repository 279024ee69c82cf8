"""The manifest of a release: what was published, how it was made, and the checksums of its parts.

It is written last and once; a release exists when its manifest does, and consists of the parts it names.
"""

from __future__ import annotations

import json
import re
from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
    model_validator,
)

from microagg_core.data.formats import released_names
from microagg_core.data.formats.options import CsvOutput
from microagg_core.data.kinds.contract import Claim
from microagg_core.errors import StorageError
from microagg_core.group.metrics.figures import Figures
from microagg_core.inspect.check import Check
from microagg_core.model import OneOf
from microagg_core.spec.about import About
from microagg_core.spec.edits import Rule, comparison_of
from microagg_core.store.layout import (
    ATTEMPT_DIGITS,
    PAGE_NAME,
    SHA256_DIGITS,
    WRITTEN_PAGE,
    ReleaseLayout,
    is_page_name,
    is_release_id,
    is_written_page,
    revision_number,
)
from microagg_core.store.objects import canonical_json, sha256_hex

#: 1: parts were named by their content alone, and ``software`` was a version number. 2: there were no pages. Both are
#: read, and written as they were: what came with format 3 is left out, so that their digests stay.
FORMAT_VERSION = 3
_SINCE_3 = {"pages"}


def _part_name() -> re.Pattern[str]:
    endings = "|".join(released_names())
    return re.compile(rf"data/part-\d{{5,}}-([0-9a-f]{{{SHA256_DIGITS}}})(-[0-9a-f]{{{ATTEMPT_DIGITS}}})?\.({endings})")


def _with_part_names(schema: dict[str, Any]) -> None:
    schema["pattern"] = f"^{_part_name().pattern}$"


Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
    #: Fields that are left out where they say nothing: manifests from before they were told come out as they were.
    _said_only: ClassVar[frozenset[str]] = frozenset()

    @model_serializer(mode="wrap")
    def _as_written(self, plain: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: value for name, value in plain(self).items() if value is not None or name not in self._said_only}


_STANDS = {
    Claim.MODE_OF_GROUP: "most frequent value",
    Claim.MEDIAN_OF_GROUP: "lower median",
    Claim.MODE_OR_PARENT: "most frequent value or least common parent",
    Claim.WEIGHTED_MODE_OF_GROUP: "weighted mode",
    Claim.WEIGHTED_MODE_OR_PARENT: "weighted mode or least common parent",
    Claim.WEIGHTED_MEDIAN_OF_GROUP: "lower weighted median",
}


class ColumnEntry(_Model):
    """A released column: its name, its Arrow type as text, and its role."""

    _said_only = frozenset({"claims", "hierarchy", "importance", "missing"})
    name: str = Field(min_length=1)
    type: str = Field(min_length=1)
    role: Literal["quasi_identifier", "weight", "blocking", "confidential"]
    #: What holds of a quasi-identifier's values; not there where each is the mean of its group.
    claims: tuple[Claim, ...] | None = None
    #: How many times a quasi-identifier counted when groups were made; not there where it counted once.
    importance: float | None = Field(default=None, gt=0)
    #: Whether values may be parents in a hierarchy, each for values below it. The hierarchy is not told: it may name
    #: values that are not released, as few records have them.
    hierarchy: Literal[True] | None = None
    #: A missing value is a category, of its own or of its group.
    missing: Literal["category"] | None = None

    @property
    def stands(self) -> str:
        """Say what its values are of their groups, where it is a quasi-identifier."""
        if self.is_mean:
            return "weighted mean" if Claim.WEIGHTED_MEAN_KEPT in (self.claims or ()) else "mean"
        claims = self.claims or ()
        return next((words for claim, words in _STANDS.items() if claim in claims), "one value")

    @property
    def is_ranked(self) -> bool:
        return not {Claim.MEDIAN_OF_GROUP, Claim.WEIGHTED_MEDIAN_OF_GROUP}.isdisjoint(self.claims or ())

    @property
    def is_category(self) -> bool:
        """Tell whether its figures are those of categories, with or without an order."""
        return self.role == "quasi_identifier" and bool(_STANDS.keys() & set(self.claims or ()))

    @property
    def is_mean(self) -> bool:
        """Tell whether its values are means of groups, which keep the mean of all."""
        kept = {Claim.MEAN_KEPT, Claim.WEIGHTED_MEAN_KEPT}
        return self.role == "quasi_identifier" and (self.claims is None or not kept.isdisjoint(self.claims))


class AlgorithmEntry(_Model):
    """The algorithm with all its parameters."""

    name: str
    parameters: dict[str, Any] = {}


class PartEntry(_Model):
    """A part: its name relative to the manifest's folder, and what it must hold."""

    name: str = Field(json_schema_extra=_with_part_names)
    rows: int = Field(ge=0)
    bytes: int = Field(ge=0)
    sha256: Sha256

    @model_validator(mode="after")
    def _named_after_content(self) -> PartEntry:
        # The name is also a path that readers and clean-ups follow: nothing else may stand in it.
        match = _part_name().fullmatch(self.name)
        if match is None or match[1] != self.sha256[:SHA256_DIGITS]:
            raise ValueError("a part is named data/part-<number>-<checksum>-<attempt>.<format>")
        return self


class PageEntry(_Model):
    """A page about the release, for those who read it; names are relative to the manifest's folder."""

    #: Where a reader finds it.
    name: str = Field(json_schema_extra={"pattern": f"^{PAGE_NAME.pattern}$"})
    #: Where it was written before the manifest, under a name of that attempt's own.
    written: str = Field(json_schema_extra={"pattern": f"^{WRITTEN_PAGE.pattern}$"})
    bytes: int = Field(ge=1)
    sha256: Sha256

    @model_validator(mode="after")
    def _named_as_pages_are(self) -> PageEntry:
        # As for parts: nothing else may stand in a name that readers and clean-ups follow.
        if not is_page_name(self.name) or not is_written_page(self.written, self.name, self.sha256):
            raise ValueError("a page is named NAME.ending, and written as pages/NAME-<checksum>-<attempt>.ending")
        return self


class SeriesEntry(_Model):
    """What a release promises together with the others of its series."""

    _said_only = frozenset({"ghosts"})
    mode: Literal["disjoint", "atoms", "rotation", "independent"]
    guarantee: Literal["trace", "trace+changes"] | None = None
    #: The releases of the series before this one.
    night: int = Field(ge=0)
    #: Of releases that promise nothing together: how many units share the rarest history; null where nobody knows.
    smallest_trace: int | None = Field(default=None, ge=0)
    #: Released units that had left: how many, where that is k or more and at least k away from every number that the
    #: series told before; not there where none can be.
    ghosts: Annotated[int, Field(ge=2)] | Literal["not told"] | None = None


class ProtectEntry(_Model):
    """What every released combination holds of a confidential column."""

    #: It has at least so many distinct values; a missing one is none.
    distinct: int | None = Field(default=None, ge=2)
    #: Its distribution is at most so far from the whole release's, as an earth mover's distance among records that have
    #: a value, and so is its share of records that have none.
    t: float | None = Field(default=None, gt=0, lt=1)


class MetricEntry(_Model):
    """How a quasi-identifier counted when groups were made; its released values are means of values all the same."""

    _said_only = frozenset({"scale", "top", "zeros"})
    scale: Literal["log1p", "rank", "robust"] | None = None
    #: Values above it counted as it: the quantile at a percentage, or a limit that is not told.
    top: str | None = None
    #: Zeros were in groups of their own, where k and what is demanded besides allowed it.
    zeros: Literal["separate"] | None = None


class SeveralEntry(_Model):
    """Promise about units of several rows; a receiver cannot recount it, as no row tells whose it is."""

    _said_only = frozenset({"at_most", "keep", "left_out"})
    #: What k units share: the number of rows of a unit and all combinations that are released of them; or each
    #: combination, where nothing in the release tells which rows are of one unit.
    shared: Literal["profile", "combination"] = "profile"
    #: Quasi-identifiers that are the same in all rows of a unit.
    per_unit: tuple[str, ...] = ()
    #: The most rows of a unit that are released, and which ones; not there where all are.
    at_most: int | None = Field(default=None, ge=1)
    keep: Literal["newest", "oldest", "first"] | None = None
    #: Rows beyond it, left out; not there where fewer than k units have such, or in a later night of a series.
    left_out: int | None = Field(default=None, ge=0)


class EditEntry(_Model):
    """A rule between columns: how many released records break it, which anybody can count."""

    rule: Rule
    #: Released records that have both values, and those of them that break the rule.
    compared: int = Field(ge=0)
    broken: int = Field(ge=0)
    #: The share that broke it before masking, and how far off it may be; null where it would tell too much.
    before: float | None = Field(default=None, ge=0, le=1)
    within: float | None = Field(default=None, ge=0, le=1)


class BlankedEntry(_Model):
    """Cells of a quasi-identifier that are released as missing.

    Both numbers are null where one of them is below k, but not 0: who counts the release's would know it by the other.
    """

    #: How many came without a value, and of how many others it was taken out.
    missing: int | None = Field(ge=0)
    blanked: int | None = Field(ge=0)

    @classmethod
    def of(cls, missing: int, blanked: int, k: int) -> BlankedEntry:
        """Tell numbers that are large enough.

        >>> BlankedEntry.of(20, 5, 5), BlankedEntry.of(1, 5, 5)
        (BlankedEntry(missing=20, blanked=5), BlankedEntry(missing=None, blanked=None))
        """
        if 0 < min(missing or k, blanked or k) < k:
            return cls(missing=None, blanked=None)
        return cls(missing=missing, blanked=blanked)


class ReleaseFacts(_Model):
    """Everything a manifest says but for the revision and the parts, which publishing settles."""

    _said_only = frozenset({"about", "blanked", "edits", "known", "metric", "several"})
    name: str
    id: str
    created: str = Field(pattern=r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?(Z|\+00:00)$")
    k: int = Field(ge=2)
    unit: Literal["row", "units"]
    #: Not there where every unit has one row.
    several: SeveralEntry | None = None
    rows: int = Field(ge=0)
    #: Whether records are withheld: 0, or at least k; null in a later night of a series, where even that could tell of
    #: single units. Earlier versions gave the number, by which who knows the others could tell the last of them.
    suppressed: Annotated[int, Field(ge=0)] | Literal["at least k"] | None
    columns: tuple[ColumnEntry, ...] = Field(min_length=1)
    #: What its publisher says of the release and its columns; not there where he says nothing.
    about: About | None = None
    format: Annotated[str, OneOf(released_names)]
    #: How released CSV is to be read: text is quoted, a missing value is the null word without quotes.
    csv: CsvOutput | None = None
    algorithm: AlgorithmEntry
    #: How the algorithm's groups were improved: off, fast, thorough, or the seconds for each block.
    refine: Literal["off", "fast", "thorough"] | dict[Literal["seconds"], float] = "off"
    #: Whether the same spec, data and seed give the same bytes.
    reproducible: bool = True
    seed: int
    undersized: str
    missing: str
    #: Quasi-identifiers with missing values, where cells are blanked; not there in a later night of a series, whose
    #: numbers less those of the night before would tell of few.
    blanked: dict[str, BlankedEntry] | None = None
    rounding: dict[str, Any] = {}
    #: By quasi-identifier, of those that did not count by their values; not there where all did.
    metric: dict[str, MetricEntry] | None = None
    #: What every combination holds besides k, by confidential column.
    protect: dict[str, ProtectEntry] = {}
    #: Sets of columns of which each combination has at least k units, too; not there where the spec names none.
    known: tuple[tuple[str, ...], ...] | None = None
    #: Rules between columns; not there where the spec names none.
    edits: tuple[EditEntry, ...] | None = None
    series: SeriesEntry | None = None
    losses: Figures = Figures()
    checks: tuple[Check, ...] = ()
    #: Versions of what made the release, and a digest of its sources; see :mod:`microagg_core.software`.
    software: dict[str, str]

    @model_validator(mode="after")
    def _consistent(self) -> ReleaseFacts:
        names = [column.name for column in self.columns]
        if len(set(names)) != len(names):
            raise ValueError("a column stands in it twice")
        if not self.protect.keys() <= {column.name for column in self.columns if column.role == "confidential"}:
            raise ValueError("what is no confidential column is protected")
        compared = {column.name for column in self.columns if column.role != "blocking"}
        if not all(compared.issuperset(comparison_of(edit.rule).columns) for edit in self.edits or ()):
            raise ValueError("what is no column is compared")
        if not all(known and set(known) <= set(names) for known in self.known or ()):
            raise ValueError("what is no column may be known")
        quasi = {column.name for column in self.columns if column.role == "quasi_identifier"}
        if not (self.blanked or {}).keys() <= quasi:
            raise ValueError("what is no quasi-identifier is blanked")
        if self.about is not None and not self.about.columns.keys() <= set(names):
            raise ValueError("what is no column is described")
        if (self.csv is not None) != (self.format == "csv"):
            raise ValueError("a CSV release has a dialect, and no other has one")
        return self

    @property
    def has_whole_units(self) -> bool:
        """Tell whether units have several rows, and k share all of theirs."""
        return self.several is not None and self.several.shared == "profile"

    @property
    def key_columns(self) -> tuple[str, ...]:
        """Columns whose combinations k-anonymity is about, in the release's order."""
        return tuple(column.name for column in self.columns if column.role != "confidential")


class Manifest(ReleaseFacts):
    """The manifest of one revision of a release."""

    format_version: Literal[1, 2, 3] = 3
    revision: str
    parts: tuple[PartEntry, ...]
    #: What was written about the release for those who use it.
    pages: tuple[PageEntry, ...] = ()

    @model_validator(mode="after")
    def _adds_up(self) -> Manifest:
        if len({page.name.lower() for page in self.pages}) != len(self.pages):
            raise ValueError("a page stands in it twice")
        if self.pages and self.format_version < 3:
            raise ValueError("a manifest of this format has no pages")
        if len({part.name for part in self.parts}) != len(self.parts):
            raise ValueError("a part stands in it twice")
        if sum(part.rows for part in self.parts) != self.rows:
            raise ValueError("the rows of the parts do not add up")
        if not is_release_id(self.id) or revision_number(self.revision) is None:
            raise ValueError("the id or the revision is not one")
        return self

    @classmethod
    def of(
        cls, facts: ReleaseFacts, revision: str, parts: tuple[PartEntry, ...], pages: tuple[PageEntry, ...] = ()
    ) -> Manifest:
        return cls(
            **{name: getattr(facts, name) for name in ReleaseFacts.model_fields},
            revision=revision,
            parts=parts,
            pages=pages,
        )

    @property
    def layout(self) -> ReleaseLayout:
        return ReleaseLayout(self.id, self.revision)

    def part_names(self) -> set[str]:
        return {self.layout.absolute(part.name) for part in self.parts}

    def page_names(self) -> set[str]:
        return {self.layout.absolute(page.name) for page in self.pages}

    def written_page_names(self) -> set[str]:
        """Name the pages as written before the manifest, from the root of the output."""
        return {self.layout.absolute(page.written) for page in self.pages}

    def to_bytes(self) -> bytes:
        return canonical_json(self.model_dump(mode="json", exclude=_SINCE_3 if self.format_version < 3 else None))

    @property
    def sha256(self) -> str:
        return sha256_hex(self.to_bytes())

    def unknown(self) -> int:
        """Count what stands in the manifest and this version does not understand.

        They are kept, since a later version may know more figures; a receiver may want to know all.
        """
        columns = {column.name for column in self.columns if column.role in ("quasi_identifier", "weight")}
        plain = (bool, int, float, str, type(None))
        settings = [*self.algorithm.parameters.values(), *self.rounding.values()]
        n_open = sum(not isinstance(value, plain) for value in settings)
        named = {*self.rounding, *(self.losses.attributes or ()), *(self.losses.of_grouped.attributes or ())}
        return n_open + len(named - columns) + self.losses.n_unknown()

    @classmethod
    def from_bytes(cls, data: bytes, where: str) -> Manifest:
        """Read a manifest; ``where`` is its URL, for the message."""
        try:
            value = json.loads(data, object_pairs_hook=_each_once)
            version = value.get("format_version") if isinstance(value, dict) else None
            if isinstance(version, int) and version > FORMAT_VERSION:
                raise StorageError(
                    f"{where} has format version {version}, and this software reads up to {FORMAT_VERSION}; "
                    "use a newer microagg"
                )
            return cls.model_validate(value)
        except ValidationError as error:
            raise _damaged(where, _first_reason(error)) from None
        except _TwiceError:
            raise _damaged(where, "a field stands in it twice") from None
        except (ValueError, RecursionError):
            raise _damaged(where, "") from None


def manifest_schema() -> dict[str, Any]:
    """Write the JSON schema (draft 2020-12) of a manifest, for programs that read releases.

    >>> manifest_schema()["properties"]["format_version"]["enum"]
    [1, 2, 3]
    """
    schema = Manifest.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "microagg release manifest"}


class _TwiceError(ValueError):
    """A mapping in JSON has a key twice: one reader would take the first value, and another the second."""


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) != len(pairs):
        raise _TwiceError
    return mapping


def _first_reason(error: ValidationError) -> str:
    """Name the wrong field, and say why where that is one of our own rules; never a value."""
    first = error.errors(include_url=False, include_input=False)[0]
    field = ".".join(str(place) for place in first["loc"] if not isinstance(place, str) or place.isidentifier())
    where = f"field {field}" if field else ""
    why = {"value_error": str(first.get("ctx", {}).get("error", "")), "extra_forbidden": "is not known"}
    return ": ".join(part for part in (where, why.get(first["type"], "")) if part)


def _damaged(where: str, detail: str) -> StorageError:
    reason = f" ({detail})" if detail else ""
    return StorageError(f"{where} is not a valid release manifest{reason}; restore it, or publish the release again")


def same_release(one: Manifest, other: Manifest) -> bool:
    """Say whether two manifests publish the same: the same bytes, promises and words.

    Their pages may differ, as other versions of the software describe a release otherwise.
    """

    def promised(m: Manifest) -> tuple[object, ...]:
        checksums = [part.sha256 for part in m.parts]
        own = m.id, checksums, m.k, m.unit, m.rows, m.suppressed, m.columns, m.format, m.csv, m.about, m.known
        return *own, m.several

    return promised(one) == promised(other)
