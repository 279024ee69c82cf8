"""What pydantic finds wrong with a spec, as lines that a person can act on: line, field, reason.

The value that was given is quoted, so that it can be found, but never one that may be a secret.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Any, get_args

from pydantic_core import ErrorDetails

from microagg_core.data.places import SECRET_REASON, looks_secret
from microagg_core.model import Loc, Model, PartError, dotted
from microagg_core.spec import about
from microagg_core.spec.clusters import (
    ADDRESS_PATTERN,
    HOST_PATTERN,
    KINDS,
    PATH_PATTERN,
    WALLTIME_PATTERN,
    WORD_PATTERN,
    LocalCluster,
)
from microagg_core.spec.marked_yaml import Found, Place
from microagg_core.spec.release import NAME_PATTERN, VARIABLE_PATTERN, ReleaseSpec
from microagg_core.store.urls import holds_credentials

_LONGEST_VALUE = 60
#: What the patterns mean, for the people whose text does not match.
PATTERNS = {
    NAME_PATTERN: "must be at most 64 letters, digits, '.', '_' and '-', and start with a letter or digit",
    VARIABLE_PATTERN: "must be the name of a variable of the environment, such as SIGNING_PASSWORD",
    WORD_PATTERN: "must be one word of letters, digits and any of . _ : , @ + / = -",
    PATH_PATTERN: "must be a path of letters, digits and any of . _ ~ / + @ = -",
    HOST_PATTERN: "must be a machine as [user@]name[:port]",
    WALLTIME_PATTERN: "must be a time such as 01:00:00, or 2-00:00:00 for two days",
    about.LICENCE_PATTERN: "must be a name of the SPDX list, such as CC-BY-4.0, or the URL of the licence",
    about.ADDRESS_PATTERN: "must be a URL, such as https://data.example.org/people",
    ADDRESS_PATTERN: "must be the address of a scheduler, such as tls://scheduler:8786, or 'local' or 'none'",
}
#: pydantic's kinds of errors, in our words; {names} are filled from the error's context.
_REASONS = {
    "int_type": "must be a whole number",
    "float_type": "must be a number",
    "finite_number": "must be a finite number",
    "string_type": "must be text",
    "tuple_type": "must be a list, such as [a, b]",
    "dict_type": "must be a mapping of names to values",
    "greater_than_equal": "must be at least {ge}",
    "greater_than": "must be greater than {gt}",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
    "string_too_short": "must not be empty",
    "string_too_long": "must have at most {max_length} character(s)",
    "too_short": "must name at least one column",
    "too_long": "must have at most {max_length} entries",
}


def in_words(error: ErrorDetails, tree: Place) -> list[Found]:
    """Put one of pydantic's errors into lines and sentences; a check across fields may have found several.

    >>> from microagg_core.spec.loading import check
    >>> from microagg_core.spec.marked_yaml import parse
    >>> [found for found in check(parse("\\nk: 1")[0], ".") if found[1].startswith("k:")]
    [(2, 'k: must be at least 2 (got 1)')]
    """
    cause = error.get("ctx", {}).get("error")
    if isinstance(cause, PartError):
        return [problem(tree, (*error["loc"], *loc), why) for loc, why in cause.problems]
    if error["type"] == "missing":
        return [_missing(error["loc"], tree)]
    return [problem(tree, error["loc"], _reason(error, tree))]


def problem(tree: Place, loc: Loc, reason: str) -> Found:
    place, written = follow(tree, loc)
    path = dotted(written)
    return place.line, f"{path}: {reason}" if path else reason


def follow(tree: Place, loc: Loc) -> tuple[Place, Loc]:
    """Find the place that an error speaks of, and the way there as the file has it.

    What the file leaves out is stepped over: the names of a union's members, and levels that a shorthand
    such as ``algorithm: mdav`` or ``unit: person`` does without.
    """
    place = tree
    written: Loc = ()
    for part in loc:
        if part in place.children:
            place = place.children[part]
            written = (*written, part)
    return place, written


def _missing(loc: Loc, tree: Place) -> Found:
    place, written = follow(tree, loc[:-1])
    model = _model_at(loc[:-1])
    what = model.model_fields[str(loc[-1])].description
    return place.line, f"{dotted((*written, loc[-1]))}: is missing: {what}"


def _reason(error: ErrorDetails, tree: Place) -> str:
    kind, context, loc = error["type"], error.get("ctx", {}), error["loc"]
    if kind == "extra_forbidden":
        return _unknown_key(loc)
    if kind == "value_error":
        reason = str(context["error"])
        return reason if "(got " in reason or "[key]" in loc else reason + _got(tree, loc)
    if kind == "literal_error":
        one_of = str(context["expected"]).replace("'", "")
        reason = f"must be one of {one_of}" if " or " in one_of else f"must be {one_of}"
    elif kind == "string_pattern_mismatch":
        reason = PATTERNS[context["pattern"]]
    elif kind in ("model_type", "model_attributes_type"):
        reason = f"must be a mapping with the keys {', '.join(_model_at(loc).model_fields)}"
    elif kind in _REASONS:
        reason = _REASONS[kind].format(**context)
    else:
        return "is not what the spec wants here"
    if loc[-1] == "[key]":
        return f"its name {reason}"
    return reason + _got(tree, loc)


def _got(tree: Place, loc: Loc) -> str:
    """Quote the value in brackets, unless it may be a secret."""
    place, _ = follow(tree, loc)
    value = place.value
    hidden = "storage_options" in loc or "environment" in loc or any(looks_secret(part) for part in loc)
    if hidden or (isinstance(value, str) and holds_credentials(value)):
        return ""
    return f" (got {_shown(place)})"


def _shown(place: Place) -> str:
    if place.value is None:
        return "nothing"
    if isinstance(place.value, str):
        text = place.value
        return repr(text if len(text) <= _LONGEST_VALUE else text[:_LONGEST_VALUE] + "...")
    if isinstance(place.value, list | dict):
        return "a list" if isinstance(place.value, list) else "a mapping"
    return str(place.text)


def _model_at(loc: Loc) -> type[Model]:
    model: type[Model] = ReleaseSpec
    for before, part in zip((None, *loc), loc, strict=False):
        if before == "cluster":
            model = KINDS[str(part)].model if part in KINDS else LocalCluster
        elif part in model.model_fields:
            model = _inner(model, str(part)) or model
    return model


def _inner(model: type[Model], name: str) -> type[Model] | None:
    return next(_models_in(model.model_fields[name].annotation), None)


def _models_in(annotation: Any) -> Iterator[type[Model]]:
    if isinstance(annotation, type) and issubclass(annotation, Model):
        yield annotation
    for part in get_args(annotation):
        yield from _models_in(part)


def _unknown_key(loc: Loc) -> str:
    """Say why a key is refused, and which one was meant."""
    key, model = str(loc[-1]), _model_at(loc[:-1])
    if looks_secret(key):
        return SECRET_REASON
    if homes := _homes(model).get(key):
        return f"is not a key the spec knows here; it belongs under {_any_of(homes)}"
    keys = list(model.model_fields)
    if model in (kinds := [kind.model for kind in KINDS.values()]):
        keys = list(dict.fromkeys(["local", *(name for kind in kinds for name in kind.model_fields)]))
    if near := difflib.get_close_matches(key, keys, 1):
        return f"is not a key the spec knows; did you mean {near[0]}?"
    return f"is not a key the spec knows; here it knows {', '.join(keys)}"


def _homes(model: type[Model]) -> Mapping[str, list[str]]:
    """Tell under which part each key one level further in belongs."""
    homes: dict[str, list[str]] = {}
    for name in model.model_fields:
        part: Any = LocalCluster if name == "cluster" else _inner(model, name)
        for key in part.model_fields if part else ():
            homes.setdefault(key, []).append(name)
    return homes


def _any_of(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"
