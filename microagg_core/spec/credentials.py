"""Which keys and values of a spec look like credentials, so that they are refused and never shown."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from microagg_core.spec.field_paths import Loc
from microagg_core.storage.urls import holds_credentials

_SECRET_KEY = re.compile(
    r"(?i)^key$|^pwd$|^auth$|authorization|secret|token|passw|credential|connection_?string"
    r"|(access|account|api|private|customer|storage|master|series)_?key|(^|_)sas(_|$)"
)


def looks_secret(key: object) -> bool:
    """Whether a key is the name of a credential.

    >>> looks_secret("aws_secret_access_key"), looks_secret("endpoint_url")
    (True, False)
    """
    return bool(_SECRET_KEY.search(str(key)))


def secrets_in(options: Any, loc: Loc = ()) -> Iterator[tuple[Loc, str]]:
    """Every place below ``options`` that holds a credential, with a sentence that does not show it.

    >>> [loc for loc, _ in secrets_in({"client_kwargs": {"password": "x"}, "anon": True})]
    [('client_kwargs', 'password')]
    """
    if isinstance(options, dict):
        for key, value in options.items():
            if looks_secret(key):
                yield (*loc, str(key)), SECRET_REASON
            else:
                yield from secrets_in(value, (*loc, str(key)))
    elif isinstance(options, list | tuple):
        for position, value in enumerate(options):
            yield from secrets_in(value, (*loc, position))
    elif isinstance(options, str) and holds_credentials(options):
        yield loc, "holds a user or password; take it out and use the environment of each worker"


SECRET_REASON = (
    "looks like a credential, and a spec must not hold one; give it to each worker by its environment, profile or role"
)
