"""The key of a series: from the environment or from a file that its owner alone can read, never from the spec."""

from __future__ import annotations

import os
from collections.abc import Mapping

from microagg_core.errors import SpecError
from microagg_core.series.digests import SeriesKey
from microagg_core.spec.series import Series
from microagg_core.store.disk import read_private

#: The variable of the environment that may hold the key.
VARIABLE = "MICROAGG_SERIES_KEY"
_LEAST_BYTES = 16


def read_key(series: Series, environ: Mapping[str, str]) -> SeriesKey:
    """The key of a series; white space around it does not count.

    >>> read_key(Series(mode="atoms"), {"MICROAGG_SERIES_KEY": "sixteen bytes or more"})
    SeriesKey()
    >>> read_key(Series(mode="atoms"), {"MICROAGG_SERIES_KEY": "short"})
    Traceback (most recent call last):
    microagg_core.errors.SpecError: MICROAGG_SERIES_KEY: a series needs a key of at least 16 bytes (got 5)

    Raises:
        SpecError: there is no key, it is too short, the environment and the file hold two, or others can read it.
    """
    from_environment = os.fsencode(environ.get(VARIABLE, "")).strip()
    from_file = b""
    if series.key_file is not None:
        from_file = read_private(series.key_file, "series.key_file", "write the key of the series into it").strip()
    if from_environment and from_file and from_environment != from_file:
        raise SpecError(f"series.key_file: holds another key than {VARIABLE}; keep the one that the series began with")
    secret = from_file or from_environment
    if not secret:
        raise SpecError(
            f"series: needs a secret key, the same every night; set {VARIABLE} or name a file in series.key_file"
        )
    if len(secret) < _LEAST_BYTES:
        place = "series.key_file" if from_file else VARIABLE
        raise SpecError(f"{place}: a series needs a key of at least {_LEAST_BYTES} bytes (got {len(secret)})")
    return SeriesKey(secret)
