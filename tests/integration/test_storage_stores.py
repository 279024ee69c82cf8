"""What every store promises: on a disk and on a real S3 server; and what moto's server is made to do wrong."""

from __future__ import annotations

import io
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from microagg_core.errors import InputMissingError, StorageError, TransientStorageError
from microagg_core.store import failures, s3
from microagg_core.store.inputs import input_files
from microagg_core.store.objects import Store, sha256_hex
from servers.s3_server import Answer, Environ, FaultyServer, Place, s3_error


@pytest.fixture(autouse=True)
def little_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failures, "_LONGEST_PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(failures, "_hurried_until", 0.0)  # of a test before, which was interrupted


@pytest.fixture
def store(storage_place: Place) -> Store:
    return Store(storage_place.url + "/below", storage_place.storage_options)


def test_reading_what_was_written(store: Store) -> None:
    store.put("a/one", b"0123456789")
    store.put("a/one", b"abcdefghij")
    assert store.read("a/one") == b"abcdefghij"
    assert store.read_range("a/one", 2, 5) == b"cde"
    assert store.read_ranges([("a/one", 8, 20), ("a/one", 0, 2), ("a/one", 3, 3)]) == [b"ij", b"ab", b""]
    assert b"".join(store.chunks("a/one")) == b"abcdefghij"
    assert store.size("a/one") == 10 and store.exists("a/one")
    assert store.size("a") is None and not store.exists("a/on")
    with store.local_copy("a/one") as path:
        assert path.read_bytes() == b"abcdefghij"
    store.put_json("a/two.json", {"x": 1})
    assert store.read_json("a/two.json") == {"x": 1}
    with pytest.raises(StorageError, match="does not exist"):
        store.read("a/three")
    with pytest.raises(StorageError, match="does not exist"):
        store.open("a/three")


def test_ranges_of_objects_of_any_name(store: Store) -> None:
    names = ("plain", "a folder/ü & 100% + =?#.bin", "~other_-.")
    contents = {name: os.urandom(20_000) for name in names}
    for name, data in contents.items():
        store.put(name, data)
    ranges = [(name, start, end) for name in names for start, end in ((0, 1), (3, 4_000), (7, 7), (9_000, 20_000))] * 10
    assert store.read_ranges(ranges) == [contents[name][start:end] for name, start, end in ranges]
    assert store.list() == sorted(names)
    with pytest.raises(StorageError, match="it does not exist"):
        store.read_ranges([*ranges, ("missing", 0, 9)])
    store.delete_many(names)
    assert store.list() == []


def test_an_input_that_is_not_there_is_another_trouble_than_a_bucket_that_is_not(store: Store) -> None:
    store.put("a/one.csv", b"x\n")
    options = dict(store.storage_options)
    assert len(input_files(f"{store.url}/a/*.csv", options)) == 1
    for name in ("a/two.csv", "a/*.parquet", "b/*.csv", "*/two.csv"):
        with pytest.raises(InputMissingError, match="no file matches"):
            input_files(f"{store.url}/{name}", options)
    if store.url.startswith("s3://"):
        for name in ("a.csv", "*.csv"):
            with pytest.raises(StorageError, match="there is no such bucket") as refused:
                input_files(f"s3://no-such-bucket-here/{name}", options)
            assert refused.value.exit_code == 5


