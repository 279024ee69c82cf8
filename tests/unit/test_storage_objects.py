"""Stores on a disk, and the sentences for what goes wrong."""

from __future__ import annotations

import errno
import os
import pickle
import subprocess
from pathlib import Path
from zlib import crc32

import pytest

from microagg_core.errors import SpecError, StorageError, TransientStorageError
from microagg_core.release.pieces import Piece, Range, read_pieces, read_ranges
from microagg_core.store.disk import is_gone, this_process
from microagg_core.store.failures import explained, explaining
from microagg_core.store.objects import Store, canonical_json

OPTIONS = {"client_kwargs": {"endpoint_url": "http://canary-endpoint:1"}, "anon": True}


def test_a_store_is_small_hashable_and_silent_about_its_options() -> None:
    store = Store("s3://bucket/x", OPTIONS)
    again = pickle.loads(pickle.dumps(store))
    assert again == store and hash(again) == hash(store)
    assert len(pickle.dumps(store)) < 500
    assert "canary" not in repr(store) and "canary" not in str(store)


def test_an_interrupted_write_leaves_what_was_there(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    store.put("a/b", b"old")

    def chunks():  # type: ignore[no-untyped-def]
        yield b"new"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.put_checked("a/b", chunks(), "0" * 64, 3)
    with pytest.raises(KeyboardInterrupt):
        store.put_checked("c/d", chunks(), "0" * 64, 3)
    assert store.read("a/b") == b"old"
    assert store.list(unfinished=True) == ["a/b"]
    assert not (tmp_path / "c").exists()


def test_a_killed_writers_file_is_not_listed_and_goes_with_its_folder(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / ".f00.unfinished").write_bytes(b"half")
    assert store.list() == []
    assert store.list(unfinished=True) == ["a/.f00.unfinished"]
    store.delete_all("a")
    assert list(tmp_path.iterdir()) == []


def test_files_have_the_rights_of_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        store = Store(str(tmp_path))
        store.put("a", b"1")
        store.create("b", b"1")
    finally:
        os.umask(before)
    assert [oct(p.stat().st_mode & 0o777) for p in sorted(tmp_path.iterdir())] == ["0o644", "0o644"]


def test_deleting_prunes_empty_folders_but_not_the_root(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    store.put("a/b/c", b"1")
    store.put("a/d", b"1")
    store.delete("a/b/c")
    store.delete("a/b/never-there")
    assert sorted(p.name for p in (tmp_path / "a").iterdir()) == ["d"]
    store.delete("a/d")
    assert tmp_path.exists() and list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["/etc/passwd", "../x", "a/../../x"])
def test_names_do_not_climb(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="relative"):
        Store(str(tmp_path)).read(name)


def test_missing_and_misplaced_files(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    with pytest.raises(StorageError, match=r"reading .*/nothing: it does not exist; check the URL"):
        store.read("nothing")
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageError, match="a file stands where a folder is needed"):
        store.put("file/below", b"")
    with pytest.raises(StorageError, match="is damaged: it is not JSON"):
        store.read_json("file")
    assert store.size("file/below") is None and store.size("") is None


def test_unknown_kinds_of_urls_and_options() -> None:
    with pytest.raises(SpecError, match=r"no-such://x: no file system is known"):
        Store("no-such://x").read("y")
    with pytest.raises(SpecError, match="does not know one of its storage options") as caught:
        Store("s3://bucket", {"canary_option": 1}).read("y")
    assert "canary" not in caught.value.message
    for url in ("s3://bucket//a", "gs://bucket/a//b", "az://container/a/../b"):
        with pytest.raises(SpecError, match="between two slashes stands no name"):
            Store(url).read("y")


def test_a_missing_package_is_named() -> None:
    words = r"the package that opens this kind of URL is not installed \(gcsfs\)"
    with pytest.raises(SpecError, match=words), explaining("gs://bucket/x", "reading"):
        raise ImportError("canary", name="gcsfs")


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.ENOSPC, "no space is left"),
        (errno.EROFS, "read-only"),
        (errno.EACCES, "access was denied"),
        (errno.ENAMETOOLONG, "too long"),
        (errno.EIO, r"refused it \(EIO\)"),
    ],
)
def test_what_an_operating_system_says(number: int, words: str) -> None:
    with pytest.raises(StorageError, match=words) as caught, explaining("/data/x", "writing"):
        raise OSError(number, "canary")
    assert "canary" not in caught.value.message and caught.value.exit_code == 5


def test_silence_is_transient_and_bugs_pass() -> None:
    assert isinstance(explained(TimeoutError(), "s3://b/x", "reading"), TransientStorageError)
    assert isinstance(explained(ConnectionResetError(), "s3://b/x", "reading"), TransientStorageError)
    assert explained(ValueError("a bug"), "s3://b/x", "reading") is None


def test_credentials_in_a_url_are_not_repeated() -> None:
    error = explained(FileNotFoundError(), "https://user:canary@host/x", "reading")
    assert error is not None and "canary" not in error.message


def test_json_is_canonical() -> None:
    assert canonical_json({"b": [1, 2.5], "a": "é"}) == canonical_json({"a": "é", "b": [1, 2.5]})
    with pytest.raises(ValueError, match="not JSON compliant"):
        canonical_json(float("nan"))


def test_in_a_private_area_a_file_takes_the_place_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "a" / "b" / "deeper").mkdir(parents=True)
    (tmp_path / "a" / "b" / "file").write_bytes(b"damage")
    with pytest.raises(StorageError, match="a file stands where a folder is needed, or a folder where a file is"):
        Store(str(tmp_path)).put("a/b", b"new")
    Store(str(tmp_path), private=True).put("a/b", b"new")
    assert Store(str(tmp_path)).read("a/b") == b"new"


def test_a_store_that_does_not_answer_is_not_asked_twice_for_one_object(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def no_answer(self: Store, name: str) -> bytes:
        asked.append(name)
        raise TransientStorageError("the store did not answer")

    monkeypatch.setattr(Store, "read", no_answer)
    monkeypatch.setattr(Store, "size", no_answer)
    with pytest.raises(TransientStorageError):
        Store("memory://silent").read_if_there("object")
    assert asked == ["object"]


def test_ranges_of_a_store_that_does_not_answer_are_asked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_answer(*_: object) -> bytes:
        raise TransientStorageError("the store did not answer")

    monkeypatch.setattr(Store, "read_ranges", no_answer)
    monkeypatch.setattr(Store, "size", lambda *_: pytest.fail("asked again"))
    monkeypatch.setattr(Store, "read", lambda *_: pytest.fail("asked again"))
    silent = Store("memory://silent")
    with pytest.raises(TransientStorageError):
        read_ranges(silent, [Range("object", 0, 1, 0, "scatter", 0)], crc32)
    with pytest.raises(TransientStorageError):
        read_pieces(silent, [Piece("object", 1, "", "scatter", 0, "scattered")])


def test_only_a_process_that_is_certainly_not_there_is_gone() -> None:
    surroundings = this_process().partition("-")[0]
    (ended := subprocess.Popen(["true"])).wait()
    assert is_gone(f"{surroundings}-{ended.pid}")
    # Itself, one that another machine or container may have, and a number that no process of this system can have.
    for mark in (this_process(), f"{'0' * 12}-{ended.pid}", f"{surroundings}-{10**30}"):
        assert not is_gone(mark)
