"""Ranges of objects in a bucket: asked for plainly where that works, else in full, with the same answers."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import pytest

from microagg_core.errors import StorageError
from microagg_core.store import s3
from microagg_core.store.objects import Store
from microagg_core.store.remote import file_system_of
from servers.s3_server import Answer, FaultyServer, Place, s3_error

NAMES = ("plain", "a folder/ü & 100% + =?#.bin", "~other_-.")
RANGES = [(name, start, start + size) for name in NAMES for start, size in ((0, 1), (3, 4_000), (90_000, 10_000))]


@pytest.fixture
def fresh() -> Iterator[None]:
    """File systems that nothing was refused to, and that no other test uses."""
    with mock.patch.object(s3, "_REFUSED", type(s3._REFUSED)()):
        yield


def filled(place: Place) -> tuple[Store, list[bytes]]:
    store, contents = Store(f"{place.url}/work", place.storage_options), {name: os.urandom(100_000) for name in NAMES}
    for name, data in contents.items():
        store.put(name, data)
    return store, [contents[name][start:end] for name, start, end in RANGES]


def in_full(store: Store) -> Any:
    fs, _ = file_system_of(store.url, dict(store.storage_options))
    return mock.patch.object(fs, "_cat_file", wraps=fs._cat_file)


@pytest.mark.server
def test_ranges_are_asked_for_plainly(s3_bucket: Place, fresh: None) -> None:
    store, wanted = filled(s3_bucket)
    with in_full(store) as full:
        assert store.read_ranges(RANGES) == wanted
        assert store.read_ranges([*RANGES, ("plain", 7, 7)]) == [*wanted, b""]
    assert not full.called, "the libraries' insides have changed, and every range is asked for in full"
    short = store.read_ranges([*RANGES, ("plain", 99_990, 100_010)])
    assert short[:-1] == wanted and len(short[-1]) == 10
    with pytest.raises(StorageError, match="it does not exist"):
        store.read_ranges([*RANGES, ("missing", 0, 9)])


@pytest.mark.server
def test_requests_that_say_more_are_made_in_full(s3_bucket: Place, fresh: None) -> None:
    _, wanted = filled(s3_bucket)
    store = Store(f"{s3_bucket.url}/work", {**s3_bucket.storage_options, "requester_pays": True})
    with in_full(store) as full:
        assert store.read_ranges(RANGES) == wanted
    assert full.call_count == len(RANGES)
    for option in ({"version_aware": True}, {"anon": True}):
        fs, _ = file_system_of(store.url, {**s3_bucket.storage_options, **option})
        assert not s3._is_plain(fs)


@pytest.mark.parametrize("answer", [s3_error("403 Forbidden", "AccessDenied"), Answer("206 Partial", [], b"no"), None])
def test_a_server_that_answers_otherwise_is_not_asked_so_again(
    moto_server: FaultyServer, fresh: None, answer: Answer | None
) -> None:
    """What is refused, cut short or answered with the whole object comes in full, and so does all that follows."""
    store, wanted = filled(moto_server.new_bucket())
    plain = 0

    def fault(environ: dict[str, Any], forward: Callable[[], Answer]) -> Answer:
        nonlocal plain
        if environ["REQUEST_METHOD"] != "GET" or "HTTP_AMZ_SDK_REQUEST" in environ:  # which botocore's own have
            return forward()
        plain += 1
        environ.pop("HTTP_RANGE")
        return answer or forward()

    moto_server.fault = fault
    assert store.read_ranges(RANGES) == wanted
    before = plain
    assert store.read_ranges(RANGES) == wanted
    assert plain == before > 0
