"""The process of the embedded Prefect server: it answers at the socket it was given, and ends with its parent.

Prefect would start it as a process of its own, which lives on when the command is killed.
"""

from __future__ import annotations

import gc
import os
import socket
import sys
import threading


def main() -> None:
    """Serve at the descriptor that the command line names, until standard input ends."""
    gc.set_threshold(50_000)  # else Python looks through all that it has loaded again and again: a sixth of the start
    threading.Thread(target=_end_with_parent, daemon=True).start()
    import uvicorn

    given = socket.socket(fileno=int(sys.argv[1]))
    config = uvicorn.Config(
        "prefect.server.api.server:create_app", factory=True, log_level="error", lifespan="on", ws="auto"
    )
    uvicorn.Server(config).run(sockets=[given])


def _end_with_parent() -> None:
    """Wait for the system to close standard input, of which the parent holds the other end, however that ends."""
    while os.read(0, 1):
        pass
    os._exit(0)


if __name__ == "__main__":
    main()
