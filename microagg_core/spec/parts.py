"""The parts of a release spec that know nothing of its columns: places in storage, CSV, clusters.

They are models like :class:`microagg_core.spec.release.ReleaseSpec`, which puts them together, and are imported from
there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from ipaddress import ip_address
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Strict,
    Tag,
    field_validator,
    model_validator,
)

from microagg_core.spec.credentials import secrets_in
from microagg_core.spec.field_paths import Loc, dotted
from microagg_core.storage.urls import holds_credentials

Problem = tuple[Loc, str]
# true and "5" are no numbers here: a spec that means 5 says 5.
Whole = Annotated[int, Strict()]
Number = Annotated[float, Strict()]
ColumnName = Annotated[str, Field(min_length=1)]
Columns = tuple[ColumnName, ...]
#: Each is the name of a file in :mod:`microagg_core.formats`, which says all else about it.
InputFormatName = Literal["parquet", "csv", "arrow"]
ReleasedFormatName = Literal["parquet", "csv", "arrow"]
#: The formats that a file's ending tells; a file with any other is taken for Parquet.
_BY_ENDING: dict[str, InputFormatName] = {
    ".csv": "csv",
    ".tsv": "csv",
    ".txt": "csv",
    ".arrow": "arrow",
    ".feather": "arrow",
}

#: Names by which arrow types may be declared for CSV columns; parametrised ones are matched by pattern.
CSV_TYPES = (
    "text", "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float32", "float64", "date", "timestamp",
)  # fmt: skip
_DECIMAL = re.compile(r"decimal\((\d+), ?(\d+)\)")
NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
ADDRESS_PATTERN = r"^(tcp|tls|ucx|ws|wss|inproc)://.+"
#: What the patterns mean, for the people whose text does not match.
PATTERNS = {
    NAME_PATTERN: "must be at most 64 letters, digits, '.', '_' and '-', and start with a letter or digit",
    ADDRESS_PATTERN: "must be the address of a scheduler, such as tls://scheduler:8786, or 'local' or 'none'",
}


class PartError(ValueError):
    """Several things that are wrong within one part of a spec, each with the place where it stands."""

    def __init__(self, found: list[Problem]) -> None:
        super().__init__("; ".join(f"{dotted(loc)}: {why}" if loc else why for loc, why in found))
        self.found = found


class Model(BaseModel):
    """A part of the spec: frozen, and closed to keys it does not know."""

    # pydantic would quote what it was given, which may be a secret.
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    @classmethod
    def cross_check(cls, parts: Mapping[str, Any]) -> Iterator[Problem]:
        """What is wrong between the parts; a part that is wrong in itself is missing from ``parts``."""
        yield from ()

    @model_validator(mode="after")
    def _cross_checked(self) -> Self:
        if found := list(self.cross_check(dict(self))):
            raise PartError(found)
        return self


def _without_credentials(url: str) -> str:
    if holds_credentials(url):
        raise ValueError("must not hold a user or password; use the environment of each worker")
    return url


class Location(Model):
    """A place in storage: any fsspec URL, or a path relative to the spec file's folder."""

    url: str = Field(min_length=1, description="fsspec URL or path; relative paths start at the spec's folder")
    storage_options: dict[str, Any] = Field(
        default={}, description="options of the file system (endpoint_url, anon, ...); never credentials"
    )

    @field_validator("url")
    @classmethod
    def _no_credentials_in_url(cls, url: str) -> str:
        return _without_credentials(url)

    @field_validator("storage_options")
    @classmethod
    def _no_credentials(cls, options: dict[str, Any]) -> dict[str, Any]:
        if found := list(secrets_in(options)):
            raise PartError(found)
        return options


def _delimiter(text: str) -> str:
    if not text.isascii() or text in ('"', "\r", "\n", "\0"):
        raise ValueError("must be one ASCII character, and neither a quote nor a line end")
    return text


