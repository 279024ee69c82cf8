"""A room imports only from rooms below it, and the README's picture is the one that the imports draw."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from rooms import README, ROOT, Graph, core_graph, cycle, drawn, flows_graph, picture

#: From top to bottom: a room imports only from rooms that stand after it.
ORDER = (
    "flows", "runner", "pages", "compare", "api", "profile", "series", "release", "compiling", "inspect", "blocks",
    "spec", "data", "group", "kernels", "store",
)  # fmt: skip
MOST_ROOMS = 24


@pytest.mark.parametrize("graph", [core_graph, flows_graph], ids=["core", "flows"])
def test_no_rooms_import_each_other_in_a_circle(graph: Callable[[], Graph]) -> None:
    assert cycle(graph()) == []


def test_imports_lead_downwards() -> None:
    graph = core_graph()
    upwards = {
        f"{room} -> {other} ({place})"
        for room, others in graph.items()
        for other, place in others.items()
        if room in ORDER and other in ORDER and ORDER.index(room) > ORDER.index(other)
    }
    assert upwards == set()
    assert set(ORDER) <= set(graph) and len(graph) <= MOST_ROOMS


def test_the_readme_draws_the_rooms_as_they_are() -> None:
    """Where it fails: python tests/architecture/rooms.py --write."""
    assert drawn(README.read_text(encoding="utf-8")) == picture(core_graph())


def test_the_readme_of_the_core_names_every_room() -> None:
    text = (ROOT / "microagg_core" / "README.md").read_text(encoding="utf-8")
    assert [room for room in core_graph() if room != "flows" and room not in text] == []
