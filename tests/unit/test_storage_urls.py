"""Questions about URLs."""

from __future__ import annotations

from pathlib import Path

import pytest

from microagg_core.store.urls import basename, holds_credentials, is_inside, is_local, join_url, resolve, shown

WITH_CREDENTIALS = [
    "https://user:pw@example.org/x",
    "https://user@example.org/x",
    "s3://AKIA:secret@bucket/x",
    "s3://AKIA:sec/ret@bucket/x",
    "s3://AKIA%3Asecret%40bucket/x",
    "simplecache::s3://AKIA:secret@bucket/x",
    "zip://inner.csv::https://user:pw@example.org/x.zip",
    "ftp://user:pw@[::1]/x",
    "abfs://container:key@account.dfs.core.windows.net/x",
    "https://bucket.example.org/x?X-Amz-Signature=f00",
    "https://bucket.example.org/x?a=1&X-Amz-Credential=AKIA",
    "https://bucket.example.org/x?AWSAccessKeyId=AKIA&Expires=1",
    "https://account.example.org/x?sv=1&sig=f00",
    "https://bucket.example.org/x?X-Goog-Signature=f00",
    "https://example.org/x#access_token=f00",
    "https://example.org/x?%73ig=f00",
]
WITHOUT = [
    "people@home/in.csv",
    "/data/user:pw@host/in.csv",
    "file:///data/a@b.csv",
    "s3://bucket/user:pw@host/x",
    "s3://bucket/part-?.parquet",
    "http://127.0.0.1:9000/x",
    "http://[::1]:9000/x",
    "https://example.org/x?versionId=3&page=2",
    "abfs://container@account.dfs.core.windows.net/x",
    "simplecache::s3://bucket/x",
]


@pytest.mark.parametrize("url", WITH_CREDENTIALS)
def test_credentials_are_found_and_never_shown(url: str) -> None:
    assert holds_credentials(url)
    for secret in ("pw", "secret", "sec/ret", "ret@", "f00", "AKIA", "container:key"):
        assert secret not in shown(url)


@pytest.mark.parametrize("url", WITHOUT)
def test_ordinary_urls_hold_no_credentials(url: str) -> None:
    assert not holds_credentials(url)
    assert shown(url) == url


@pytest.mark.parametrize(
    ("inner", "outer"),
    [
        ("/data/out", "/data/out"),
        ("/data/out/", "/data/out"),
        ("/data/out/work", "/data/out/"),
        ("/data/out/work", "file:///data/out"),
        ("file:/data/out/work", "/data/out"),
        ("/data/work/../out/x", "/data/out"),
        ("/anything", "/"),
        ("out/work", "out"),
        ("s3://bucket/out/work", "s3://bucket/out"),
        ("s3a://bucket/out/work", "s3://bucket/out/"),
        ("s3://bucket/work", "s3://bucket"),
        ("s3://bucket//out/work", "s3://bucket/out"),
        ("s3://bucket/work/../out/x", "s3://bucket/out"),
        ("s3://bucket/out/../x", "s3://bucket/out"),
        ("simplecache::s3://bucket/out/work", "s3://bucket/out"),
        ("abfs://c@account.dfs.core.windows.net/out/x", "az://c/out"),
        ("https://Example.org/out/x", "https://example.org/out"),
        ("memory://out/work", "memory://out"),
    ],
)
def test_inside(inner: str, outer: str) -> None:
    assert is_inside(inner, outer)


@pytest.mark.parametrize(
    ("inner", "outer"),
    [
        ("/data/outer", "/data/out"),
        ("/data", "/data/out"),
        ("/data/out/../work", "/data/out"),
        ("s3://bucket/outer", "s3://bucket/out"),
        ("s3://bucket-2/out/work", "s3://bucket/out"),
        ("s3://bucket", "s3://bucket/out"),
        ("s3://bucket/out/work", "gs://bucket/out"),
        ("/bucket/out/work", "s3://bucket/out"),
    ],
)
def test_not_inside(inner: str, outer: str) -> None:
    assert not is_inside(inner, outer)


def test_symbolic_links_are_followed(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "innocent").symlink_to(tmp_path / "out")
    assert is_inside(str(tmp_path / "innocent" / "work"), str(tmp_path / "out"))
    assert is_inside(str(tmp_path / "out" / "work"), f"file://{tmp_path}/innocent")


def test_join_resolve_and_basename(tmp_path: Path) -> None:
    assert join_url("/", "a") == "/a"
    assert join_url("/data", "", "a/", "/b") == "/data/a/b"
    assert join_url("s3://bucket") == "s3://bucket"
    assert resolve("a/../b", tmp_path) == str(tmp_path / "b")
    assert resolve("/abs", tmp_path) == "/abs"
    assert resolve("simplecache::s3://b/x", tmp_path) == "simplecache::s3://b/x"
    assert resolve("in.csv", "s3://bucket/specs") == "s3://bucket/specs/in.csv"
    assert basename("in.csv") == "in.csv"
    assert basename("/data/in/") == "in"
    assert basename("https://example.org/in.csv?page=2") == "in.csv"
    assert basename("simplecache::s3://b/x.csv") == "x.csv"
    assert is_local("relative/path") and not is_local("simplecache::s3://b/x")