class CsvInput(Model):
    """How to read CSV. A column without a declared type is text and is kept to the byte."""

    delimiter: str = Field(default=",", min_length=1, max_length=1, description="what separates two cells")
    encoding: str = Field(default="utf-8", description="any text encoding that Python knows")
    null_words: tuple[str, ...] = Field(
        default=("",),
        description="what stands for a missing value in columns of a declared type other than text",
    )
    types: dict[ColumnName, str] = Field(
        default={}, description=f"column -> one of {', '.join(CSV_TYPES)} or decimal(precision, scale)"
    )

    _one_delimiter = field_validator("delimiter")(_delimiter)

    @field_validator("types")
    @classmethod
    def _known_types(cls, types: dict[str, str]) -> dict[str, str]:
        rule = f"must be one of {', '.join(CSV_TYPES)} or decimal(precision, scale)"
        found: list[Problem] = []
        for column, name in types.items():
            decimal = _DECIMAL.fullmatch(name)
            if decimal and not (1 <= int(decimal[1][:9]) <= 38 and int(decimal[2][:9]) <= int(decimal[1][:9])):
                found.append(((column,), f"needs a precision of 1 to 38 and a scale up to it (got {name!r})"))
            elif name not in CSV_TYPES and not decimal:
                found.append(((column,), f"{rule} (got {name!r})"))
        if found:
            raise PartError(found)
        return types

    @field_validator("encoding")
    @classmethod
    def _known_encoding(cls, encoding: str) -> str:
        try:
            "".encode(encoding)
        except (LookupError, ValueError):
            raise ValueError(f"is not an encoding Python knows (got {encoding!r})") from None
        return encoding


class Input(Location):
    """Where the microdata are: one file, or a glob of files with one schema."""

    format: Literal["auto", InputFormatName] = Field(
        default="auto",
        description="auto: by the file's ending; arrow: Arrow IPC files, which Feather files (version 2) are",
    )
    csv: CsvInput = CsvInput()

    @property
    def resolved_format(self) -> InputFormatName:
        """The format, taken from the file's ending where the spec leaves it to that."""
        if self.format != "auto":
            return self.format
        return next((name for end, name in _BY_ENDING.items() if self.url.lower().endswith(end)), "parquet")


class CsvOutput(Model):
    """How to write CSV."""

    delimiter: str = Field(default=",", min_length=1, max_length=1, description="what separates two cells")
    null_word: str = Field(default="", description="what a missing value is written as")
    formulas: Literal["keep", "escape"] = Field(
        default="keep",
        description="text that a spreadsheet would run (it starts with = + - @ tab or return): kept to the "
        "byte, or escaped with a leading apostrophe",
    )

    _one_delimiter = field_validator("delimiter")(_delimiter)

    @classmethod
    def cross_check(cls, parts: Mapping[str, Any]) -> Iterator[Problem]:
        """The null word stands in the file without quotes."""
        if any(mark in parts.get("null_word", "") for mark in ('"', "\r", "\n", parts.get("delimiter", ","))):
            yield ("null_word",), "must hold neither a quote, nor a line end, nor the delimiter"


class Output(Location):
    """Where releases are published."""

    format: ReleasedFormatName = Field(
        default="parquet", description="format of the released files; arrow: Arrow IPC, which is Feather version 2 too"
    )
    csv: CsvOutput = CsvOutput()


class Keep(Model):
    """What stays in the private work area, and for how long."""

    failed_days: Number = Field(
        default=7,
        ge=0,
        allow_inf_nan=False,
        description="days that a failed run's staged rows stay (to resume)",
    )


class Work(Location):
    """The private work area: staged rows while a run lasts, and its audit trail, which stays."""

    keep: Keep = Keep()


class TimeBudget(Model):
    """Refinement bounded by the clock, not by steps: another machine gives another release."""

    seconds: Number = Field(gt=0, allow_inf_nan=False, description="seconds for each block")


def _refine_shape(value: Any) -> Any:
    if isinstance(value, TimeBudget | dict) or value in ("off", "fast", "thorough"):
        return value
    raise ValueError("must be 'off', 'fast', 'thorough' or, with reproducible: false, 'seconds:' for each block")


Refine = Annotated[
    Annotated[Literal["off", "fast", "thorough"], Tag("steps")] | Annotated[TimeBudget, Tag("seconds")],
    Discriminator(lambda value: "seconds" if isinstance(value, TimeBudget | dict) else "steps"),
    BeforeValidator(_refine_shape),
]


class LocalCluster(Model):
    """A Dask cluster on this machine, started for the run and stopped after it."""

    workers: Whole = Field(default=2, ge=1, description="worker processes")
    threads: Whole = Field(default=1, ge=1, description="threads of each worker")
    memory: str = Field(default="2GiB", description="memory limit of each worker, e.g. 1GiB")

    @field_validator("memory")
    @classmethod
    def _a_size(cls, memory: str) -> str:
        parse_bytes(memory)
        return memory

    @property
    def memory_bytes(self) -> int:
        """The memory limit in bytes."""
        return parse_bytes(self.memory)


