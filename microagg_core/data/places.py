"""Places in storage: an input, with the names in braces that its URL may have, and no credentials anywhere."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from microagg_core.data.formats import input_names
from microagg_core.data.formats.options import CsvInput
from microagg_core.model import Loc, Model, OneOf, PartError
from microagg_core.store.urls import holds_credentials, is_local

_NAMES = ("id", "date")
_IN_BRACES = re.compile(r"\{([^{}]*)\}")


def with_known_names(url: str) -> str:
    """Refuse a URL with a name in braces that is none of those that a run knows.

    >>> with_known_names("s3://registry/{date}/*.parquet")
    's3://registry/{date}/*.parquet'
    """
    unknown = [name for name in _IN_BRACES.findall(url) if name not in _NAMES]
    if unknown:
        raise ValueError(
            "has a name in braces that is neither {id}, the release's id, nor {date}, the day of the run; a file whose "
            "own name has braces is named with ? in their place"
        )
    return url


def without_names(url: str) -> str:
    """Refuse names in braces, where a place is the same for all releases."""
    if any(name in _NAMES for name in _IN_BRACES.findall(url)):
        raise ValueError(
            "must be the same for all releases, each of which has a folder of its own there; leave the braces out"
        )
    return url


def filled_in(url: str, identity: str, day: datetime.date) -> str:
    """Replace the names in a URL by what they stand for.

    >>> filled_in("s3://registry/{date}/*.parquet", "2026-11-18", datetime.date(2026, 11, 18))
    's3://registry/2026-11-18/*.parquet'
    """
    stands_for = {"id": identity, "date": day.isoformat()}
    return _IN_BRACES.sub(lambda match: stands_for[match[1]], url)


_SECRET_KEY = re.compile(
    r"(?i)^key$|^pwd$|^auth$|authorization|secret|token|passw|passphrase|credential|connection_?string"
    r"|(access|account|api|private|customer|storage|master|series)_?key|(^|_)(sas|pat)(_|$)"
)
#: Options of file systems whose text says where and how, never who: those of S3, of Google's and Azure's stores, of
#: caches. What a file system calls its credentials nobody can list, so any other text is taken for one.
_HARMLESS = {
    "access", "account_host", "account_name", "acl", "addressing_style", "api_version", "bucketkeyenabled",
    "cache_storage", "cache_type", "checksumalgorithm", "client_id", "compression", "consistency", "container_name",
    "default_cache_type", "default_location", "encoding", "endpoint", "endpoint_override", "endpoint_url", "host",
    "http", "https", "location", "location_mode", "mode", "payload_signing_enabled", "profile", "project", "protocol",
    "region", "region_name", "request_checksum_calculation", "requestpayer", "requests_timeout",
    "response_checksum_validation", "retry_mode", "s3_location", "scheme", "serversideencryption", "signature_version",
    "ssekmskeyid", "storageclass", "target_protocol", "tenant_id", "us_east_1_regional_endpoint", "user_agent",
    "user_agent_extra", "username", "verify",
}  # fmt: skip


def looks_secret(key: object) -> bool:
    """Tell whether a key is the name of a credential.

    >>> looks_secret("aws_secret_access_key"), looks_secret("endpoint_url")
    (True, False)
    """
    return bool(_SECRET_KEY.search(str(key)))


def secrets_in(options: Any, loc: Loc = (), harmless: set[str] | None = None) -> Iterator[tuple[Loc, str]]:
    """Yield every place below ``options`` that holds a credential, with a sentence that does not show it.

    Where names of harmless options are given, text under any other name counts as one.

    >>> [loc for loc, _ in secrets_in({"client_kwargs": {"password": "x"}, "anon": True})]
    [('client_kwargs', 'password')]
    """
    if isinstance(options, dict):
        for key, value in options.items():
            if looks_secret(key):
                yield (*loc, str(key)), SECRET_REASON
            else:
                yield from secrets_in(value, (*loc, str(key)), harmless)
    elif isinstance(options, list | tuple):
        for position, value in enumerate(options):
            yield from secrets_in(value, (*loc, position), harmless)
    elif isinstance(options, str) and holds_credentials(options):
        yield loc, "holds a user or password; take it out and use the environment of each worker"
    elif harmless is not None and not isinstance(options, bool | int | float | None):
        name = next((part for part in reversed(loc) if isinstance(part, str)), "")
        if name.lower() not in harmless:
            yield loc, _UNKNOWN_REASON


def secret_options(options: dict[str, Any]) -> Iterator[tuple[Loc, str]]:
    """Yield every place in options of a file system that holds a credential, or text that may be one.

    >>> [loc for loc, _ in secret_options({"pat": "x", "anon": True, "client_kwargs": {"endpoint_url": "http://a"}})]
    [('pat',)]
    >>> [loc for loc, _ in secret_options({"headers": {"X-Auth": "x"}})]
    [('headers', 'X-Auth')]
    """
    return secrets_in(options, (), _HARMLESS)


_UNKNOWN_REASON = (
    "may be a credential, as it is none of the options that hold none; give it to each worker by its environment (such "
    "as FSSPEC_S3_NAME for an option NAME of s3://), profile or role"
)
SECRET_REASON = (
    "looks like a credential, and a spec must not hold one; give it to each worker by its environment, profile or role"
)


def without_credentials(url: str) -> str:
    """Refuse a user, a password, and a NUL, which is in no name."""
    if "\0" in url:
        raise ValueError("must not hold a NUL character")
    if holds_credentials(url):
        raise ValueError("must not hold a user or password; use the environment of each worker")
    return url


def _a_local_path(path: str) -> str:
    without_credentials(path)
    if not is_local(path) or "\n" in path or "\0" in path:
        raise ValueError("must be the path of a file on the machine that starts the releases")
    return path


LocalPath = Annotated[str, Field(min_length=1), AfterValidator(_a_local_path)]


def _without_secrets(options: dict[str, Any]) -> dict[str, Any]:
    if secrets := list(secret_options(options)):
        raise PartError(secrets)
    return options


class Location(Model):
    """A place in storage: any fsspec URL, or a path relative to the spec file's folder."""

    url: Annotated[str, Field(min_length=1), AfterValidator(without_credentials)] = Field(
        description="fsspec URL or path; relative paths start at the spec's folder"
    )
    storage_options: Annotated[dict[str, Any], AfterValidator(_without_secrets)] = Field(
        default={}, description="options of the file system (endpoint_url, anon, ...); never credentials"
    )


class Input(Location):
    """Where the microdata are: one file, or a glob of files with one schema."""

    url: Annotated[str, Field(min_length=1), AfterValidator(without_credentials), AfterValidator(with_known_names)] = (
        Field(
            description="fsspec URL or path; relative paths start at the spec's folder; {id} in it stands for the "
            "release's id, {date} for the day of the run",
        )
    )
    format: Annotated[str, OneOf(lambda: ("auto", *input_names()))] = Field(
        default="auto",
        description="auto: by the file's ending; arrow: Arrow IPC files, which Feather files (version 2) are",
    )
    csv: CsvInput = CsvInput()


class Lasting(Location):
    """A place that all releases of a spec share."""

    url: Annotated[str, Field(min_length=1), AfterValidator(without_credentials), AfterValidator(without_names)] = (
        Field(description="fsspec URL or path; relative paths start at the spec's folder")
    )
