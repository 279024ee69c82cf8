"""What an executor says when the connection to its scheduler ends under it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from distributed.client import ClosedClientError

from microagg_core.errors import TransientClusterError
from microagg_flows.clusters.pool import DaskExecutor, Pool
from microagg_flows.progress import Silence


class _Closing:
    """A client that answers once, and is closed when it is given work."""

    status = "running"
    scheduler = SimpleNamespace(identity=None)

    def sync(self, *_: Any, **__: Any) -> dict[str, Any]:
        return {"workers": {}}

    def subscribe_topic(self, *_: Any) -> None: ...

    def submit(self, *_: Any, **__: Any) -> None:
        raise ClosedClientError("closed")


def test_a_connection_that_is_closed_while_tasks_are_handed_out_is_trouble_of_the_cluster() -> None:
    client: Any = _Closing()
    spec: Any = None
    executor = DaskExecutor(Pool(client, no_workers=1.0, own=True), spec, Silence())
    with pytest.raises(TransientClusterError, match=r"the cluster failed during anonymize \(ClosedClientError\)"):
        executor.map(abs, [1, 2], "anonymize")
