"""Proxies that fail as networks do: a link that stands still or is cut, and one before an S3 server."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_PIECE = 2**16


def _reset(connection: socket.socket) -> None:
    """End a connection so that the other side gets a reset, not an end; one that is closed is no trouble."""
    with suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    with suppress(OSError):
        # Another thread may wait for what it says; a socket that is read from is not closed before that is over.
        connection.shutdown(socket.SHUT_RD)
    connection.close()


@dataclass
class Link:
    """A connection from port to port that can stand still, or be cut."""

    target: int
    host: str = "127.0.0.1"
    at_port: int = 0
    _open: set[socket.socket] = field(default_factory=set)
    _flows: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._flows.set()
        self._listening = socket.create_server((self.host, self.at_port))
        self.port = int(self._listening.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listening.accept()
                try:
                    far = socket.create_connection(("127.0.0.1", self.target))
                except OSError:
                    _reset(near)
                    continue
                self._open |= {near, far}
                for source, sink in ((near, far), (far, near)):
                    threading.Thread(target=self._pump, args=(source, sink), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(_PIECE):
                self._flows.wait()
                sink.sendall(data)
        with suppress(OSError):
            sink.shutdown(socket.SHUT_WR)

    def stand_still(self, still: bool = True) -> None:
        """Let nothing pass any more, and tell nobody; or let all go on."""
        (self._flows.clear if still else self._flows.set)()

    def cut(self) -> None:
        """Reset every connection, and take no new one."""
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        while self._open:
            _reset(self._open.pop())
        self._flows.set()


@dataclass(frozen=True)
class Request:
    method: str
    path: str

    @property
    def is_write(self) -> bool:
        return self.method in ("PUT", "POST", "DELETE")


@dataclass(frozen=True)
class Action:
    """What happens to a request instead of being forwarded and answered."""

    #: Seconds before anything happens; the request reaches the server only then.
    late: float = 0.0
    #: An answer in the server's place: status and S3's code; nothing is forwarded then.
    answer: tuple[int, str] | None = None
    #: The connection is reset; after the server did what was asked, if ``forwards``.
    resets: bool = False
    forwards: bool = True
    #: The share of the answer's body that arrives before the connection ends.
    truncated_to: float | None = None


class FaultyProxy(ThreadingHTTPServer):
    """A proxy before an S3 server, with a fault or none.

    It forwards requests as they come, the Host header included, so that signatures stay valid; a fault may answer in
    the server's place, be late, cut an answer short, lose it, or lose the connection.
    """

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, upstream: int, undo: ExitStack) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.upstream, self.port = upstream, int(self.server_address[1])
        self.fault: Callable[[Request], Action | None] | None = None
        #: Requests that met the fault, as method and last part of the path.
        self.struck: list[str] = []
        self.requests = 0
        self.open: set[socket.socket] = set()
        threading.Thread(target=self.serve_forever, daemon=True).start()
        undo.callback(self.server_close)
        undo.callback(self.shutdown)

    def break_connections(self) -> None:
        for connection in list(self.open):
            _reset(connection)

    def handle_error(self, *_: Any) -> None:
        """Say nothing of a connection that is lost: that is what a fault does."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else a body waits 40 ms for the answer to its head
    server: FaultyProxy

    def setup(self) -> None:
        super().setup()
        self.server.open.add(self.connection)
        self._upstream: HTTPConnection | None = None

    def finish(self) -> None:
        with suppress(OSError, ValueError):
            super().finish()
        self.server.open.discard(self.connection)
        if self._upstream is not None:
            self._upstream.close()

    def serve(self) -> None:
        body, request = self._body(), Request(self.command, self.path.partition("?")[0])
        self.server.requests += 1
        fault = self.server.fault
        action = fault(request) if fault is not None else None
        if action is None:
            self._answer(*self._forwarded(body))
            return
        self.server.struck.append(f"{request.method} {request.path.rpartition('/')[2][:60]}")
        time.sleep(action.late)
        if action.answer is not None:
            self._answer(*_s3_error(*action.answer))
            return
        status, headers, content = self._forwarded(body) if action.forwards else (500, [], b"")
        if action.resets:
            _reset(self.connection)
            self.close_connection = True
        else:
            self._answer(status, headers, content, action.truncated_to if content else None)

    def _body(self) -> bytes:
        if "chunked" not in self.headers.get("Transfer-Encoding", ""):
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        chunks = b""  # as they came, sizes included
        while True:
            line = self.rfile.readline()
            chunks += line + self.rfile.read(int(line.split(b";")[0], 16) + 2)
            if int(line.split(b";")[0], 16) == 0:
                return chunks

    def _forwarded(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        for is_last in (self._upstream is None, True):
            try:
                if self._upstream is None:
                    self._upstream = HTTPConnection("127.0.0.1", self.server.upstream)
                self._upstream.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
                for name, value in self.headers.items():
                    if name.lower() != "expect":
                        self._upstream.putheader(name, value)
                self._upstream.endheaders(body)
                answer = self._upstream.getresponse()
                return answer.status, answer.getheaders(), answer.read()
            except (OSError, HTTPException):
                self._upstream = None
                if is_last:  # else the server had closed an idle connection
                    _reset(self.connection)
                    raise ConnectionError from None
        raise AssertionError

    def _answer(self, status: int, headers: list[tuple[str, str]], body: bytes, share: float | None = None) -> None:
        self.send_response_only(status)
        for name, value in headers:
            if name.lower() != "transfer-encoding":
                self.send_header(name, value)
        if not any(name.lower() == "content-length" for name, _ in headers) and status not in (204, 304):
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body if share is None else body[: int(len(body) * share)])
        self.close_connection |= share is not None

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


for _method in ("GET", "HEAD", "PUT", "POST", "DELETE"):
    setattr(_Handler, f"do_{_method}", _Handler.serve)


def _s3_error(status: int, code: str) -> tuple[int, list[tuple[str, str]], bytes]:
    body = f"<?xml version='1.0' encoding='UTF-8'?><Error><Code>{code}</Code><Message>provoked</Message></Error>"
    return status, [("Content-Type", "application/xml"), ("x-amz-request-id", "provoked")], body.encode()
