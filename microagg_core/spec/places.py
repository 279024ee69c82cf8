"""The places of a release in storage: its input, its output, and its private work area."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, field_validator

from microagg_core.spec.braces import with_known_names, without_names
from microagg_core.spec.credentials import secret_options
from microagg_core.spec.formats import CsvInput, CsvOutput, InputFormatName, ReleasedFormatName, format_of
from microagg_core.spec.model import Model, Number, PartError
from microagg_core.store.urls import holds_credentials, is_local

NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"


#: Names of variables of the environment.
VARIABLE_PATTERN = r"^[A-Za-z_][A-Za-z0-9_]*$"


def a_local_path(path: str) -> str:
    """The path, if it is one on this machine."""
    without_credentials(path)
    if not is_local(path) or "\n" in path or "\0" in path:
        raise ValueError("must be the path of a file on the machine that starts the releases")
    return path


def without_credentials(url: str) -> str:
    """The URL, unless it holds a user or a password, or a NUL, which is in no name."""
    if "\0" in url:
        raise ValueError("must not hold a NUL character")
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
        return without_credentials(url)

    @field_validator("storage_options")
    @classmethod
    def _no_credentials(cls, options: dict[str, Any]) -> dict[str, Any]:
        if secrets := list(secret_options(options)):
            raise PartError(secrets)
        return options


class Input(Location):
    """Where the microdata are: one file, or a glob of files with one schema."""

    url: str = Field(
        min_length=1,
        description="fsspec URL or path; relative paths start at the spec's folder; {id} in it stands for the "
        "release's id, {date} for the day of the run",
    )
    format: Literal["auto", InputFormatName] = Field(
        default="auto",
        description="auto: by the file's ending; arrow: Arrow IPC files, which Feather files (version 2) are",
    )
    csv: CsvInput = CsvInput()

    @field_validator("url")
    @classmethod
    def _known_names(cls, url: str) -> str:
        return with_known_names(url)

    @property
    def resolved_format(self) -> InputFormatName:
        """The format, taken from the file's ending where the spec leaves it to that."""
        if self.format != "auto":
            return self.format
        return format_of(self.url) or "parquet"


class Lasting(Location):
    """A place that all releases of a spec share."""

    @field_validator("url")
    @classmethod
    def _no_names(cls, url: str) -> str:
        return without_names(url)


class Sign(Model):
    """By which key releases are signed. The key itself and its password are never in a spec."""

    key_file: str = Field(
        min_length=1,
        description="file that holds a secret key of minisign and that its owner alone can read; on the machine that "
        "starts the releases",
    )
    password_variable: str | None = Field(
        default=None,
        pattern=VARIABLE_PATTERN,
        description="variable of the environment that holds the key's password; default: the key has none",
    )

    @field_validator("key_file")
    @classmethod
    def _a_path(cls, path: str) -> str:
        return a_local_path(path)


class Output(Lasting):
    """Where releases are published."""

    format: ReleasedFormatName = Field(
        default="parquet", description="format of the released files; arrow: Arrow IPC, which is Feather version 2 too"
    )
    csv: CsvOutput = CsvOutput()
    sign: Sign | None = Field(default=None, description="sign each release with this key; default: none is signed")


class Keep(Model):
    """What stays in the private work area, and for how long."""

    failed_days: Number = Field(
        default=7,
        ge=0,
        allow_inf_nan=False,
        description="days that a failed run's staged rows stay (to resume)",
    )
    audit_days: Number | None = Field(
        default=None,
        ge=8,
        allow_inf_nan=False,
        description="days that outcomes of runs, operator pages and the audit of withdrawn releases stay; at least 8, "
        "as a night that failed is tried again for a week; default: they stay",
    )


class Work(Lasting):
    """The private work area: staged rows while a run lasts, and its audit trail, which stays."""

    keep: Keep = Keep()
