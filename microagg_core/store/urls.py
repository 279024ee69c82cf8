"""Questions about URLs that need no connection: do they hold credentials, does one lie inside another.

A URL here is whatever fsspec opens: a plain path, ``file://``, ``s3://bucket/prefix``, or a chain such as
``simplecache::s3://bucket/file``. Nothing in this module touches the network, and only :func:`is_inside`
looks at the local disk (for symbolic links).
"""

from __future__ import annotations

import os
import posixpath
import re
from pathlib import Path
from urllib.parse import unquote

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*://|file:|local:")
_LOCAL = re.compile(r"(?:file|local):(?://)?")
#: Different spellings of one store; what is not listed stands for itself.
_SAME_STORE = {
    "s3a": "s3", "s3n": "s3", "gcs": "gs", "abfss": "abfs", "az": "abfs", "adl": "abfs", "wasb": "abfs",
    "wasbs": "abfs", "https": "http",
}  # fmt: skip
#: Azure writes container@account where others write user@host.
_CONTAINER_AT_ACCOUNT = {"abfs", "abfss", "az", "wasb", "wasbs"}
_TOKEN_NAME = re.compile(
    r"(?i)^(sig|signature|token|key|apikey|api[-_]key|accesskey|awsaccesskeyid|googleaccessid|passw.*|pwd)$"
    r"|(?i:signature|credential|secret|token|access[-_]?key)"
)


def _split(link: str) -> tuple[str, str, str]:
    """Split a link into scheme in lower case ('' for a plain path), the part before the first slash, and the rest."""
    scheme, separator, rest = link.partition("://")
    if not separator or not re.fullmatch(r"[A-Za-z][A-Za-z0-9+.\-]*", scheme):
        return "", "", link
    authority, _, tail = rest.partition("/")
    return scheme.lower(), authority, tail


def _authority_is_secret(scheme: str, authority: str) -> bool:
    user, at, host = authority.rpartition("@")
    if at:
        return ":" in user or scheme not in _CONTAINER_AT_ACCOUNT
    # A secret may hold a slash, which cuts "key:sec/ret@bucket" short: what follows the colon is no port.
    _, colon, port = re.sub(r"^\[.*\]", "", host).partition(":")
    return bool(colon) and not re.fullmatch(r"\d*", port)


def _query_is_secret(link: str) -> bool:
    query = re.split(r"[?#]", link, maxsplit=1)[1:]
    pairs = re.split(r"[&;?#]", query[0]) if query else []
    return any("=" in pair and _TOKEN_NAME.search(unquote(pair.partition("=")[0])) for pair in pairs)


def holds_credentials(url: str) -> bool:
    """Look for a user, a password or a signed token, in any link of a chain.

    >>> holds_credentials("s3://bucket/2026/file.parquet")
    False
    >>> holds_credentials("https://user:pw@example.org/x"), holds_credentials("https://a.b/x?X-Amz-Signature=f0")
    (True, True)
    """
    for link in url.split("::"):
        scheme, authority, _ = _split(link)
        authority = re.split(r"[?#]", authority, maxsplit=1)[0]
        if scheme and (_authority_is_secret(scheme, unquote(authority)) or _query_is_secret(link)):
            return True
    return False


def shown(url: str) -> str:
    """Take users, passwords and queries out of a URL, for messages.

    >>> shown("https://user:pw@example.org/x?sig=1")
    'https://***@example.org/x'
    """
    if not holds_credentials(url):
        return url
    links = []
    for link in url.split("::"):
        scheme, _, _ = _split(link)
        bare = re.split(r"[?#]", link, maxsplit=1)[0] if scheme else link
        if "@" in bare:
            bare = re.sub(r"(?<=://).*@", "***@", bare)
        elif scheme and _authority_is_secret(scheme, unquote(_split(bare)[1])):
            bare = f"{scheme}://***"
        links.append(bare)
    return "::".join(links)


