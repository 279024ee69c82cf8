"""The key of a series: from the environment or from a file that its owner alone can read, never from the spec."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping

from microagg_core.errors import SpecError
from microagg_core.series.digests import SeriesKey
from microagg_core.spec.series import Series

#: The variable of the environment that may hold the key.
VARIABLE = "MICROAGG_SERIES_KEY"
_LEAST_BYTES = 16
_MOST_BYTES = 4096


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
    from_file = _bytes(series.key_file) if series.key_file is not None else b""
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


def _bytes(path: str) -> bytes:
    """The key that a file holds."""
    try:
        # A pipe would be waited for without end.
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:  # noqa: PTH123 - a descriptor
            mode = os.fstat(file.fileno()).st_mode
            if not stat.S_ISREG(mode):
                raise SpecError(f"series.key_file: {path} is not a file; name the file that holds the key")
            if mode & 0o077:
                raise SpecError(f"series.key_file: others can read {path}; chmod 600 {path}")
            data = file.read(_MOST_BYTES + 1)
    except IsADirectoryError:
        raise SpecError(f"series.key_file: {path} is not a file; name the file that holds the key") from None
    except FileNotFoundError:
        raise SpecError(f"series.key_file: there is no file {path}; write the key of the series into it") from None
    except OSError as error:
        raise SpecError(f"series.key_file: {path} cannot be read ({error.strerror}); check its permissions") from None
    if len(data) > _MOST_BYTES:
        raise SpecError(f"series.key_file: {path} is too large for a key; name the file that holds the key alone")
    if not data.strip():
        raise SpecError(f"series.key_file: {path} is empty; write the key of the series into it")
    return data.strip()
