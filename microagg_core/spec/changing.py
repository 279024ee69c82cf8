"""Fields of a spec that a command sets for once, such as ``output.url=s3://dev/people``, beside what the file says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from microagg_core.errors import SpecError
from microagg_core.spec.marked_yaml import Found, Place, parse

#: The line of what no file has.
COMMAND_LINE = 0
#: Keys that a mapping has where the file has its shorthand: what is set beside them leaves them as they are.
_SHORTHANDS = {("algorithm",): "name", ("series", "ledger"): "url"}


def with_settings(tree: Place, settings: Sequence[str]) -> tuple[Place, list[Found]]:
    """The tree of a spec with what is set, and what is no YAML of it.

    Raises:
        SpecError: a setting is not written as PATH=VALUE.

    >>> tree, _ = parse("k: 3\\noutput: {url: here}\\n")
    >>> with_settings(tree, ["output.url=s3://dev/x", "k=7"])[0].plain()
    {'k': 7, 'output': {'url': 's3://dev/x'}}
    """
    wrong: list[Found] = []
    for setting in settings:
        path, is_set, text = setting.partition("=")
        keys = tuple(key.strip() for key in path.split("."))
        if not is_set or not all(keys):
            raise SpecError("--set: write PATH=VALUE, such as --set output.url=s3://dev/people or --set k=7")
        value, unreadable = parse(text)
        wrong += [(COMMAND_LINE, f"{path.strip()}: {reason}") for _, reason in unreadable]
        tree = _changed(tree, keys, _unlined(value or Place(None, COMMAND_LINE, "")))
    return tree, wrong


def _changed(place: Place, keys: tuple[str, ...], value: Place, above: tuple[str, ...] = ()) -> Place:
    """A place with a value further in; what stands in the way of it is replaced."""
    if not keys:
        return value
    if not isinstance(place.value, dict):
        place = _written_out(place, above)
    inner = place.children.get(keys[0], Place({}, COMMAND_LINE))
    changed = _changed(inner, keys[1:], value, (*above, keys[0]))
    return replace(place, children={**place.children, keys[0]: changed})


def _written_out(place: Place, at: tuple[str, ...]) -> Place:
    """The mapping that a shorthand stands for; of any other value an empty one."""
    name = _SHORTHANDS.get(at)
    return Place({}, COMMAND_LINE, None, {name: place} if name and isinstance(place.value, str) else {})


def _unlined(place: Place) -> Place:
    children = {key: _unlined(child) for key, child in place.children.items()}
    return replace(place, line=COMMAND_LINE, children=children)
