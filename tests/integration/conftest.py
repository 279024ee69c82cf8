"""What several modules of this folder are given: ledgers in every kind of place."""

from __future__ import annotations

from pathlib import Path

import pytest

from microagg_core.series.ledger import Ledger
from microagg_core.store.objects import Store
from servers.s3_server import Place


@pytest.fixture
def ledger(storage_place: Place) -> Ledger:
    return Ledger(Store(storage_place.url + "/ledger", storage_place.storage_options, private=True), "people")


@pytest.fixture
def on_disk(tmp_path: Path) -> Ledger:
    return Ledger(Store(str(tmp_path / "ledger"), private=True), "people")
