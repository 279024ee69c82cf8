"""One thread with an event loop, in which the campaign's own servers run."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Coroutine
from contextlib import ExitStack
from typing import Any, TypeVar

Result = TypeVar("Result")
_SECONDS = 30


class LoopThread:
    """An event loop in a thread of its own."""

    def __init__(self, undo: ExitStack) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()
        undo.callback(self._stop)

    def run(self, coroutine: Coroutine[Any, Any, Result]) -> Result:
        """Run a coroutine there and wait for what it returns."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(_SECONDS)

    def _stop(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(_SECONDS)


def reset(writer: asyncio.StreamWriter) -> None:
    """Close a connection so that the other side gets a reset, not an end."""
    connection = writer.get_extra_info("socket")
    # One that the other side has closed meanwhile is reset already.
    with contextlib.suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
