"""Ranges of objects in a bucket, asked for with no more than a request takes.

Of the CPU that a request of botocore costs, most goes into what a range does not need: endpoints resolved anew,
parameters validated, events, an answer's headers parsed. Here a range is asked for over the same connections, and
signed by the same signer. What the server does not answer with just that range is None, and to be asked for in full:
its tries, and the words for its troubles, are those of every other request. Who reads checks what comes by checksums.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote
from weakref import WeakSet

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
    """The contents of ranges ``(path, start, end)`` in S3; None where they are to be asked for in full."""
    if len(ranges) >= _LEAST and fs not in _REFUSED and _is_plain(fs):
        from fsspec.asyn import sync

        contents: list[bytes | None] = sync(fs.loop, _contents, fs, ranges)
        if None in contents:
            _REFUSED.add(fs)
        return contents
    return [None] * len(ranges)


def _is_plain(fs: Any) -> bool:
    """Whether a request is its address, its range and a signature: no keys of encryption, payers or versions."""
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
    return list(await asyncio.gather(*(content(*one) for one in ranges)))


async def _range(client: Any, url: str, start: int, end: int) -> bytes | None:
    """What one request is answered with; None where it is not the range."""
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
