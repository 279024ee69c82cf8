"""Which keys and values of a spec look like credentials, so that they are refused and never shown."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from microagg_core.spec.field_paths import Loc
from microagg_core.store.urls import holds_credentials

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
    """Whether a key is the name of a credential.

    >>> looks_secret("aws_secret_access_key"), looks_secret("endpoint_url")
    (True, False)
    """
    return bool(_SECRET_KEY.search(str(key)))


def secrets_in(options: Any, loc: Loc = (), harmless: set[str] | None = None) -> Iterator[tuple[Loc, str]]:
    """Every place below ``options`` that holds a credential, with a sentence that does not show it.

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
    """Every place in options of a file system that holds a credential, or text that may be one.

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
