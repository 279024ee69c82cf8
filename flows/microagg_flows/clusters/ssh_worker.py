"""A worker that was started through ssh: ``python -m microagg_flows.clusters.ssh_worker``, told on standard input.

Certificates and variables come in there, so that they are in no list of processes and in no file; and where it ends,
with the connection or whoever made it, the worker ends too.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

import dask

#: How long a worker may take to end what it does.
_ENDING_SECONDS = 10.0


async def work(wish: dict[str, Any]) -> None:
    """Be a worker until standard input ends."""
    from distributed import Nanny

    nanny: Any = Nanny(
        wish["scheduler"],
        name=wish["name"],
        nthreads=wish["threads"],
        memory_limit=wish["memory"],
        protocol="tls://",
        env=wish["environment"],
        dashboard=False,
        dashboard_address="127.0.0.1:0",  # what a worker says of itself speaks no TLS
    )
    over = asyncio.create_task(asyncio.to_thread(sys.stdin.read))
    async with nanny:
        await asyncio.wait({over, asyncio.create_task(nanny.finished())}, return_when=asyncio.FIRST_COMPLETED)
        await nanny.close(timeout=_ENDING_SECONDS)


def main() -> None:
    wish = json.loads(sys.stdin.readline())
    os.environ.update(wish["environment"])
    with dask.config.set(wish["settings"]):
        asyncio.run(work(wish))
    os._exit(0)  # the thread that reads may read on


if __name__ == "__main__":
    main()
