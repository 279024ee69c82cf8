"""What several modules of this folder are given: ledgers in every kind of place."""

from __future__ import annotations

from pathlib import Path

import pytest

from microagg_core.series.ledger import Ledger
from microagg_core.store.objects import Store
from releasing.small_series import SmallSeries, atoms
from servers.s3_server import Place


@pytest.fixture
def ledger(storage_place: Place) -> Ledger:
    return Ledger(Store(storage_place.url + "/ledger", storage_place.storage_options, private=True), "people")


@pytest.fixture
def on_disk(tmp_path: Path) -> Ledger:
    return Ledger(Store(str(tmp_path / "ledger"), private=True), "people")


@pytest.fixture(scope="session")
def two_nights(tmp_path_factory: pytest.TempPathFactory) -> SmallSeries:
    """Two nights of a series with decoys; a test that changes them makes a copy."""
    made = SmallSeries(tmp_path_factory.mktemp("two-nights"), atoms(leavers="decoys"))
    made.night(range(40), 0)
    made.night(range(60), 1)
    return made
