"""The specs in deploy/examples are specs."""

from __future__ import annotations

from pathlib import Path

import pytest

from microagg_core.spec.loading import load_spec

EXAMPLES = sorted((Path(__file__).resolve().parents[2] / "deploy" / "examples").glob("*/release.yaml"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.parent.name)
def test_an_example_can_be_read(path: Path) -> None:
    load_spec(str(path))


def test_a_nightly_release_is_named_after_its_day() -> None:
    (nightly,) = [path for path in EXAMPLES if path.parent.name == "nightly"]
    assert load_spec(str(nightly)).id == "date"
