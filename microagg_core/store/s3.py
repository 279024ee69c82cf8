"""Fast reading of ranges, and removal for good, in S3 buckets."""

from __future__ import annotations

import asyncio
import os.path
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar
from urllib.parse import quote
from weakref import WeakSet

from microagg_core.errors import StorageError
from microagg_core.store.failures import BUSY_CODES, DENIED, if_there, service_code

#: Fewer ranges than this are not worth finding out where their bucket is.
_LEAST = 4
#: Requests under way; each is signed when its turn comes, since a signature grows old.
_AT_ONCE = 64
_PARTIAL_CONTENT = 206
#: Any key: what stands before it in its address, stands before all.
_ANY_KEY = "key"
#: What s3fs has where requests say more, or are not signed.
_MORE_THAN_PLAIN = ("anon", "version_aware", "s3_additional_kwargs", "req_kw")
#: File systems that got another answer once. They are not tried again: each time would cost a request more.
_REFUSED: WeakSet[Any] = WeakSet()


def plain_ranges(fs: Any, ranges: Sequence[tuple[str, int, int]]) -> list[bytes | None]:
    """Read ranges ``(path, start, end)`` of S3; None in the place of those that are to be asked for in full.

    Of the CPU that a request of botocore costs, most goes into what a range does not need: endpoints resolved anew,
    parameters validated, events, an answer's headers parsed. Here a range is asked for over the same connections, and
    signed by the same signer. What the server does not answer with just that range is None, and to be asked for in
    full: its tries, and the words for its troubles, are those of every other request. Who reads checks what comes by
    checksums.
    """
    if len(ranges) >= _LEAST and fs not in _REFUSED and _is_plain(fs):
        from fsspec.asyn import sync

        contents: list[bytes | None] = sync(fs.loop, _contents, fs, ranges)
        if None in contents:
            _REFUSED.add(fs)
        return contents
    return [None] * len(ranges)


def _is_plain(fs: Any) -> bool:
    """Say whether requests are address, range and signature alone: no keys of encryption, payers or versions."""
    return not any(getattr(fs, name, True) for name in _MORE_THAN_PLAIN)


async def _contents(fs: Any, ranges: Sequence[tuple[str, int, int]]) -> list[bytes | None]:
    at_once, refused = asyncio.Semaphore(_AT_ONCE), False
    bucket = fs.split_path(ranges[0][0])[0]

    async def content(path: str, start: int, end: int) -> bytes | None:
        nonlocal refused
        async with at_once:
            if refused:  # a server that does not answer would be waited for again and again
                return None
            try:
                of, key, _ = fs.split_path(path)
                data = await _range(client, before + quote(key, safe="/~"), start, end) if of == bucket else None
            except Exception:  # whatever it was, it is the full request that has words for it
                data = None
            refused |= data is None
            return data

    try:
        await fs.set_session()
        client = await fs.get_s3(bucket)
        anywhere = {"Bucket": bucket, "Key": _ANY_KEY}
        before = (await client.generate_presigned_url("get_object", anywhere)).partition("?")[0].removesuffix(_ANY_KEY)
    except Exception:  # as above: no credentials, for one
        return [None] * len(ranges)
    return list(await asyncio.gather(*(content(path, start, end) for path, start, end in ranges)))


async def _range(client: Any, url: str, start: int, end: int) -> bytes | None:
    """Ask for one range; None where the answer is anything else."""
    from botocore.awsrequest import AWSRequest

    request = AWSRequest("GET", url, headers={"Range": f"bytes={start}-{end - 1}"})
    request.stream_output = True  # of another answer nothing is read
    request.context.update(client_config=client.meta.config, client_region=client.meta.region_name)
    await client._request_signer.sign("GetObject", request)
    answer = await client._endpoint.http_session.send(request.prepare())
    try:
        data = await answer.raw.read() if answer.status_code == _PARTIAL_CONTENT else b""
    finally:
        answer.raw.close()
    return bytes(data) if len(data) == end - start else None


T = TypeVar("T")
Key = str
#: Keys, or a key and a version of it, as S3's request names them.
Objects = Sequence[dict[str, str]]

#: What S3 takes in one request.
AT_ONCE = 1000
_REQUESTS_AT_ONCE = 4
#: Stores with neither versions nor a listing of them, some of which name a version all the same.
_NO_SUCH_REQUEST = {"NotImplemented", "MethodNotAllowed", "501", "405"}


