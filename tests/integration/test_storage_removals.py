"""Buckets that keep versions of what is removed: the versions go too, or it is said that they stay."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from botocore.client import BaseClient

from inputs.people import people
from microagg_core.errors import StorageError, TransientStorageError
from microagg_core.store import failures, s3
from microagg_core.store.objects import Store
from releasing.runs import run_stages, start, write_release
from servers.s3_server import Answer, Environ, FaultyServer, Place, S3Server, s3_error

pytestmark = pytest.mark.server


@pytest.fixture(params=["seaweedfs", "moto"])
def server(request: pytest.FixtureRequest) -> S3Server:
    name = {"seaweedfs": "s3_server", "moto": "moto_server"}[request.param]
    found = request.getfixturevalue(name)
    return found.server if isinstance(found, FaultyServer) else found


def _below(place: Place) -> Store:
    return Store(place.url + "/below", place.storage_options)


def test_versions_go_with_objects_and_folders(server: S3Server) -> None:
    place = server.new_bucket("Enabled")
    store, bucket = _below(place), place.url.removeprefix("s3://")
    for name in ("a/1", "a/1", "a/1", "a/10", "b/gone", "b/c/1", "b/c/1", "bc/stays", "d"):
        store.put(name, b"x")
    store.delete("a/1")
    store.delete("a/1")
    assert "below/a/1" not in server.versions(place)
    for key in ("below/b/gone", "below/d"):  # somebody else hides them
        server.client().delete_object(Bucket=bucket, Key=key)
    store.delete_all("b")
    store.delete_many(["d"])
    assert sorted(server.versions(place)) == ["below/a/10", "below/bc/stays"]


def test_versions_of_many_objects_go_with_them(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """In batches and pages as small as a bucket of a few objects needs."""
    monkeypatch.setattr(s3, "AT_ONCE", 7)
    list_versions = BaseClient._make_api_call

    def in_small_pages(client: Any, operation: str, parameters: dict[str, Any]) -> Any:
        pages = {"MaxKeys": 10} if operation == "ListObjectVersions" else {}
        return list_versions(client, operation, {**parameters, **pages})

    monkeypatch.setattr(BaseClient, "_make_api_call", in_small_pages)
    place = server.new_bucket("Enabled")
    store = _below(place)
    names = [f"a/{i:04d}" for i in range(25)]
    for name in [*names, *names, "a/stays"]:
        store.put(name, b"x")
    store.delete_many([*names, "a/never-there"])
    assert server.versions(place) == ["below/a/stays"]


def test_a_bucket_that_kept_versions_once(server: S3Server) -> None:
    place = server.new_bucket("Enabled")
    store = _below(place)
    store.put("a/1", b"x")
    bucket = place.url.removeprefix("s3://")
    server.client().put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Suspended"})
    store.put("a/1", b"y")
    store.put("a/2", b"y")
    store.delete_all("a")
    assert server.versions(place) == []


def _versions_are(answer: Answer) -> Callable[[Environ, Callable[[], Answer]], Answer]:
    def fault(environ: Environ, forward: Callable[[], Answer]) -> Answer:
        return answer if "versions" in environ["QUERY_STRING"] else forward()

    return fault


def test_credentials_that_may_not_list_versions(moto_server: FaultyServer) -> None:
    place = moto_server.server.new_bucket("Enabled")
    store = _below(place)
    store.put("a/1", b"x")
    moto_server.fault = _versions_are(s3_error("403 Forbidden", "AccessDenied"))
    for remove in (lambda: store.delete("a/1"), lambda: store.delete_all("a"), lambda: store.delete_many(["a/1"])):
        with pytest.raises(StorageError, match="keeps versions of what is removed, and these credentials may not"):
            remove()
    assert store.read("a/1") == b"x"


def test_a_store_that_names_versions_and_knows_none(moto_server: FaultyServer) -> None:
    place = moto_server.server.new_bucket("Enabled")
    store = _below(place)
    store.put("a/1", b"x")
    moto_server.fault = _versions_are(s3_error("501 Not Implemented", "NotImplemented"))
    store.delete_all("a")
    assert store.list() == []


def _errors(code: str, key: str) -> Answer:
    body = f"<?xml version='1.0'?><DeleteResult><Error><Key>{key}</Key><Code>{code}</Code></Error></DeleteResult>"
    return Answer("200 OK", [("Content-Type", "application/xml")], body.encode())


def test_an_object_that_a_busy_store_left_out_is_asked_for_again(
    moto_server: FaultyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failures, "PATIENCE_SECONDS", 0.3)
    place = moto_server.server.new_bucket()
    store, busy = _below(place), [2]
    store.put("a/1", b"x")

    def fault(environ: Environ, forward: Callable[[], Answer]) -> Answer:
        if environ["REQUEST_METHOD"] == "POST" and busy[0]:
            busy[0] -= 1
            return _errors("SlowDown", "below/a/1")
        return forward()

    moto_server.fault = fault
    store.delete_all("a")
    assert store.list() == [] and busy == [0]
    busy[0] = 100
    with pytest.raises(TransientStorageError, match=r"did not answer properly \(SlowDown\)"):
        store.delete("a/1")


def test_an_object_that_may_not_be_removed(moto_server: FaultyServer) -> None:
    place = moto_server.server.new_bucket()
    store = _below(place)
    store.put("a/1", b"x")
    moto_server.fault = lambda environ, forward: (
        _errors("AccessDenied", "below/a/1") if environ["REQUEST_METHOD"] == "POST" else forward()
    )
    with pytest.raises(StorageError, match=r"deleting .*: access was denied; .* it takes s3:DeleteObject"):
        store.delete_many(["a/1"])


def _in_buckets(folder: Path, place: Place) -> Path:
    """A spec whose work area and output are in this bucket."""
    changes = {
        name: {"url": f"{place.url}/{name}", "storage_options": place.storage_options} for name in ("work", "output")
    }
    return write_release(folder, [people(200)], id="one", **changes)


def test_a_release_leaves_no_version_of_its_rows(server: S3Server, tmp_path: Path) -> None:
    place = server.new_bucket("Enabled")
    run_stages(start(_in_buckets(tmp_path, place)))
    listed = Store(place.url, place.storage_options).list()
    assert not [name for name in listed if name.startswith("work/runs/")]
    assert sorted(server.versions(place)) == listed


def test_no_row_is_written_where_versions_would_stay(moto_server: FaultyServer, tmp_path: Path) -> None:
    place = moto_server.server.new_bucket("Enabled")
    moto_server.fault = _versions_are(s3_error("403 Forbidden", "AccessDenied"))
    with pytest.raises(StorageError, match=r"/work: this bucket keeps versions"):
        run_stages(start(_in_buckets(tmp_path, place)), "survey")
    moto_server.fault = None
    written = {key.rsplit("/", 1)[-1] for key in moto_server.server.versions(place) if "/probes/" not in key}
    assert written == {"sign-of-life"}
