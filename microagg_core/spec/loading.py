"""Load ``release.yaml`` as a spec, with every error of the file at once and its line."""

from __future__ import annotations

import json
import typing
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from microagg_core.errors import SpecError
from microagg_core.model import Loc, Model
from microagg_core.spec.marked_yaml import Found, Place, parse
from microagg_core.spec.problems import follow, in_words, problem
from microagg_core.spec.release import ReleaseSpec, Roles
from microagg_core.store.failures import explaining
from microagg_core.store.objects import Store
from microagg_core.store.urls import basename, is_local, local_path, resolve, shown

#: The line of what no file has.
COMMAND_LINE = 0
#: Keys that a mapping has where the file has its shorthand: what is set beside them leaves them as they are.
_SHORTHANDS = {("algorithm",): "name", ("series", "ledger"): "url"}


def with_settings(tree: Place, settings: Sequence[str]) -> tuple[Place, list[Found]]:
    """Put what is set into the tree of a spec, and list what is no YAML of it.

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
    """Put a value further in; what stands in the way of it is replaced."""
    if not keys:
        return value
    if not isinstance(place.value, dict):
        # The mapping that a shorthand stands for; of any other value an empty one.
        name = _SHORTHANDS.get(above)
        place = Place({}, COMMAND_LINE, None, {name: place} if name and isinstance(place.value, str) else {})
    inner = place.children.get(keys[0], Place({}, COMMAND_LINE))
    changed = _changed(inner, keys[1:], value, (*above, keys[0]))
    return replace(place, children={**place.children, keys[0]: changed})


def _unlined(place: Place) -> Place:
    children = {key: _unlined(child) for key, child in place.children.items()}
    return replace(place, line=COMMAND_LINE, children=children)


_MOST_BYTES = 2_000_000
#: Fields whose relative paths start at the spec's folder.
_PATHS = (
    ("input", "url"), ("output", "url"), ("work", "url"), ("output", "sign", "key_file"), ("series", "ledger", "url"),
    ("series", "key_file"),
)  # fmt: skip
_STARTER = "microagg init DATA writes one to start from"


def load_spec(path_or_url: str, settings: Sequence[str] = ()) -> ReleaseSpec:
    """Read a release spec from a YAML file, whose relative paths then start at the file's own folder.

    ``settings`` are fields that are set for once, each as ``path=value``, such as ``output.url=s3://dev/people``.

    Raises:
        SpecError: the file is not there, is not YAML, or is no spec; one line for each thing that is wrong,
            such as ``release.yaml:4: k: must be at least 2 (got 1)``.
        StorageError: the spec lies in a remote store that does not hand it out.
    """
    name = shown(path_or_url)
    tree, wrong = parse(_text(path_or_url))
    if tree is None and not wrong:
        raise SpecError(f"{name}: is empty; {_STARTER}")
    if tree is not None:
        if not isinstance(tree.value, dict):
            raise SpecError(f"{name}: must be a mapping of keys to values; {_STARTER}")
        tree, unreadable = with_settings(tree, settings)
        wrong += unreadable
        checked = check(tree, _folder(path_or_url))
        if isinstance(checked, ReleaseSpec) and not wrong:
            return checked
        if not isinstance(checked, ReleaseSpec):
            # What YAML refused was read as nothing: what the spec says of it is no news.
            wrong_lines = {line for line, _ in wrong}
            wrong += [one for one in checked if one[0] not in wrong_lines]
    lines = _in_order(wrong)
    raise SpecError(
        "\n".join(f"--set {why}" if line == COMMAND_LINE else f"{name}:{line}: {why}" for line, why in lines)
    )


def canonical(spec: ReleaseSpec) -> str:
    """What decides a release's content, as text for digests: the spec without ``cluster``, ``schedule``, ``risk``,
    ``analyses`` and ``id``.

    Where the key of a series lies decides nothing, nor does who signs, nor how long the audit stays; and a spec without
    series, protection or ``about`` is what it was before there were any. What is said about a release is published, so
    other words are another release, of the same data.
    """
    parts = spec.model_dump(
        mode="json",
        exclude={
            **dict.fromkeys(("cluster", "schedule", "id", "risk", "analyses"), True),
            "series": {"key_file"},
            "output": {"sign"},
            "work": {"keep": {"audit_days"}},
        },
    )
    for name in ("edits", "known"):
        if not parts[name]:
            del parts[name]
    if spec.series is None:
        del parts["series"]
    if spec.protect is None:
        del parts["protect"]
    if spec.about is None:
        del parts["about"]
    return json.dumps(parts, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def check(tree: Place, folder: str) -> ReleaseSpec | list[Found]:
    """Make the spec that a YAML tree holds, or list every (line, sentence) that is wrong with it.

    >>> tree, _ = parse("name: people\\nk: 3\\nkk: 5\\n")
    >>> check(tree, ".")[-1]
    (3, 'kk: is not a key the spec knows; did you mean k?')
    """
    raw = tree.plain()
    while True:
        _resolve_urls(raw, folder)
        try:
            return ReleaseSpec.model_validate(raw)
        except ValidationError as error:
            errors = error.errors(include_url=False, include_input=False)
        if not _take_as_written(raw, tree, errors):
            break
    problems = [line for error in errors for line in in_words(error, tree)]
    problems += _hidden_problems(raw, tree, errors)
    return _in_order(problems)


def _in_order(problems: list[Found]) -> list[Found]:
    """Sort by line, each once, and on one line in the order in which they were found."""
    return sorted(dict.fromkeys(problems), key=lambda line_and_reason: line_and_reason[0])


def _text(path_or_url: str) -> str:
    name = shown(path_or_url)
    data = _bytes(path_or_url, name)
    if len(data) > _MOST_BYTES:
        raise SpecError(f"{name}: is too large for a release spec; name the YAML file, not the data")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise SpecError(f"{name}:{line}: a byte stands here that is not UTF-8 text; save the file as UTF-8") from None


def _bytes(path_or_url: str, name: str) -> bytes:
    if "::" in path_or_url:
        raise SpecError(f"{name}: a spec is a file or an object of its own, not part of another; copy it out")
    if not is_local(path_or_url):
        parent, last = _folder(path_or_url), basename(path_or_url)
        with Store(parent, follow_links=True).open(last) as file, explaining(path_or_url, "reading"):
            return file.read(_MOST_BYTES + 1)
    try:
        with Path(local_path(path_or_url)).open("rb") as file:
            return file.read(_MOST_BYTES + 1)
    except IsADirectoryError:
        inside = f"{name.rstrip('/')}/release.yaml"
        raise SpecError(f"{name}: is a folder; name the spec file in it, such as {inside}") from None
    except FileNotFoundError:
        raise SpecError(f"{name}: there is no such file; {_STARTER}") from None
    except OSError as error:
        raise SpecError(f"{name}: cannot be read ({error.strerror}); check its permissions") from None


def _folder(path_or_url: str) -> str:
    if is_local(path_or_url):
        return str(Path(local_path(path_or_url)).parent)
    return path_or_url.rpartition("/")[0]


def _resolve_urls(raw: dict[str, Any], folder: str) -> None:
    series = raw.get("series")
    if isinstance(series, dict) and isinstance(ledger := series.get("ledger"), str) and ledger:
        series["ledger"] = {"url": ledger}
    for *above, name in _PATHS:
        holder: Any = raw
        for key in above:
            holder = holder.get(key) if isinstance(holder, dict) else None
        if isinstance(holder, dict) and isinstance(path := holder.get(name), str) and path:
            holder[name] = resolve(path, folder)


def _take_as_written(raw: dict[str, Any], tree: Place, errors: list[ErrorDetails]) -> bool:
    """Take what was written, where text is wanted and a number or word such as true stands.

    A column may be called 2020, an id 20261118, and -999 may stand for a missing value. Nothing at all
    (``null``) is text only as an item of a list.
    """
    taken = False
    for error in errors:
        if error["type"] != "string_type":
            continue
        place, way = follow(tree, error["loc"])
        in_list = bool(way) and isinstance(way[-1], int)
        if place.text and (place.value is not None or in_list):
            target: Any = raw
            for part in way[:-1]:
                target = target[part]
            target[way[-1]] = place.text
            taken = True
    return taken


def _hidden_problems(raw: dict[str, Any], tree: Place, errors: list[ErrorDetails]) -> list[Found]:
    """Find problems between the fields that are right in themselves.

    pydantic looks across fields only when every field is right; one error would hide the others until the
    next try.
    """
    problems = [
        problem(tree, loc, why) for loc, why in ReleaseSpec.cross_check(_right_parts(ReleaseSpec, raw, errors, ()))
    ]
    within_roles = [error for error in errors if error["loc"][:1] == ("roles",)]
    roles = raw.get("roles")
    if isinstance(roles, dict) and within_roles and all(len(error["loc"]) > 1 for error in within_roles):
        parts = _right_parts(Roles, roles, errors, ("roles",))
        problems += [problem(tree, ("roles", *loc), why) for loc, why in Roles.cross_check(parts)]
    return problems


def _right_parts(model: type[Model], raw: dict[str, Any], errors: list[ErrorDetails], at: Loc) -> dict[str, Any]:
    depth = len(at)
    locs = [error["loc"] for error in errors]
    if () in locs:
        return {}
    wrong = {loc[depth] for loc in locs if loc[:depth] == at and len(loc) > depth}
    kinds = typing.get_type_hints(model, include_extras=True)
    parts: dict[str, Any] = {}
    for name, field in model.model_fields.items():
        if name in raw and name not in wrong:
            parts[name] = TypeAdapter(kinds[name]).validate_python(raw[name])
        elif name not in raw and not field.is_required():
            parts[name] = field.get_default()
    return parts