@dataclass(frozen=True)
class Removal:
    """Removal of objects below one place of a bucket.

    A bucket may keep what is removed or written over as a version that no listing shows, for as long as its owner
    likes. Rows that are to go would stay there, so the versions go too. Whether a bucket does so is read from its
    answers about objects, which whoever may read and remove objects gets: no right to ask for a bucket's settings is
    needed.
    """

    fs: Any
    #: The path of the place in the file system, and the place as it may stand in a message.
    root: str
    shown: str

    @property
    def _bucket(self) -> str:
        return str(self.fs.split_path(self.root)[0])

    def _key(self, name: str) -> Key:
        return str(self.fs.split_path(f"{self.root}/{name}")[1])

    def remove(self, names: Sequence[str]) -> None:
        with ThreadPoolExecutor(_REQUESTS_AT_ONCE) as pool:
            list(pool.map(self._remove_batch, _batches(sorted(map(self._key, names)))))

    def remove_below(self, folder: str, names: Sequence[str]) -> None:
        """Remove all that is below a folder, where these objects are listed, with the versions of others."""
        if names and self._keeps_versions(self._key(names[0])):
            self._remove_versions([self._key(name) for name in names], self._key(f"{folder}/"))
        else:
            self.remove(names)

    def _remove_batch(self, keys: Sequence[Key]) -> None:
        # Where the versions are removed first, no process that dies leaves any that a listing hides.
        kept = keys if self._keeps_versions(keys[0]) else self._remove([{"Key": key} for key in keys])
        if kept:
            self._remove_versions(kept)

    def _keeps_versions(self, key: Key) -> bool:
        """Say whether an object has a version; False for one that is missing, as the bucket then says nothing."""
        ask = partial(self.fs.call_s3, "head_object", self.fs.kwargs, Bucket=self._bucket, Key=key)
        return bool((if_there(ask) or {}).get("VersionId"))

    def _remove(self, objects: Objects) -> list[Key]:
        """Remove objects; returns the keys, sorted, of those that the bucket has only hidden.

        What a busy store leaves out of a request makes it a failed one, which is asked again as any other.
        """
        answer = self.fs.call_s3("delete_objects", Bucket=self._bucket, Delete={"Objects": objects})
        codes = [entry.get("Code", "") for entry in answer.get("Errors", [])]
        if codes:
            raise _LeftOutError(next((code for code in codes if code not in BUSY_CODES), codes[0]))
        return sorted(entry["Key"] for entry in answer.get("Deleted", []) if entry.get("DeleteMarker"))

    def _remove_versions(self, keys: Sequence[Key], folder: Key | None = None) -> None:
        """Remove all versions of these keys, and marks of their removal; with a folder, of all that is below it."""
        wanted = set(keys)
        # A prefix of characters, as S3 has it.
        prefix = os.path.commonprefix([min(keys), max(keys)]) if folder is None else folder  # noqa: RUF071
        try:
            # All of them are listed first: some stores cannot go on from a version that is gone.
            versions = [entry for entry in self._versions(prefix) if folder is not None or entry["Key"] in wanted]
            for objects in _batches(versions):
                self._remove(objects)
        except OSError as error:
            code = service_code(error)
            if code in DENIED:
                raise StorageError(
                    f"{self.shown}: this bucket keeps versions of what is removed, and these credentials may not "
                    "remove them (s3:ListBucketVersions, s3:DeleteObjectVersion); allow both there, or use a bucket "
                    "without versioning"
                ) from None
            if code not in _NO_SUCH_REQUEST:
                raise
            self._remove([{"Key": key} for key in keys])

    def _versions(self, prefix: Key) -> Iterator[dict[str, str]]:
        where: dict[str, str] = {}
        while True:
            page = self.fs.call_s3("list_object_versions", Bucket=self._bucket, Prefix=prefix, **where)
            listed = [*page.get("Versions", []), *page.get("DeleteMarkers", [])]
            yield from ({"Key": entry["Key"], "VersionId": entry["VersionId"]} for entry in listed)
            if not page.get("IsTruncated"):
                return
            where = {"KeyMarker": page["NextKeyMarker"]}
            if page.get("NextVersionIdMarker"):
                where["VersionIdMarker"] = page["NextVersionIdMarker"]


def _batches(many: Sequence[T]) -> list[Sequence[T]]:
    return [many[i : i + AT_ONCE] for i in range(0, len(many), AT_ONCE)]


class _LeftOutError(OSError):
    """Error for an object that a request left out, in the form of botocore's for a whole request."""

    operation_name = "DeleteObjects"

    def __init__(self, code: str) -> None:
        super().__init__("an object was not removed")
        self.response = {"Error": {"Code": code}}
