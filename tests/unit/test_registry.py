"""Members of a folder: one new file adds one, and an entry point does for other distributions."""

from __future__ import annotations

import sys
from importlib.metadata import EntryPoint
from types import ModuleType

import pytest

from microagg_core import registry
from microagg_core.errors import InternalError, SpecError

SHAPES = "class Shape:\n    pass\n"
SQUARE = "from shapes.base.shape import Shape\nclass Square(Shape):\n    pass\nMEMBER = Square()\n"


@pytest.fixture
def shapes(tmp_path, monkeypatch) -> ModuleType:
    """A package whose folder holds ``square`` and ``circle``, and whose order puts ``square`` first."""
    files = {
        "shapes/__init__.py": "",
        "shapes/base/__init__.py": "",
        "shapes/base/shape.py": SHAPES,
        "shapes/plane/__init__.py": 'ORDER = ("square",)\n',
        "shapes/plane/square.py": SQUARE,
        "shapes/plane/circle.py": SQUARE.replace("Square", "Circle"),
        "shapes/plane/_notes.py": "raise SystemExit\n",
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    registry.forget()
    from shapes.base import shape

    yield shape
    registry.forget()
    for name in [name for name in sys.modules if name.partition(".")[0] == "shapes"]:
        del sys.modules[name]


def _add_entry_point(monkeypatch, name: str, value: str) -> None:
    point = EntryPoint(name, value, "microagg.shapes")
    monkeypatch.setattr(registry, "entry_points", lambda group: [point] if group == "microagg.shapes" else [])
    registry.forget()


def test_members_come_in_the_stated_order_and_then_by_name(shapes):
    assert registry.names("shapes.plane") == ("square", "circle")
    assert [type(value).__name__ for value in registry.members("shapes.plane", shapes.Shape)] == ["Square", "Circle"]
    assert [kind.__name__ for kind in registry.classes("shapes.plane", shapes.Shape)] == ["Square", "Circle"]


def test_a_member_that_an_installation_lacks_is_missed(shapes, tmp_path):
    """A check of the gate that is not there would pass everything."""
    (tmp_path / "shapes" / "plane" / "square.py").unlink()
    with pytest.raises(ModuleNotFoundError, match="square"):
        registry.classes("shapes.plane", shapes.Shape)


def test_names_load_nothing(shapes):
    registry.names("shapes.plane")
    assert "shapes.plane.square" not in sys.modules


@pytest.mark.parametrize("value", ["shapes.more.oval", "shapes.more.oval:MEMBER"])
def test_an_entry_point_adds_a_member(shapes, tmp_path, monkeypatch, value):
    folder = tmp_path / "shapes" / "more"
    folder.mkdir()
    (folder / "oval.py").write_text(SQUARE.replace("Square", "Oval"))
    _add_entry_point(monkeypatch, "oval", value)
    assert registry.names("shapes.plane", "microagg.shapes") == ("square", "circle", "oval")
    assert type(registry.member("shapes.plane", "oval", shapes.Shape, "microagg.shapes")).__name__ == "Oval"


def test_a_plug_in_that_cannot_be_loaded_is_named(shapes, monkeypatch):
    _add_entry_point(monkeypatch, "oval", "shapes.missing")
    with pytest.raises(SpecError, match=r"the plug-in oval .* cannot be loaded: ModuleNotFoundError"):
        registry.members("shapes.plane", shapes.Shape, "microagg.shapes")


def test_a_plug_in_does_not_take_the_place_of_a_member(shapes, monkeypatch):
    _add_entry_point(monkeypatch, "square", "shapes.plane.circle")
    with pytest.raises(SpecError, match="has the name of a part of microagg"):
        registry.names("shapes.plane", "microagg.shapes")


def test_two_plug_ins_of_one_name_are_refused(shapes, monkeypatch):
    points = [EntryPoint("oval", f"shapes.{place}", "microagg.shapes") for place in ("here", "there")]
    monkeypatch.setattr(registry, "entry_points", lambda group: points)
    registry.forget()
    with pytest.raises(SpecError, match="two plug-ins have the name oval"):
        registry.names("shapes.plane", "microagg.shapes")


def test_a_module_without_a_member_is_a_bug_where_one_is_named(shapes):
    with pytest.raises(InternalError, match="must have one module, and has 0"):
        registry.member("shapes.base", "shape", ModuleType)
