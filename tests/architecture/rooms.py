"""Read from the sources which room imports which.

    python tests/architecture/rooms.py            prints the graph as the README has it
    python tests/architecture/rooms.py --write    puts it into the README

A room is a folder of ``microagg_core``, or a module at its root; the flows are one room above them all. Every import
counts: at the top of a module, inside a function, for types only, and a module's name handed to something that
imports it.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
CORE, FLOWS = "microagg_core", "microagg_flows"
#: Where each package's sources are.
FOLDERS = {CORE: ROOT / CORE, FLOWS: ROOT / "flows" / FLOWS}
#: The picture: what stands between these two lines of the README.
BEGIN, END = "```mermaid\n", "```\n"
#: Every room may import these, and the picture leaves them out.
FOR_EVERYBODY = frozenset({"errors", "plain", "arrays", "extras"})
_MODULE_NAME = re.compile(rf"(?:{CORE}|{FLOWS})(?:\.\w+)+")

#: Who imports whom, with one place in the sources that shows it for each arrow.
Graph = Mapping[str, Mapping[str, str]]


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def modules() -> dict[str, Path]:
    """Every module of both packages by its dotted name; a package has its folder's name."""
    paths = {}
    for package, folder in FOLDERS.items():
        for path in sorted(folder.rglob("*.py")):
            parts = (package, *path.relative_to(folder).with_suffix("").parts)
            paths[".".join(parts).removesuffix(".__init__")] = path
    return paths


def imported(tree: ast.AST, known: Mapping[str, Path]) -> Iterator[tuple[int, str]]:
    """The line and the name of every module of ours that a source imports."""
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            below = [f"{node.module}.{alias.name}" for alias in node.names]
            names = [name if name in known else node.module for name in below]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and _MODULE_NAME.fullmatch(node.value):
            # A folder is named where a registry looks for its members, none of which it knows.
            names = [name for name in (node.value,) if name in known and known[name].name != "__init__.py"]
        yield from ((node.lineno, name) for name in names if name in known)


def core_room(module: str) -> str:
    """The room of a module; the library's public face and the module behind it are one."""
    package, *rest = module.split(".")
    if package == FLOWS:
        return "flows"
    return rest[0] if rest else "api"


def flows_room(module: str) -> str:
    """A folder of the flows, or a module at their root; nothing for the core."""
    package, *rest = module.split(".")
    return ".".join(rest[:1]) if package == FLOWS else ""


def graph_of(room_of: Callable[[str], str]) -> Graph:
    """Which room imports which; rooms without a name are left out."""
    paths = modules()
    arrows: dict[str, dict[str, str]] = {room: {} for room in sorted(set(map(room_of, paths))) if room}
    for module, path in paths.items():
        for line, target in imported(parsed(path), paths):
            room, other = room_of(module), room_of(target)
            if room and other and room != other:
                arrows[room].setdefault(other, f"{path.relative_to(ROOT)}:{line}")
    return arrows


def core_graph() -> Graph:
    return graph_of(core_room)


def flows_graph() -> Graph:
    return graph_of(flows_room)


def cycle(graph: Graph) -> list[str]:
    """Rooms that import each other in a circle, each with the line that does so; empty where there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        # The sorter lists a room before the room that imports it.
        circle = list(reversed(error.args[1]))
        return [f"{room} -> {other} ({graph[room][other]})" for room, other in pairwise(circle)]
    return []


def below(graph: Graph) -> dict[str, set[str]]:
    """For each room of a graph without circles, all that it stands on, directly or not."""
    reached: dict[str, set[str]] = defaultdict(set)
    for room in TopologicalSorter(graph).static_order():
        reached[room] = set(graph[room]).union(*(reached[other] for other in graph[room]))
    return reached


def picture(graph: Graph) -> str:
    """The graph in Mermaid's words, the highest rooms first; an arrow that others imply is left out."""
    reached, height = below(graph), dict[str, int]()
    for room in TopologicalSorter(graph).static_order():
        height[room] = max((1 + height[other] for other in graph[room]), default=0)
    lines = ["flowchart TD"]
    for room in sorted(graph, key=lambda room: (-height[room], room)):
        direct = set(graph[room]) - FOR_EVERYBODY
        needed = direct - set().union(*(reached[other] for other in direct))
        if needed:
            lines.append(f"    {room} --> {' & '.join(sorted(needed))}")
    return "\n".join(lines) + "\n"


def drawn(readme: str) -> str:
    return readme.partition(BEGIN)[2].partition(END)[0]


def main() -> int:
    """Print the picture, or write it; 1 where there is none to draw."""
    parser = argparse.ArgumentParser(description="The rooms of microagg, and which imports which.")
    parser.add_argument("--write", action="store_true", help="put the picture into README.md")
    arguments = parser.parse_args()
    graph = core_graph()
    for circle in filter(None, map(cycle, (graph, flows_graph()))):
        print("a circle of rooms:\n    " + "\n    ".join(circle), file=sys.stderr)
        return 1
    if arguments.write:
        text = README.read_text(encoding="utf-8")
        README.write_text(text.replace(drawn(text), picture(graph)), encoding="utf-8")
    else:
        print(picture(graph), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