class NoCluster(Model):
    """No cluster: the work is done one task after the other by the process that was called."""

    none: Literal[True] = Field(default=True, description="nothing to set")


class Tls(Model):
    """Where the certificates lie that a scheduler at a ``tls://`` address asks for; each is a path."""

    ca: str = Field(min_length=1, description="path of the certificate authority's certificate (PEM)")
    cert: str = Field(min_length=1, description="path of this side's certificate (PEM)")
    key: str = Field(min_length=1, description="path of this side's private key (PEM)")


class RunningCluster(Model):
    """A Dask scheduler that is already there."""

    address: str = Field(pattern=ADDRESS_PATTERN, description="e.g. tls://scheduler:8786")
    tls: Tls | None = Field(
        default=None, description="certificates for a tls:// address; default: those of Dask's own configuration"
    )
    unencrypted: bool = Field(
        default=False,
        strict=True,
        description="true: an address beyond this machine may be without TLS; whoever reaches such a scheduler can "
        "run code in its workers, with their rights and credentials",
    )
    wait: Number = Field(
        default=300,
        gt=0,
        allow_inf_nan=False,
        description="seconds without any worker, at the start or later, before the release gives up",
    )

    @field_validator("address")
    @classmethod
    def _no_credentials_in_address(cls, address: str) -> str:
        return _without_credentials(address)

    @classmethod
    def cross_check(cls, parts: Mapping[str, Any]) -> Iterator[Problem]:
        """Beyond this machine a scheduler is reached by TLS, unless the spec says that it need not be."""
        address = parts.get("address", "")
        if parts.get("tls") is not None and not address.startswith(_ENCRYPTED):
            yield (
                ("tls",),
                f"is for an address that starts with tls:// or wss:// (got {address.partition('://')[0]}://)",
            )
        if address.startswith((*_ENCRYPTED, "inproc://")) or parts.get("unencrypted", False):
            return
        if not is_loopback(address):
            yield (
                ("address",),
                "is beyond this machine and without TLS, so whoever reaches the scheduler can run code in its "
                "workers; use tls://, or set unencrypted: true where the network is trusted",
            )


_ENCRYPTED = ("tls://", "wss://")


def is_loopback(address: str) -> bool:
    """Whether a scheduler's address is one of this machine's own.

    >>> is_loopback("tcp://127.0.0.1:8786"), is_loopback("tcp://[::1]:8786"), is_loopback("tcp://scheduler:8786")
    (True, True, False)
    """
    host = (urlsplit(address).hostname or "").lower()
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


Cluster = NoCluster | LocalCluster | RunningCluster


def _cluster_shape(value: Any) -> Any:
    """``none``, ``local``, ``{local: {...}}``, an address or ``{address: ...}`` as the parts of one of the models."""
    if value is None or isinstance(value, NoCluster | LocalCluster | RunningCluster):
        return value
    if value in ("none", {"none": None}, {"none": {}}):
        return {"none": True}
    if value == "local":
        return {}
    if isinstance(value, str):
        return {"address": value}
    if isinstance(value, dict) and set(value) == {"local"}:
        value = value["local"] if value["local"] is not None else {}
    if not isinstance(value, dict) or "local" in value:
        raise ValueError("must be 'none', 'local', 'local:' with workers, threads and memory, or a scheduler's address")
    return value


def _cluster_kind(value: Any) -> str:
    if value is None:
        return "choice"
    keys = value if isinstance(value, dict) else dict(value)
    return "none" if "none" in keys else "running" if "address" in keys else "local"


AnyCluster = Annotated[
    Annotated[None, Tag("choice")]
    | Annotated[NoCluster, Tag("none")]
    | Annotated[LocalCluster, Tag("local")]
    | Annotated[RunningCluster, Tag("running")],
    Discriminator(_cluster_kind),
    BeforeValidator(_cluster_shape),
]


_UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}


def parse_bytes(text: str) -> int:
    """Bytes of a size such as ``512MiB``; ValueError for anything else, and for nothing at all.

    >>> parse_bytes("1.5 GiB")
    1610612736
    """
    match = re.fullmatch(r"\s*([0-9]{1,15}(?:\.[0-9]{1,15})?)\s*([A-Za-z]*)\s*", text)
    size = int(float(match[1]) * _UNITS.get(match[2].lower(), 0)) if match else 0
    if size < 1:
        raise ValueError(f"must be a size such as 512MiB or 2GiB (got {text!r})")
    return size
