"""YAML as a tree that remembers the line of everything in it.

Plain YAML 1.2: dates stay the text that was written, ``no`` and ``on`` are words, ``010`` is not eight, no tags and no
key twice. A message never quotes the text of the file: what YAML stumbles over may be a password. By hand, as PyYAML's
loader drops the lines that its nodes know; ruamel.yaml, which keeps them, quotes the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

from microagg_core.model import Loc, dotted

#: A line, and what is wrong there.
Found = tuple[int, str]
_MOST_NODES = 100_000
_DEEPEST = 50
_TOO_DEEP = f"is nested too deeply: a spec has at most {_DEEPEST} levels"
_TAG = "tag:yaml.org,2002:"
#: Of each kind of plain scalar its form, the characters it starts with, and the value of a text.
_SCALARS: dict[str, tuple[str, str, Callable[[str], Any]]] = {
    "null": (r"~|null|Null|NULL|", "~nN", lambda _: None),
    "bool": (r"true|True|TRUE|false|False|FALSE", "tTfF", lambda text: text.lower() == "true"),
    # Digits may be grouped as in 1_000_000; a number that starts with 0 is a code and stays text.
    "int": (r"[-+]?(0|[1-9][0-9]{0,39}|[1-9][0-9]{0,2}(_[0-9]{3}){1,12})", "-+0123456789", int),
    "float": (
        r"[-+]?((0|[1-9][0-9]{0,39})(\.[0-9]{0,99})?|\.[0-9]{1,99})([eE][-+]?[0-9]{1,4})?|[-+]?\.inf|\.nan",
        "-+.0123456789",
        lambda text: float(text.replace(".inf", "inf").replace(".nan", "nan")),
    ),
    "merge": (r"<<", "<", str),
}


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012


for _kind, (_pattern, _starts, _) in _SCALARS.items():
    _whole = re.compile(rf"(?:{_pattern})\Z")
    _Loader.add_implicit_resolver(_TAG + _kind, _whole, list(_starts) + ([""] if _kind == "null" else []))


@dataclass(frozen=True)
class Place:
    """A value of the file, the line it starts on, and, for a plain scalar, the text as written."""

    value: Any
    line: int
    text: str | None = None
    children: dict[str | int, Place] = field(default_factory=dict)

    def plain(self) -> Any:
        if isinstance(self.value, dict):
            return {key: child.plain() for key, child in self.children.items()}
        if isinstance(self.value, list):
            return [child.plain() for child in self.children.values()]
        return self.value

    def as_text(self) -> Any:
        """The same with all scalars as they are written; nothing at all is text only as an item of a list."""
        if isinstance(self.value, dict):
            return {key: child.as_text() for key, child in self.children.items()}
        if isinstance(self.value, list):
            return [child.text or "" if child.value is None else child.as_text() for child in self.children.values()]
        return self.value if self.value is None or self.text is None else self.text


def parse(text: str) -> tuple[Place | None, list[Found]]:
    """Make a tree of a YAML text, and list what is wrong with the text; the tree of nothing is None.

    A text that is not YAML has no tree. A key that stands twice, a tag, or an anchor that leads to itself is
    reported, and the rest of the tree is there to be checked.

    >>> tree, wrong = parse("id: 2026-11-18\\nroles:\\n  drop: [on]\\n")
    >>> tree.plain(), tree.children["roles"].children["drop"].line, wrong
    ({'id': '2026-11-18', 'roles': {'drop': ['on']}}, 3, [])
    """
    try:
        node = yaml.compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        return None, [_syntax(error)]
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        return None, [(line, "a control character stands here, which YAML does not allow")]
    except RecursionError:
        return None, [(1, _TOO_DEEP)]
    if node is None:
        return None, []
    builder = _Builder()
    try:
        tree = builder.place(node, node.start_mark.line + 1)
    except _TooMuchError as error:
        return None, [(1, str(error))]
    return tree, sorted(set(builder.problems))


class _TooMuchError(Exception):
    """More than any spec holds: brackets in brackets, or aliases of aliases."""


class _Builder:
    def __init__(self) -> None:
        self.problems: list[Found] = []
        self._open: set[int] = set()
        self._nodes = 0

    def place(self, node: yaml.Node, line: int, loc: Loc = ()) -> Place:
        self._nodes += 1
        if id(node) in self._open:
            return self._refused(line, "an anchor leads back to itself")
        if self._nodes > _MOST_NODES:
            raise _TooMuchError(f"is too large: a spec has at most {_MOST_NODES:,} values")
        if len(loc) > _DEEPEST:
            raise _TooMuchError(_TOO_DEEP)
        self._open.add(id(node))
        try:
            return self._by_kind(node, line, loc)
        finally:
            self._open.remove(id(node))

    def _by_kind(self, node: yaml.Node, line: int, loc: Loc) -> Place:
        kind = node.tag.removeprefix(_TAG)
        if isinstance(node, yaml.MappingNode) and kind == "map":
            return Place({}, line, None, self._children(node, loc))
        if isinstance(node, yaml.SequenceNode) and kind == "seq":
            items = enumerate(node.value)
            return Place(
                [], line, None, {n: self.place(item, item.start_mark.line + 1, (*loc, n)) for n, item in items}
            )
        if isinstance(node, yaml.ScalarNode) and (kind == "str" or kind in _SCALARS):
            return self._scalar(node, kind, line)
        return self._refused(line, "a tag stands here; a text that starts with ! needs quotes")

    def _refused(self, line: int, reason: str) -> Place:
        self.problems.append((line, reason))
        return Place(None, line)

    def _scalar(self, node: yaml.ScalarNode, kind: str, line: int) -> Place:
        written: str = node.value
        if kind == "str" or kind == "merge":
            return Place(written, line)
        pattern, _, value = _SCALARS[kind]
        if not re.fullmatch(pattern, written):
            return self._refused(line, "a tag stands here that does not fit its value; leave the tag out")
        return Place(value(written), line, written)

    def _children(self, node: yaml.MappingNode, loc: Loc) -> dict[str | int, Place]:
        own: dict[str | int, Place] = {}
        merged: dict[str | int, Place] = {}
        for key, value in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode):
                self.problems.append((line, "a key must be text"))
            elif key.tag == _TAG + "merge":
                for name, child in self._merged(value, line, loc):
                    merged.setdefault(name, child)
            elif key.value in own:
                path, first = dotted((*loc, key.value)), own[key.value].line
                self.problems.append((line, f"{path}: stands here and on line {first}; a key may stand once"))
            else:
                own[key.value] = self.place(value, line, (*loc, key.value))
        return {**merged, **own}

    def _merged(self, value: yaml.Node, line: int, loc: Loc) -> Iterator[tuple[str | int, Place]]:
        """Yield what ``<<`` brings in: the keys of one mapping, or of several of which the first wins."""
        sources = value.value if isinstance(value, yaml.SequenceNode) else [value]
        for source in sources:
            if not isinstance(source, yaml.MappingNode):
                self.problems.append((line, "<< must name a mapping, or a list of mappings"))
            else:
                yield from self.place(source, line, loc).children.items()


def _syntax(error: yaml.MarkedYAMLError) -> Found:
    """Say a syntax error in words that do not quote the file."""
    problem, context = error.problem or "", error.context or ""
    mark, start = error.problem_mark, error.context_mark
    line = (mark.line if mark else 0) + 1
    opened = (start.line if start else line - 1) + 1
    if "quoted scalar" in context and "end of stream" in problem:
        return opened, "the quote that opens here is never closed"
    for words in ("flow sequence", "flow mapping"):
        if words in context and "expected ','" in problem:
            bracket = "[" if words == "flow sequence" else "{"
            return line, f"the {bracket} on line {opened} is not closed, or a comma is missing"
    if single := re.fullmatch(r"found character '(.|\\t)' that cannot start any token", problem):
        if single[1] == "\\t":
            return line, "a tab stands where YAML wants spaces"
        return line, f"a text that starts with {single[1]} needs quotes"
    if "simple key" in context:
        line = opened
    said = f"{context}; {problem}"
    return line, next((ours for theirs, ours in _PLAIN_WORDS if theirs in said), "cannot be read as YAML")


#: What PyYAML says, and what it means to the person who wrote the file.
_PLAIN_WORDS = (
    ("mapping values are not allowed", "a ':' stands where no key can be; check the indentation, or use quotes"),
    ("could not find expected ':'", "a ':' is missing after a key, or the indentation is wrong"),
    ("expected <block end>", "the indentation does not fit the lines above"),
    ("sequence entries are not allowed", "a '-' stands where no list can be; check the indentation"),
    ("found undefined alias", "a text that starts with * needs quotes; as an alias, it has no anchor"),
    ("found duplicate anchor", "an anchor is defined twice"),
    ("unknown escape character", "a backslash in double quotes is doubled, or the text stands in single quotes"),
    ("escape sequence", "a backslash in double quotes is doubled, or the text stands in single quotes"),
    ("but found another document", "a second document starts here; a spec is one"),
    ("tag", "a tag stands here; a text that starts with ! needs quotes"),
    ("alphabetic or numeric character", "a text that starts with * or & needs quotes"),
    ("unexpected end of stream", "the file ends in the middle of a value"),
)