def is_local(url: str) -> bool:
    """Say whether the URL names a place on this machine's file system.

    >>> is_local("/data/x"), is_local("file:///data/x"), is_local("s3://bucket/x")
    (True, True, False)
    """
    last = url.rpartition("::")[2]
    return bool(_LOCAL.match(last)) or not _SCHEME.match(last)


def local_path(url: str) -> str:
    """Read a local URL as an absolute path, as the file system layer does.

    >>> local_path("file:///data/./x")
    '/data/x'
    """
    last = url.rpartition("::")[2]
    path = last[match.end() :] if (match := _LOCAL.match(last)) else last
    return os.path.abspath(os.path.expanduser(path))  # noqa: PTH100, PTH111 - pathlib keeps '..'


def _places(url: str) -> tuple[str, set[tuple[str, ...]]]:
    """Find the store, and every path in it that the URL may mean.

    Keys of an object store are literal, '..' included, but some servers resolve them: both readings count.
    """
    last = url.rpartition("::")[2]
    if is_local(last):
        real = os.path.realpath(local_path(last))
        return "file", {tuple(part for part in real.split("/") if part)}
    scheme, authority, tail = _split(last)
    if _SAME_STORE.get(scheme, scheme) == "abfs":
        authority = authority.partition("@")[0]
    elif scheme in ("http", "https"):
        authority = authority.lower()
    literal = tuple(part for part in f"{authority}/{tail}".split("/") if part)
    resolved = posixpath.normpath("/" + "/".join(literal)).split("/")
    return _SAME_STORE.get(scheme, scheme), {literal, tuple(part for part in resolved if part)}


def is_inside(inner_url: str, outer_url: str) -> bool:
    """Say whether one place lies inside another; the same place counts as inside.

    Local paths are compared after symbolic links and '..' are resolved; of a chain the last link counts,
    since that is where the bytes are. Where a store may read a URL in two ways, either one is enough.

    >>> is_inside("s3a://bucket/out/work/", "s3://bucket/out"), is_inside("s3://bucket/outer", "s3://bucket/out")
    (True, False)
    >>> is_inside("/data/out/../work", "file:///data/out")
    False
    """
    inner_store, inner = _places(inner_url)
    outer_store, outer = _places(outer_url)
    return inner_store == outer_store and any(i[: len(o)] == o for i in inner for o in outer)


def join_url(url: str, *names: str) -> str:
    """Join names below a URL.

    >>> join_url("s3://bucket/out/", "2026-11-18", "manifest.json")
    's3://bucket/out/2026-11-18/manifest.json'
    """
    tail = "/".join(name.strip("/") for name in names if name.strip("/"))
    if not tail:
        return url
    return url + tail if url.endswith("/") else f"{url}/{tail}"


def resolve(url: str, folder: str | Path) -> str:
    """Make a relative local path absolute against ``folder``; anything with a scheme is returned as it is.

    >>> resolve("out", "/data/specs"), resolve("../in/*.csv", "/data/specs"), resolve("s3://b/x", "/data")
    ('/data/specs/out', '/data/in/*.csv', 's3://b/x')
    """
    if "::" in url or _SCHEME.match(url):
        return url
    if _SCHEME.match(str(folder)):
        return join_url(str(folder), url)
    return os.path.abspath(os.path.join(folder, os.path.expanduser(url)))  # noqa: PTH100, PTH111, PTH118


def basename(url: str) -> str:
    """Find the last name of a URL, without the query.

    >>> basename("s3://bucket/in/people.parquet"), basename("zip://people.csv::s3://bucket/all.zip")
    ('people.parquet', 'people.csv')
    """
    named = [link for link in url.split("::") if "/" in link] or [url]
    scheme, _, _ = _split(named[0])
    path = re.split(r"[?#]", named[0], maxsplit=1)[0] if scheme in ("http", "https") else named[0]
    return path.rstrip("/").rpartition("/")[2]
