"""Stores that break their promises: what is published through them, and what is not."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from microagg_core.errors import StorageError
from microagg_core.release.publish import Upload, probe_conditional_create, publish, upload_in_turn
from microagg_core.store.objects import Store
from releasing.parts import expected_names, facts_for, names_of, publish_tables, safe_tables, stage_parts
from servers.s3_server import Answer, Environ, FaultyServer, s3_error


def ignore_conditions(environ: Environ, forward: Callable[[], Answer]) -> Answer:
    """What some servers do: the conditions of a request count for nothing."""
    environ.pop("HTTP_IF_NONE_MATCH", None)
    environ.pop("HTTP_IF_MATCH", None)
    return forward()


@pytest.mark.server
def test_a_store_that_grants_the_same_creation_twice_is_refused(moto_server: FaultyServer, work: Store) -> None:
    place = moto_server.new_bucket()
    output = Store(place.url, place.storage_options)
    moto_server.fault = ignore_conditions
    with pytest.raises(StorageError, match=r"does not honour conditional creation"):
        probe_conditional_create(output, "probe")
    output.delete("probe")
    with pytest.raises(StorageError, match=r"does not honour conditional creation"):
        publish_tables(output, work, safe_tables())
    assert names_of(output) == []
    moto_server.fault = None
    publish_tables(output, work, safe_tables())
    assert names_of(output) == expected_names(output)


@pytest.mark.server
def test_a_store_without_conditional_requests_is_refused(moto_server: FaultyServer, work: Store) -> None:
    place = moto_server.new_bucket()
    output = Store(place.url, place.storage_options)
    moto_server.fault = lambda environ, forward: (
        s3_error("501 Not Implemented", "NotImplemented") if "HTTP_IF_NONE_MATCH" in environ else forward()
    )
    with pytest.raises(StorageError, match=r"the store refused it \(NotImplemented\)"):
        publish_tables(output, work, safe_tables())
    assert names_of(output) == []


@pytest.mark.server
def test_a_commit_whose_answer_was_lost_is_a_commit(moto_server: FaultyServer, work: Store) -> None:
    """The manifest arrives, the answer does not; the client asks again, and is told that somebody has it."""
    place = moto_server.new_bucket()
    output = Store(place.url, place.storage_options)
    lost: list[int] = []

    def lose_answer(environ: Environ, forward: Callable[[], Answer]) -> Answer:
        answer = forward()
        if environ["REQUEST_METHOD"] == "PUT" and environ["PATH_INFO"].endswith("manifest.json") and not lost:
            lost.append(1)
            return s3_error("500 Internal Server Error", "InternalError")
        return answer

    moto_server.fault = lose_answer
    published = publish_tables(output, work, safe_tables())
    assert lost and not published.already
    assert names_of(output) == expected_names(output)


def removes(environ: Environ) -> bool:
    return environ["REQUEST_METHOD"] == "DELETE" or environ.get("QUERY_STRING", "").startswith("delete")


@pytest.mark.server
def test_what_cannot_be_cleaned_up_is_said(moto_server: FaultyServer, work: Store) -> None:
    place = moto_server.new_bucket()
    output = Store(place.url, place.storage_options)
    denied = s3_error("403 Forbidden", "AccessDenied")

    def break_off(out: Store, uploads: Sequence[Upload]) -> None:
        upload_in_turn(out, uploads)
        moto_server.fault = lambda environ, forward: denied if removes(environ) else forward()
        raise StorageError("the network is down")

    with pytest.raises(StorageError, match=r"the network is down; .*/r0001 could not be removed either"):
        publish(output, facts_for(safe_tables()), stage_parts(work, safe_tables()), upload_all=break_off)
