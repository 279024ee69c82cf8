"""A proxy before an S3 server that fails as networks and stores do.

It forwards requests byte for byte, the Host header included, so that signatures stay valid; a fault may answer in the
server's place, be late, cut an answer short, lose it, or lose the connection.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field

from soak.loop_thread import LoopThread, reset

_HEAD_LIMIT = 2**20
_LOST = (ConnectionError, asyncio.IncompleteReadError, OSError)


@dataclass(frozen=True)
class Request:
    """What a client asks for; the body is there already."""

    method: str
    path: str
    head: bytes
    body: bytes

    @property
    def is_write(self) -> bool:
        """Whether it changes the store."""
        return self.method in ("PUT", "POST", "DELETE")


@dataclass(frozen=True)
class Action:
    """What happens to a request instead of being forwarded and answered."""

    #: Seconds before anything happens.
    late: float = 0.0
    #: An answer in the server's place: status and S3's code; nothing is forwarded then.
    answer: tuple[int, str] | None = None
    #: The connection is reset; after the server did what was asked, if ``forwards``.
    resets: bool = False
    forwards: bool = True
    #: The share of the answer's body that arrives before the connection ends.
    truncated_to: float | None = None
    #: The client hears nothing for this long, while the request reaches the server only then.
    held: float = 0.0


Fault = Callable[[Request], Action | None]


@dataclass
class FaultyProxy:
    """The proxy, with a fault or none."""

    thread: LoopThread
    upstream: tuple[str, int]
    fault: Fault | None = None
    #: Requests that met the fault, as method and last part of the path.
    struck: list[str] = field(default_factory=list)
    requests: int = 0
    port: int = 0
    _server: asyncio.Server | None = None
    _open: set[asyncio.StreamWriter] = field(default_factory=set)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def start(self) -> None:
        """Listen on a free port of the loopback interface."""
        self.thread.run(self._start())

    async def _start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=_HEAD_LIMIT)
        self.port = self._server.sockets[0].getsockname()[1]

    def stop(self) -> None:
        """Stop listening and drop all connections."""
        self.thread.run(self._stop())

    async def _stop(self) -> None:
        if self._server is not None:
            self._server.close()
        for writer in list(self._open):
            writer.transport.abort()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def break_connections(self) -> None:
        """Reset every connection that is open now."""

        async def all_at_once() -> None:
            for writer in list(self._open):
                reset(writer)

        self.thread.run(all_at_once())

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        upstream: list[asyncio.StreamWriter] = []
        try:
            server = _Upstream(self.upstream, upstream)
            while (request := await _read_request(reader, writer)) is not None:
                self.requests += 1
                if not await self._answer(request, server, writer):
                    break
        except _LOST:
            pass
        finally:
            self._open.discard(writer)
            for one in (writer, *upstream):
                with contextlib.suppress(*_LOST):
                    one.close()

    async def _answer(self, request: Request, server: _Upstream, writer: asyncio.StreamWriter) -> bool:
        """Answer one request; False where the connection is over."""
        action = self.fault(request) if self.fault is not None else None
        if action is None:
            head, body = await server.ask(request)
            return await _send(writer, head + body)
        self.struck.append(f"{request.method} {request.path.rpartition('/')[2][:60]}")
        await asyncio.sleep(action.late + action.held)
        if action.answer is not None:
            return await _send(writer, _s3_error(*action.answer, request.method))
        head, body = await server.ask(request) if action.forwards else (b"", b"")
        if action.resets:
            reset(writer)
            return False
        if action.truncated_to is not None and body:
            await _send(writer, head + body[: int(len(body) * action.truncated_to)])
            return False
        return await _send(writer, head + body)


class _Upstream:
    """A connection to the real server, made when it is needed."""

    def __init__(self, address: tuple[str, int], opened: list[asyncio.StreamWriter]) -> None:
        self._address, self._opened = address, opened
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, request: Request) -> tuple[bytes, bytes]:
        """Forward a request; the answer's head and body as they came."""
        reused = self._streams is not None
        try:
            return await self._ask(request)
        except _LOST:
            self._streams = None
            if not reused:
                raise
            return await self._ask(request)  # the server had closed an idle connection

    async def _ask(self, request: Request) -> tuple[bytes, bytes]:
        if self._streams is None:
            self._streams = await asyncio.open_connection(*self._address, limit=_HEAD_LIMIT)
            self._opened.append(self._streams[1])
        reader, writer = self._streams
        writer.write(request.head + request.body)
        await writer.drain()
        head = await reader.readuntil(b"\r\n\r\n")
        while head.startswith(b"HTTP/1.1 100"):
            head = await reader.readuntil(b"\r\n\r\n")
        return head, await _read_body(reader, head, _status(head), request.method)


def _headers(head: bytes) -> dict[str, str]:
    lines = head.decode("latin-1").split("\r\n")[1:]
    pairs = (line.partition(":") for line in lines if line)
    return {name.strip().lower(): value.strip() for name, _, value in pairs}


def _status(head: bytes) -> int:
    return int(head.split(b" ", 2)[1])


async def _read_request(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Request | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    method, path, _ = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ", 2)
    headers = _headers(head)
    if headers.get("expect", "").lower() == "100-continue":
        await _send(writer, b"HTTP/1.1 100 Continue\r\n\r\n")
        head = b"\r\n".join(line for line in head.split(b"\r\n") if not line.lower().startswith(b"expect:"))
    body = await _read_sized(reader, headers)
    return Request(method, path.partition("?")[0], head, body)


async def _read_body(reader: asyncio.StreamReader, head: bytes, status: int, method: str) -> bytes:
    if method == "HEAD" or status in (204, 304):
        return b""
    return await _read_sized(reader, _headers(head))


async def _read_sized(reader: asyncio.StreamReader, headers: dict[str, str]) -> bytes:
    if "chunked" in headers.get("transfer-encoding", ""):
        return await _read_chunked(reader)
    return await reader.readexactly(int(headers.get("content-length", "0")))


async def _read_chunked(reader: asyncio.StreamReader) -> bytes:
    """The chunks as they came, sizes included."""
    found = b""
    while True:
        line = await reader.readuntil(b"\r\n")
        size = int(line.split(b";")[0], 16)
        found += line + await reader.readexactly(size + 2)
        if size == 0:
            return found


async def _send(writer: asyncio.StreamWriter, data: bytes) -> bool:
    writer.write(data)
    await writer.drain()
    return True


def _s3_error(status: int, code: str, method: str) -> bytes:
    body = f"<?xml version='1.0' encoding='UTF-8'?><Error><Code>{code}</Code><Message>provoked</Message></Error>"
    head = (
        f"HTTP/1.1 {status} Provoked\r\nContent-Type: application/xml\r\nContent-Length: {len(body)}\r\n"
        "x-amz-request-id: provoked\r\n\r\n"
    )
    return head.encode() + (b"" if method == "HEAD" else body.encode())
