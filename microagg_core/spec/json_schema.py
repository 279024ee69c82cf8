"""The spec's JSON schema, for editors and for programs that write specs."""

from __future__ import annotations

from typing import Any

from microagg_core.group.algorithms import AlgorithmInfo, Parameter, algorithms
from microagg_core.spec.clusters import ADDRESS_PATTERN, KINDS
from microagg_core.spec.release import ReleaseSpec


def spec_schema() -> dict[str, Any]:
    """JSON schema (draft 2020-12) of a release spec, shorthands included.

    >>> spec_schema()["properties"]["k"]["minimum"]
    2
    """
    schema = ReleaseSpec.model_json_schema()
    fields = schema["properties"]
    fields["algorithm"] = {"description": "the algorithm and its parameters", **_algorithm(), "default": "mdav"}
    fields["unit"] = {
        "description": fields["unit"]["description"],
        "anyOf": [
            {"type": "string", "minLength": 1},
            {"type": "array", "minItems": 1, "items": {"type": "string", "minLength": 1}},
            {"$ref": "#/$defs/SeveralRows"},
        ],
        "default": "row",
    }
    for name in ("id", "row", "per_unit"):
        columns = schema["$defs"]["SeveralRows"]["properties"]
        columns[name] = {"anyOf": [{"type": "string", "minLength": 1}, columns[name]]}
    fields["cluster"] = {"description": fields["cluster"]["description"], **_cluster(), "default": None}
    fields["edits"]["items"] = {"anyOf": [{"type": "string", "minLength": 1}, fields["edits"]["items"]]}
    quasi = schema["$defs"]["Roles"]["properties"]["quasi_identifiers"]
    quasi["items"] = {"anyOf": [{"type": "string", "minLength": 1}, quasi["items"]]}
    ledger = schema["$defs"]["Series"]["properties"]["ledger"]
    ledger["anyOf"] = [{"type": "string", "minLength": 1}, *ledger["anyOf"]]
    fields["protect"] = {"description": fields["protect"]["description"], **_protect(schema["$defs"].pop("Protect"))}
    schema["$defs"].pop("Algorithm")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "microagg release spec"}


def _protect(model: dict[str, Any]) -> dict[str, Any]:
    """Put columns beside the limit of links, which is a number; a mapping under its name is that of a column."""
    column = {"$ref": "#/$defs/ColumnDemand"}
    linkage = model["properties"]["linkage"]
    either = {"description": linkage["description"], "anyOf": [column, *linkage["anyOf"]]}
    mapping = {
        "type": "object",
        "properties": {"linkage": either},
        "additionalProperties": {**column, "minProperties": 1},
    }
    return {"anyOf": [mapping, {"type": "null"}], "default": None}


def _cluster() -> dict[str, Any]:
    local = {"$ref": "#/$defs/LocalCluster"}
    return {
        "anyOf": [
            {"enum": ["none", "local", None]},
            {"type": "string", "pattern": ADDRESS_PATTERN},
            {"type": "object", "properties": {"none": {"enum": [None, {}]}}, "required": ["none"], "maxProperties": 1},
            {
                "type": "object",
                "properties": {"local": {"anyOf": [local, {"type": "null"}]}},
                "required": ["local"],
                "additionalProperties": False,
            },
            *({"$ref": f"#/$defs/{kind.model.__name__}"} for name, kind in KINDS.items() if name != "none"),
        ]
    }


def _algorithm() -> dict[str, Any]:
    registry = algorithms().values()
    names = {"type": "string", "enum": [info.name for info in registry]}
    return {"anyOf": [names, *(form for info in registry for form in _forms(info))]}


def _parameter(parameter: Parameter) -> dict[str, Any]:
    number = {"type": "number", "minimum": parameter.minimum}
    allowed = {"anyOf": [number, {"enum": list(parameter.words)}]} if parameter.words else number
    return {**allowed, "default": parameter.default, "description": parameter.description}


def _forms(info: AlgorithmInfo) -> list[dict[str, Any]]:
    """The two ways to write parameters: beside the name, and under ``parameters``."""
    name = {"const": info.name, "description": info.description}
    parameters = {parameter.name: _parameter(parameter) for parameter in info.parameters}
    inner = {"type": "object", "properties": parameters, "additionalProperties": False}
    common = {"type": "object", "title": info.summary, "additionalProperties": False}
    return [
        {**common, "properties": {"name": name, **parameters}, "required": ["name"]},
        {**common, "properties": {"name": name, "parameters": inner}, "required": ["name", "parameters"]},
    ]