def test_reading_what_another_run_makes_meanwhile(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    assert store.read_if_there("late") is None

    def made_just_now(self: Store, name: str) -> bool:
        store.create(name, b"made")
        return self.size(name) is not None

    monkeypatch.setattr(Store, "exists", made_just_now)
    assert store.read_if_there("late") == b"made"


def test_listing_and_deleting(store: Store) -> None:
    assert store.list() == [] and store.folders() == []
    for name in ("a/b/1", "a/b/2", "a/3", "ab/4", "5"):
        store.put(name, b"x")
    assert store.list() == ["5", "a/3", "a/b/1", "a/b/2", "ab/4"]
    assert store.list("a") == ["a/3", "a/b/1", "a/b/2"] == store.list("a/")
    assert store.folders() == ["a", "ab"] and store.folders("a") == ["b"]
    store.delete("5")
    store.delete("5")
    store.delete_all("a")
    store.delete_all("a")
    assert store.list() == ["ab/4"]


def test_deleting_many(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3, "AT_ONCE", 10)
    names = [f"a/{i % 7}/{i}" for i in range(25)]  # more than one request of S3
    for name in (*names, "ab/4"):
        store.put(name, b"x")
    store.delete_many(["a/never-there", *names])
    store.delete_many([])
    assert store.list() == ["ab/4"]
    with pytest.raises(ValueError, match="relative"):
        store.delete_many(["ab/4", "../x"])
    assert store.list() == ["ab/4"]


def test_files_for_arrow(store: Store) -> None:
    table, sink = pa.table({"x": list(range(50_000))}), io.BytesIO()
    pa.parquet.write_table(table, sink, row_group_size=10_000)
    store.put("t.parquet", sink.getvalue())
    with store.open("t.parquet") as file:
        assert pa.parquet.ParquetFile(file).read_row_group(3).column("x")[0].as_py() == 30_000
    with store.open("t.parquet", sequential=True) as file:
        assert file.read() == sink.getvalue()


def test_files_and_copies(store: Store, tmp_path: Path) -> None:
    big = os.urandom(1 << 16) * 600  # 37 MiB: more than one part of a transfer
    (tmp_path / "big").write_bytes(big)
    store.put_file("big", tmp_path / "big", durable=True)
    assert store.size("big") == len(big)
    other = Store(str(tmp_path / "other"))
    other.copy_from(store, "big", "copy")
    assert sha256_hex(other.read("copy")) == sha256_hex(big)
    store.copy_from(other, "copy", "again")
    assert sha256_hex(store.read("again")) == sha256_hex(big)


def test_a_checked_write_is_all_or_nothing(store: Store) -> None:
    checksum = sha256_hex(b"abcd")
    assert not store.put_checked("a", iter([b"ab", b"ce"]), checksum, 4)
    assert not store.put_checked("a", iter([b"abcd"]), checksum, 5)
    assert store.list(unfinished=True) == []
    assert store.put_checked("a", iter([b"ab", b"cd"]), checksum, 4)
    assert store.read("a") == b"abcd"


def _race(store: Store, name: str, start: Any, answers: Any) -> None:
    """Four threads of one process, all at once."""
    store.exists("warm-up")
    start.wait()
    with ThreadPoolExecutor(4) as pool:
        mine = [f"{os.getpid()}-{i}".encode() * 200 for i in range(4)]
        answers.put(list(zip(mine, pool.map(lambda data: store.create(name, data), mine), strict=True)))


def test_creation_has_one_winner_among_processes_and_threads_and_listings_see_him(store: Store) -> None:
    assert store.list("only") == []
    context = multiprocessing.get_context("spawn")
    start, answers = context.Barrier(2), context.Queue()
    racers = [context.Process(target=_race, args=(store, "only/one", start, answers)) for _ in range(2)]
    for racer in racers:
        racer.start()
    outcomes = [outcome for _ in racers for outcome in answers.get(timeout=120)]
    for racer in racers:
        racer.join()
    winners = [data for data, won in outcomes if won]
    assert len(outcomes) == 8 and len(winners) == 1
    assert store.read("only/one") == winners[0]
    assert store.list(unfinished=True) == store.list("only") == ["only/one"]


def test_a_conditional_replacement_has_one_winner(store: Store) -> None:
    assert store.versioned("x") == (None, "")
    store.put("x", b"0")
    for _ in range(3):
        before, version = store.versioned("x")
        with ThreadPoolExecutor(8) as pool:
            outcomes = list(pool.map(lambda i, v=version: store.put_if("x", f"{i}".encode() + b"!", v), range(8)))
        assert outcomes.count(True) == 1
        assert store.read("x") == f"{outcomes.index(True)}".encode() + b"!" != before
        store.put("x", b"0")
    assert not store.put_if("x", b"1", "") and store.read("x") == b"0"
    assert not store.put_if("never-there", b"1", version)


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write everywhere")
def test_a_folder_that_may_not_be_written(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(StorageError, match="access was denied; check the rights of this user"):
        Store(str(tmp_path)).put("x", b"")


OPERATIONS: dict[str, Callable[[Store], object]] = {
    "read": lambda s: s.read("x"),
    "size": lambda s: s.size("x"),
    "list": lambda s: s.list(),
    "folders": lambda s: s.folders("x"),
    "put": lambda s: s.put("x", b""),
    "create": lambda s: s.create("x", b""),
    "open": lambda s: s.open("x"),
    "delete_all": lambda s: s.delete_all("x"),
}


def _messages(store: Store, *operations: str) -> dict[str, str]:
    """Collect what is said by each operation, all of which are refused."""
    said = {}
    for operation in operations or OPERATIONS:
        with pytest.raises(StorageError) as caught:
            OPERATIONS[operation](store)
        said[operation] = message = caught.value.message
        assert store.url in message and "127.0.0.1" not in message and "\n" not in message
        assert "key" not in message.lower().replace("invalidaccesskeyid", "") and caught.value.__cause__ is None
    return said


@pytest.mark.server
@pytest.mark.parametrize("variable", ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"])
def test_wrong_credentials(s3_bucket: Place, monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    monkeypatch.setenv(variable, "wrong")
    # An option of its own, because a file system that is connected already keeps its credentials.
    options = {**s3_bucket.storage_options, "default_block_size": 5_000_000 + len(variable)}
    for message in _messages(Store(s3_bucket.url, options)).values():
        assert "refused the credentials" in message or "access was denied; check the credentials" in message
        assert "wrong" not in message


@pytest.mark.server
def test_no_credentials(s3_bucket: Place, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for variable in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(variable)
    for variable in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
        monkeypatch.setenv(variable, str(tmp_path / "none"))
    store = Store(s3_bucket.url, {**s3_bucket.storage_options, "default_block_size": 5_000_001})
    assert "no usable credentials were found" in _messages(store, "read")["read"]


@pytest.mark.server
def test_a_missing_bucket(moto_server: FaultyServer, s3_bucket: Place) -> None:
    said = _messages(Store("s3://no-such-bucket/x", moto_server.server.storage_options))
    # To write makes a bucket on the other server.
    said |= _messages(Store("s3://no-such-bucket-either/x", s3_bucket.storage_options), "read", "folders", "size")
    assert {m.partition(": ")[2] for m in said.values()} == {"there is no such bucket; create it or correct the URL"}


@pytest.mark.server
def test_an_endpoint_where_nobody_answers(s3_environment: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failures, "PATIENCE_SECONDS", 0.3)
    store = Store("s3://bucket/x", {"client_kwargs": {"endpoint_url": "http://127.0.0.1:9"}})
    with pytest.raises(TransientStorageError, match="did not answer properly; check its endpoint"):
        store.create("x", b"")


def _is_put(environ: Environ) -> bool:
    return environ["REQUEST_METHOD"] == "PUT"


@pytest.mark.server
def test_a_conflict_decides_nothing(moto_server: FaultyServer) -> None:
    place = moto_server.new_bucket()
    store, conflicts = Store(place.url, place.storage_options), [2]

    def busy(environ: Environ, forward: Callable[[], Answer]) -> Answer:
        if _is_put(environ) and conflicts[0]:
            conflicts[0] -= 1
            return s3_error("409 Conflict", "ConditionalRequestConflict")
        return forward()

    moto_server.fault = busy
    assert store.create("x", b"mine") is True
    conflicts[0] = 2
    assert store.create("x", b"other") is False
    assert store.read("x") == b"mine"


@pytest.mark.server
def test_a_refusal_without_a_known_name_is_read_from_its_status(moto_server: FaultyServer) -> None:
    place = moto_server.new_bucket()
    moto_server.fault = lambda environ, forward: (
        s3_error("412 Precondition Failed", "PreconditionFailed") if _is_put(environ) else forward()
    )
    assert Store(place.url, place.storage_options).create("x", b"") is False


@pytest.mark.server
def test_a_store_that_stays_busy_is_a_transient_trouble(
    moto_server: FaultyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failures, "PATIENCE_SECONDS", 0.3)
    place = moto_server.new_bucket()
    moto_server.fault = lambda environ, forward: (
        s3_error("409 Conflict", "OperationAborted") if _is_put(environ) else forward()
    )
    with pytest.raises(TransientStorageError, match=r"did not answer properly \(OperationAborted\)"):
        Store(place.url, place.storage_options).create("x", b"")


@pytest.mark.server
def test_a_truncated_answer_is_not_content(moto_server: FaultyServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failures, "PATIENCE_SECONDS", 0.3)
    place = moto_server.new_bucket()
    store = Store(place.url, place.storage_options)
    store.put("x", b"0123456789" * 1000)

    def cut(environ: Environ, forward: Callable[[], Answer]) -> Answer:
        answer = forward()
        return Answer(answer.status, answer.headers, answer.body[: len(answer.body) // 2])

    moto_server.fault = cut
    with pytest.raises(StorageError):
        store.read("x")


@pytest.mark.server
def test_an_interrupted_write_is_over_when_the_interrupt_arrives(moto_server: FaultyServer) -> None:
    """Else an object could appear after the clean-up that was to remove it."""
    place = moto_server.new_bucket()
    store = Store(place.url, place.storage_options)

    def slow(environ: Environ, forward: Callable[[], Answer]) -> Answer:
        if _is_put(environ):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.7)
        return forward()

    store.exists("warm-up")
    moto_server.fault = slow
    assert threading.current_thread() is threading.main_thread()
    with pytest.raises(KeyboardInterrupt):
        store.put("x", b"late")
    assert store.read("x") == b"late"


@pytest.mark.server
def test_an_interrupt_ends_the_wait_for_a_read(moto_server: FaultyServer) -> None:
    place, is_over, interrupts = moto_server.new_bucket(), threading.Event(), threading.Semaphore(0)
    store, waited = Store(place.url, place.storage_options), list[str]()
    store.put("x", b"content")

    def stuck(environ: Environ, forward: Callable[[], Answer]) -> Answer:
        if interrupts.acquire(blocking=False):
            os.kill(os.getpid(), signal.SIGINT)
        if not is_over.wait(50):
            waited.append(environ["PATH_INFO"])
        return forward()

    moto_server.fault = stuck
    for request in (lambda: store.read("x"), lambda: store.read_ranges([("x", 0, 1)] * 9), store.list):
        interrupts.release()
        with pytest.raises(KeyboardInterrupt):
            request()
    is_over.set()
    assert waited == []


@pytest.mark.server
def test_a_busy_store_is_asked_again_by_every_request(moto_server: FaultyServer) -> None:
    place, left = moto_server.new_bucket(), [0]
    store = Store(place.url, place.storage_options)

    def busy(environ: Environ, forward: Callable[[], Answer]) -> Answer:
        left[0] -= 1
        return s3_error("503 Slow Down", "SlowDown") if left[0] >= 0 else forward()

    moto_server.fault = busy

    def asked(request: Callable[[], object]) -> object:
        left[0] = 3
        answer = request()
        assert left[0] < 0
        return answer

    assert asked(lambda: store.create("a/x", b"first")) is True
    assert asked(lambda: list(store.chunks("a/x"))) == [b"first"]
    assert asked(lambda: store.read_ranges([("a/x", 0, 2)] * 9)) == [b"fi"] * 9
    _, version = store.versioned("a/x")
    assert asked(lambda: store.put_if("a/x", b"other", version)) is True
    assert asked(lambda: store.put_if("a/x", b"first", version)) is False
    asked(lambda: store.put("a/x", b"first"))
    assert asked(lambda: store.size("a/x")) == 5 and asked(lambda: store.folders()) == ["a"]
    assert asked(lambda: len(input_files(f"{store.url}/a/*", dict(store.storage_options)))) == 1
    assert asked(lambda: store.open("a/x").read()) == b"first"
    assert asked(lambda: store.list("a")) == ["a/x"]
    asked(lambda: store.delete("a/x"))
    store.put("a/x", b"first")
    asked(lambda: store.delete_all("a"))
    assert store.list() == []


@pytest.mark.server
def test_what_is_denied_is_asked_once(moto_server: FaultyServer) -> None:
    place, asked = moto_server.new_bucket(), list[str]()

    def denied(environ: Environ, forward: Callable[[], Answer]) -> Answer:
        asked.append(environ["REQUEST_METHOD"])
        return s3_error("403 Forbidden", "AccessDenied")

    moto_server.fault = denied
    with pytest.raises(StorageError, match="access was denied"):
        Store(place.url, place.storage_options).create("x", b"")
    assert len(asked) == 1
