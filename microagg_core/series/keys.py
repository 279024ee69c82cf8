"""The key of a series: from the environment or from a file that its owner alone can read, never from the spec."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping

from microagg_core.errors import SpecError, StorageError
from microagg_core.series.digests import SeriesKey, UnitForm
from microagg_core.series.generations import Generation
from microagg_core.series.ledger import Ledger
from microagg_core.spec.release import ReleaseSpec
from microagg_core.spec.series import Series
from microagg_core.store.disk import read_private
from microagg_core.store.layout import GENERATIONS, LEDGER_KEY
from microagg_core.store.objects import Store
from microagg_core.store.urls import shown

#: The variable of the environment that may hold the key.
VARIABLE = "MICROAGG_SERIES_KEY"
_LEAST_BYTES = 16
_KEY_BYTES = 32


def read_key(series: Series, environ: Mapping[str, str]) -> SeriesKey:
    """Read a series' key from environment and file; white space around it does not count."""
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


def local_key(store: Store) -> bytes:
    """Read the key that a ledger keeps for itself; draw it once, before the first night.

    >>> store = Store("memory://key-of-an-example")
    >>> len(local_key(store)), local_key(store) == local_key(store)
    (32, True)
    """
    url, text = shown(store.url_of(LEDGER_KEY)), store.read_if_there(LEDGER_KEY)
    if text is None and not store.list(GENERATIONS):
        store.create(LEDGER_KEY, secrets.token_hex(_KEY_BYTES).encode())
    if text is None:
        # Whoever was first, all go on with the one that is there.
        text = store.read_if_there(LEDGER_KEY)
    if text is None:
        raise StorageError(
            f"{url} is missing, and without the key of its nights nobody can go on with a "
            "ledger; restore it, or give the series the key that it had"
        )
    try:
        key = bytes.fromhex(text.decode("ascii"))
    except ValueError:
        key = b""
    if len(key) != _KEY_BYTES:
        raise StorageError(f"{url} is damaged: it is not the key that was kept there; restore it")
    return key


def key_of(spec: ReleaseSpec, ledger: Ledger) -> SeriesKey:
    """Get a series' key: the spec's or the environment's, or the one that its ledger keeps."""
    if spec.series is not None and (spec.series.mode != "independent" or spec.series.key_file):
        return read_key(spec.series, os.environ)
    # As text, so that a spec may name the file as its key_file later.
    return SeriesKey(local_key(ledger.store).hex().encode())


def refuse_other_key(state: Generation, key: SeriesKey, ledger: Ledger) -> None:
    """Stop, with SpecError, where the ledger was begun with another key."""
    if state.key_fingerprint != key.fingerprint:
        raise SpecError(
            f"series: the ledger in {ledger.store} was begun with another key, under which its units are known; give "
            "that one (a series that was begun without a key has it in the file key there)"
        )


def unit_form_of(spec: ReleaseSpec) -> UnitForm:
    """Compare ids in normal form, or as spelled where the spec acknowledges that this tells units apart."""
    meant = bool(spec.unit_columns) and set(spec.acknowledge.spelling_of_units).issuperset(spec.unit_columns)
    return "spelled" if meant else "normal"
