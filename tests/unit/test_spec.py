"""The models of a release spec: what they accept, what they refuse, and what stands in their JSON schema."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest
from pydantic import ValidationError

from covering import each
from microagg_core.data.kinds.metric import Metric
from microagg_core.group.algorithms import algorithms
from microagg_core.spec.clusters import (
    Adapt,
    LocalCluster,
    NoCluster,
    RunningCluster,
    Slurm,
    SlurmCluster,
    Ssh,
    SshCluster,
    parse_bytes,
)
from microagg_core.spec.json_schema import spec_schema
from microagg_core.spec.loading import canonical
from microagg_core.spec.problems import PATTERNS
from microagg_core.spec.quasi_identifiers import TOP_PATTERN
from microagg_core.spec.release import ReleaseSpec
from microagg_core.spec.series import UNTIL_PATTERN

SMALLEST: dict[str, Any] = {
    "name": "people",
    "k": 3,
    "input": {"url": "/data/in.parquet"},
    "output": {"url": "/data/out"},
    "work": {"url": "/data/work"},
    "roles": {
        "identifiers": ["person"],
        "quasi_identifiers": ["age", "height"],
        "blocking": ["region"],
        "confidential": ["income"],
    },
}


def spec_with(**parts: Any) -> ReleaseSpec:
    return ReleaseSpec(**{**SMALLEST, **parts})


def complaint_about(**parts: Any) -> str:
    with pytest.raises(ValidationError) as caught:
        spec_with(**parts)
    return str(caught.value)


def test_the_smallest_spec_has_every_default() -> None:
    spec = spec_with()
    assert (spec.version, spec.id, spec.seed, spec.unit, spec.missing) == (1, "date", 0, "row", "error")
    assert spec.algorithm.name == "mdav" and spec.blocks.undersized == "merge"
    assert spec.cluster is None and spec.rounding == {}
    assert (spec.refine, spec.effort, spec.reproducible) == ("fast", "fast", True)


def test_a_spec_is_frozen() -> None:
    with pytest.raises(ValidationError):
        spec_with().k = 5


def test_a_spec_survives_its_own_json() -> None:
    spec = spec_with(
        algorithm={"name": "v_mdav", "gamma": 0.5},
        cluster="tls://scheduler:8786",
        unit="person",
        rounding={"age": 0.5, "height": "none"},
    )
    assert ReleaseSpec.model_validate_json(spec.model_dump_json()) == spec
    assert ReleaseSpec.model_validate(spec.model_dump()) == spec


@each(
    "written, meant",
    [
        (None, None),
        ("none", NoCluster()),
        (NoCluster(), NoCluster()),
        ("local", LocalCluster()),
        ({"local": {"workers": 3}}, LocalCluster(workers=3)),
        ({"local": None}, LocalCluster()),
        ("tls://scheduler:8786", RunningCluster(address="tls://scheduler:8786")),
        (RunningCluster(address="tls://a:1"), RunningCluster(address="tls://a:1")),
        ({"local": {"adapt": {"maximum": 3}}}, LocalCluster(adapt=Adapt(minimum=0, maximum=3))),
        ({"ssh": {"hosts": ["a"]}}, SshCluster(ssh=Ssh(hosts=("a",)))),
        ({"slurm": {"walltime": 43_200}}, SlurmCluster(slurm=Slurm(walltime="12:00:00"))),
        ({"slurm": {"environment": {"N": 1}}}, SlurmCluster(slurm=Slurm(environment={"N": "1"}))),
    ],
)
def test_ways_to_write_a_cluster(written: Any, meant: Any) -> None:
    assert spec_with(cluster=written).cluster == meant


@pytest.mark.parametrize(
    ("written", "name", "parameters"),
    [
        ("v_mdav", "v_mdav", {}),
        ({"name": "v_mdav", "gamma": 1.1}, "v_mdav", {"gamma": 1.1}),
        ({"name": "v_mdav", "parameters": {"gamma": 1}}, "v_mdav", {"gamma": 1}),
        ({}, "mdav", {}),
    ],
)
def test_ways_to_write_an_algorithm(written: Any, name: str, parameters: dict[str, float]) -> None:
    algorithm = spec_with(algorithm=written).algorithm
    assert (algorithm.name, algorithm.parameters) == (name, parameters)


def test_one_unit_column_may_stand_alone() -> None:
    assert spec_with(unit="person").unit == ("person",)
    roles = {**SMALLEST["roles"], "identifiers": ["person", "visit"]}
    assert spec_with(roles=roles, unit=["person", "visit"]).unit == ("person", "visit")


@each("value", [True, "5", 5.0, None, [5]])
def test_k_is_a_whole_number_and_nothing_that_passes_for_one(value: Any) -> None:
    assert "k\n" in complaint_about(k=value)


@pytest.mark.parametrize(
    ("parts", "says"),
    [
        ({"work": {"url": "/data/out"}}, "work.url: the private work area lies inside the output"),
        ({"unit": ["person", "region"]}, "'region' must be an identifier"),
        ({"unit": ["person", "person"]}, "'person' is named twice"),
        ({"unit": []}, "unit: must name at least one column"),
        ({"algorithm": {"name": "mdav", "gamma": 1}}, "gamma: is not a parameter of mdav; it takes none"),
        (
            {"algorithm": "individual_ranking"},
            "algorithm: individual_ranking groups each quasi-identifier on its own, so that only a release with one of "
            "them would be k-anonymous (got 2)",
        ),
        ({"algorithm": "univariate"}, "algorithm: univariate takes at most 1 attribute(s) (got 2)"),
        ({"algorithm": "exhaustive", "k": 11}, "algorithm: exhaustive needs a k of at most 10 (got 11)"),
        (
            {"algorithm": "exhaustive", "blocks": {"max_records": 30}},
            "blocks.max_records: exhaustive takes at most 20 records (got 30)",
        ),
        ({"refine": "slow"}, "must be 'off', 'fast', 'thorough' or, with reproducible: f"),
        ({"refine": {"seconds": 0}, "reproducible": False}, "greater than 0"),
        ({"refine": {"steps": 9}}, "steps"),
        ({"reproducible": "no"}, "reproducible"),
        ({"id": "latest.json"}, "must not be latest.json"),
        ({"cluster": {"local": {}, "workers": 2}}, "must be 'none', 'local'"),
        ({"cluster": "tls://user:pw@host:1"}, "must not hold a user or password"),
        ({"cluster": "tcp://scheduler:8786"}, "is beyond this machine and without TLS"),
        ({"cluster": {"slurm": {"environment": {"AWS_SECRET_ACCESS_KEY": "canary"}}}}, "looks like a credential"),
        ({"cluster": {"local": {"environment": {"PLACE": "https://a:canary@b"}}}}, "holds a user or password"),
        ({"cluster": {"local": {"environment": {"PLACE": "a\nb"}}}}, "must be one line of text"),
        ({"cluster": {"ssh": {"hosts": ["a"], "workers": 2, "adapt": {"maximum": 3}}}}, "in the place of workers"),
        ({"cluster": {"slurm": {"adapt": {"minimum": 3, "maximum": 2}}}}, "must not be above the maximum"),
        ({"cluster": {"slurm": {"options": ["night"]}}}, "must be options of sbatch"),
        ({"cluster": {"kubernetes": {"image": "a"}}}, "unencrypted must be true"),
        (
            {"cluster": {"address": "tcp://127.0.0.1:1", "tls": {"ca": "a", "cert": "b", "key": "c"}}},
            "is for an address that starts with tls:// or wss://",
        ),
        ({"roles": {"quasi_identifiers": ["a", "a"]}}, "stands twice in quasi_identifiers"),
        ({"input": {"url": "a.csv", "csv": {"types": {"a": "decimal(39,2)"}}}}, "precision of 1 to 38"),
        ({"input": {"url": "a.csv", "csv": {"delimiter": "\n"}}}, "must be one ASCII character"),
    ],
)
def test_what_is_refused_is_named(parts: dict[str, Any], says: str) -> None:
    assert says in complaint_about(**parts)


def test_what_is_for_one_quasi_identifier_is_taken_with_one() -> None:
    roles = {"quasi_identifiers": ["age"]}
    for name in ("individual_ranking", "univariate"):
        assert spec_with(algorithm=name, roles=roles).algorithm.name == name
    assert spec_with(algorithm="exhaustive", blocks={"max_records": 20}, k=10).blocks.max_records == 20


def test_an_empty_list_of_undecided_columns_is_no_obstacle() -> None:
    assert len(spec_with(roles={"quasi_identifiers": ["age"], "to_decide": []}).roles.quasi_identifiers) == 1


def test_ways_to_write_a_quasi_identifier() -> None:
    ordinal = {"name": "education", "kind": "ordinal", "levels": ["low", "high"], "weight": 2}
    scaled = {"name": "wealth", "scale": "log1p", "top": "99.5%", "zeros": "separate"}
    names = {"quasi_identifiers": ["age", {"name": "height"}, ordinal, scaled, {"name": "debt", "top": 1000}]}
    spec = spec_with(roles={**SMALLEST["roles"], **names})
    assert [(q.name, q.kind, q.weight) for q in spec.roles.quasi_identifiers] == [
        ("age", None, 1.0),
        ("height", None, 1.0),
        ("education", "ordinal", 2.0),
        ("wealth", None, 1.0),
        ("debt", None, 1.0),
    ]
    metrics = [q.metric for q in spec.roles.quasi_identifiers]
    assert metrics == [None, None, None, Metric("log1p", None, 0.995), Metric(None, 1000.0)]
    assert spec.roles.role_of()["education"] == "quasi_identifiers"
    written = spec.model_dump(mode="json")["roles"]["quasi_identifiers"]
    assert written == ["age", "height", ordinal, scaled, {"name": "debt", "top": 1000}]
    assert ReleaseSpec.model_validate_json(spec.model_dump_json()) == spec
    for form in (names, {"quasi_identifiers": written}):
        jsonschema.validate({**SMALLEST, "roles": form}, spec_schema())
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**SMALLEST, "roles": {"quasi_identifiers": [{"kind": "nominal"}]}}, spec_schema())


@each(
    "options",
    [
        {"client_kwargs": {"aws_secret_access_key": "canary"}},
        {"a": [{"password": "canary"}]},
        {"proxy": "https://user:canary@proxy"},
        {"connection_string": "canary"},
        {"sas_token": "canary"},
        {"headers": {"Authorization": "canary"}},
        {"pat": "canary"},
        {"passphrase": 77771},
        {"client_kwargs": {"headers": {"X-Auth": "canary"}}},
        {"s3": [{"nobody_knows": ["canary"]}]},
        {"endpoint_url": {"nobody_knows": b"canary"}},
    ],
)
def test_a_secret_is_refused_and_not_shown(options: dict[str, Any]) -> None:
    complaint = complaint_about(input={"url": "s3://bucket/x", "storage_options": options})
    reasons = ("looks like a credential", "may be a credential", "holds a user or password")
    assert any(reason in complaint for reason in reasons)
    assert "canary" not in complaint and "77771" not in complaint


@each(
    "options",
    [
        {"anon": True, "endpoint_url": "http://127.0.0.1:9000", "profile": "release", "use_ssl": False},
        {"config_kwargs": {"s3": {"addressing_style": "path"}, "proxies": {"https": "http://proxy:3128"}}},
        {"s3_additional_kwargs": {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": "arn:aws:kms:eu:1:key/2"}},
        {"account_name": "people", "default_block_size": 2**20, "request_payer": None},
    ],
)
def test_options_that_are_no_secrets_pass(options: dict[str, Any]) -> None:
    assert spec_with(input={"url": "s3://b/x", "storage_options": options}).input.storage_options == options


def test_sizes() -> None:
    assert [parse_bytes(text) for text in ("1GiB", "1.5gb", "1048576")] == [2**30, 1_500_000_000, 2**20]
    for text in ("", "0", "0.1", "-1GiB", "1.2.3GB", "1 TiBs", "1e9"):
        with pytest.raises(ValueError, match="must be a size such as"):
            parse_bytes(text)


def test_the_canonical_text_leaves_out_cluster_and_id_only() -> None:
    one = canonical(spec_with())
    assert one == canonical(spec_with(id="2026-11-18", cluster={"local": {"workers": 7}}))
    assert one == canonical(
        spec_with(algorithm={"name": "mdav"}, work={"url": "/data/work", "keep": {"failed_days": 7}})
    )
    changes: list[dict[str, Any]] = [{"k": 4}, {"seed": 1}, {"missing": "separate"}, {"rounding": {"age": 2}}]
    assert len({one, *(canonical(spec_with(**change)) for change in changes)}) == 5


SCHEMA_CASES = [
    ({}, True),
    ({"algorithm": "mdav"}, True),
    ({"algorithm": {"name": "v_mdav", "gamma": 0.2}}, True),
    ({"algorithm": {"name": "v_mdav", "parameters": {"gamma": 0.2}}}, True),
    ({"algorithm": {"name": "mdav", "gamma": 0.2}}, False),
    ({"algorithm": {"name": "v_mdav", "gamma": "auto"}}, True),
    ({"algorithm": {"name": "v_mdav", "gamma": -1}}, False),
    ({"algorithm": {"name": "v_mdav", "gamma": "best"}}, False),
    ({"algorithm": "magic"}, False),
    ({"cluster": "local"}, True),
    ({"cluster": {"local": {"workers": 2}}}, True),
    ({"cluster": "tls://scheduler:8786"}, True),
    ({"cluster": {"local": {"worker": 2}}}, False),
    ({"cluster": "scheduler"}, False),
    ({"cluster": {"slurm": {"queue": "night", "walltime": "02:00:00", "adapt": {"minimum": 1, "maximum": 40}}}}, True),
    ({"cluster": {"slurm": {"environment": {"OMP_NUM_THREADS": 1, "A": "b"}}}}, True),
    ({"cluster": {"slurm": {"walltime": "2 hours"}}}, False),
    ({"cluster": {"slurm": {"queue": "a; b"}}}, False),
    ({"cluster": {"slurm": {}, "workers": 2}}, False),
    ({"cluster": {"ssh": {"hosts": []}}}, False),
    ({"cluster": {"ssh": {"hosts": ["-oProxyCommand=x y"]}}}, False),
    ({"cluster": {"kubernetes": {"image": "registry/microagg:1", "unencrypted": True}}}, True),
    ({"cluster": {"kubernetes": {"unencrypted": True}}}, False),
    ({"unit": "person"}, True),
    ({"unit": []}, False),
    ({"rounding": {"age": 5, "height": "none"}}, True),
    ({"rounding": {"age": 0}}, False),
    ({"k": 1}, False),
    ({"kk": 1}, False),
    ({"missing": "drop"}, False),
]


def test_the_json_schema_and_the_models_agree() -> None:
    validator = jsonschema.Draft202012Validator(spec_schema())
    for parts, valid in SCHEMA_CASES:
        assert validator.is_valid({**SMALLEST, **parts}) is valid, parts
        (spec_with if valid else complaint_about)(**parts)


def test_the_json_schema_is_one_and_describes_everything() -> None:
    schema = spec_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    for name, field in schema["properties"].items():
        assert "description" in field or "$ref" in field, name
    for part in schema["$defs"].values():
        assert part["description"] and part["additionalProperties"] is False
    written = str(schema["properties"]["algorithm"])
    for info in algorithms().values():
        assert repr(info.name) in written
        assert all(parameter.description in written for parameter in info.parameters)


def patterns_in(schema: Any) -> set[str]:
    """Every pattern in a JSON schema, however deep."""
    if isinstance(schema, list):
        return set().union(*map(patterns_in, schema))
    if not isinstance(schema, dict):
        return set()
    own = {schema["pattern"]} if isinstance(schema.get("pattern"), str) else set()
    return own.union(*map(patterns_in, schema.values()))


def test_every_pattern_has_words_for_those_who_miss_it() -> None:
    # Those of series.hold and of a quasi-identifier's top have words where they are checked.
    assert patterns_in(ReleaseSpec.model_json_schema()) - {UNTIL_PATTERN, TOP_PATTERN} == set(PATTERNS)
