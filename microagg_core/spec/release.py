"""The release spec: everything that decides a release, as frozen, typed models.

A spec is data, not code: unknown keys are refused, secrets are refused, and every default is written here and
shows in the JSON schema. Reading one from YAML, with line numbers in the errors, is done in
:mod:`microagg_core.spec.loading`.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag, field_validator, model_validator

from microagg_core.data.formats import released_names
from microagg_core.data.formats.options import CsvOutput
from microagg_core.data.places import Input, Lasting, LocalPath
from microagg_core.group.algorithms import algorithms
from microagg_core.model import ColumnName, Columns, Model, Number, OneOf, PartError, Problem, Whole
from microagg_core.spec.about import About, about_problems
from microagg_core.spec.analyses import Analyses, analysis_problems
from microagg_core.spec.clusters import (
    AnyCluster,
)
from microagg_core.spec.edits import Edits, edit_problems
from microagg_core.spec.hierarchies import AnyHierarchy, hierarchy_problems
from microagg_core.spec.protect import Protect, protect_problems
from microagg_core.spec.quasi_identifiers import QuasiIdentifier
from microagg_core.spec.schedule import Schedule
from microagg_core.spec.series import Series
from microagg_core.spec.units import SeveralRows, Unit, unit_problems
from microagg_core.store.urls import is_inside

#: Sets of columns that somebody may know, at most: each takes the gate another count.
MOST_KNOWN = 50
NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"


#: Names of variables of the environment.
VARIABLE_PATTERN = r"^[A-Za-z_][A-Za-z0-9_]*$"


class Sign(Model):
    """By which key releases are signed. The key itself and its password are never in a spec."""

    key_file: LocalPath = Field(
        description="file that holds a secret key of minisign and that its owner alone can read; on the machine that "
        "starts the releases",
    )
    password_variable: str | None = Field(
        default=None,
        pattern=VARIABLE_PATTERN,
        description="variable of the environment that holds the key's password; default: the key has none",
    )


class Output(Lasting):
    """Where releases are published."""

    format: Annotated[str, OneOf(released_names)] = Field(
        default="parquet", description="format of the released files; arrow: Arrow IPC, which is Feather version 2 too"
    )
    csv: CsvOutput = CsvOutput()
    sign: Sign | None = Field(default=None, description="sign each release with this key; default: none is signed")


class Keep(Model):
    """What stays in the private work area, and for how long."""

    failed_days: Number = Field(
        default=7, ge=0, allow_inf_nan=False, description="days that a failed run's staged rows stay (to resume)"
    )
    audit_days: Number | None = Field(
        default=None,
        ge=8,
        allow_inf_nan=False,
        description="days that outcomes of runs, operator pages and the audit of withdrawn releases stay; at least 8, "
        "as a night that failed is tried again for a week; default: they stay",
    )


class Work(Lasting):
    """The private work area: staged rows while a run lasts, and its audit trail, which stays."""

    keep: Keep = Keep()


#: What is acknowledged of identifiers; the rest is of confidential columns.
OF_IDENTIFIERS = ("spelling_of_units", "part_of_unit", "equal_arrivals")


class Acknowledge(Model):
    """What looks unwise and is meant, column by column."""

    nearly_unique: Columns = Field(default=(), description="confidential columns that almost name their record")
    jointly_unique: Columns = Field(
        default=(), description="all confidential columns, where together they almost name their record"
    )
    ties_few_records: Columns = Field(
        default=(), description="confidential columns whose values few records share, such as members of a household"
    )
    spelling_of_units: Columns = Field(
        default=(), description="identifiers, or all columns of the unit, whose spelling tells people or firms apart"
    )
    part_of_unit: Columns = Field(default=(), description="columns of a unit that repeat, and alone name nobody")
    equal_arrivals: Columns = Field(
        default=(), description="all columns of the unit, where arrivals with the values of who left are others"
    )
    free_text: Columns = Field(default=(), description="confidential columns of long texts that differ")
    fixes_quasi_identifier: Columns = Field(
        default=(),
        description="confidential columns from which, together, quasi-identifiers can be computed or nearly so",
    )
    completes_mean: Columns = Field(
        default=(),
        description="confidential columns that tell quasi-identifiers nearly exactly together with the released means",
    )


class TimeBudget(Model):
    """Refinement bounded by the clock, not by steps: another machine gives another release."""

    seconds: Number = Field(gt=0, allow_inf_nan=False, description="seconds for each block")


def _refine_shape(value: Any) -> Any:
    if isinstance(value, TimeBudget | dict) or value in ("off", "fast", "thorough"):
        return value
    raise ValueError("must be 'off', 'fast', 'thorough' or, with reproducible: false, 'seconds:' for each block")


Refine = Annotated[
    Annotated[Literal["off", "fast", "thorough"], Tag("steps")] | Annotated[TimeBudget, Tag("seconds")],
    Discriminator(lambda value: "seconds" if isinstance(value, TimeBudget | dict) else "steps"),
    BeforeValidator(_refine_shape),
]


SPEC_VERSION: Literal[1] = 1


def _names(columns: Iterable[str | QuasiIdentifier] | str | None) -> Iterator[str]:
    columns = (columns,) if isinstance(columns, str) else columns or ()
    return (column if isinstance(column, str) else column.name for column in columns)


class Roles(Model):
    """What each column is. A column of the file that has no role here stops the run."""

    identifiers: Columns = Field(default=(), description="name a person or firm; never released")
    quasi_identifiers: tuple[QuasiIdentifier, ...] = Field(
        min_length=1,
        description="microaggregated together: names, or objects of a name and how the column is to be taken",
    )
    blocking: Columns = Field(default=(), description="kept exactly (or merged), never averaged; from general to fine")
    confidential: Columns = Field(default=(), description="released as they are")
    weight: ColumnName | None = Field(
        default=None,
        description="one column of survey weights: groups get weighted means and their mean weight, which keeps totals",
    )
    drop: Columns = Field(default=(), description="not released and not looked at")

    @model_validator(mode="before")
    @classmethod
    def _decided(cls, value: Any) -> Any:
        """Refuse the list of columns that a starter spec leaves to its user, until it is empty."""
        if not isinstance(value, dict) or "to_decide" not in value:
            return value
        undecided = value["to_decide"]
        if not undecided:
            return {key: columns for key, columns in value.items() if key != "to_decide"}
        names = [str(name) for name in undecided] if isinstance(undecided, list) else [str(undecided)]
        more = f" and {len(names) - 20} more" if len(names) > 20 else ""
        raise PartError(
            [
                (
                    ("to_decide",),
                    f"columns without a role yet: {', '.join(map(repr, names[:20]))}{more}; move each to "
                    "identifiers, quasi_identifiers, blocking, confidential, weight or drop",
                )
            ]
        )

    @classmethod
    def cross_check(cls, parts: Mapping[str, Any]) -> Iterator[Problem]:
        seen: dict[str, str] = {}
        for role in cls.model_fields:
            for position, column in enumerate(_names(parts.get(role))):
                if column in seen:
                    twice = f"twice in {role}" if seen[column] == role else f"in {seen[column]} and in {role}"
                    place = (role,) if role == "weight" else (role, position)
                    yield place, f"column {column!r} stands {twice}; give it one role"
                seen.setdefault(column, role)

    def role_of(self) -> dict[str, str]:
        return {column: role for role in type(self).model_fields for column in _names(getattr(self, role))}

    @property
    def n_averaged(self) -> int:
        """Count the columns that make groups: the quasi-identifiers, and the weight."""
        return len(self.quasi_identifiers) + (self.weight is not None)


class Blocks(Model):
    """How blocks are made of blocking keys."""

    undersized: Literal["merge", "suppress", "error"] = Field(
        default="merge", description="what happens to a blocking key with fewer than k records"
    )
    labels: Literal["list", "parent", "star"] = Field(
        default="list",
        description="what merged blocking values are released as: their list, which tells that each of them has a "
        "record; the values before them and a star; or that for the keys beside them too",
    )
    totals_known: Literal["labels", "file"] = Field(
        default="labels",
        description="which totals others may know, from which withheld records must not be computed: of each "
        "blocking value, or of the whole file alone",
    )
    max_records: Whole | None = Field(
        default=None,
        ge=1,
        description="larger blocks are split along their quasi-identifiers; default: the algorithm's model",
    )

    @classmethod
    def cross_check(cls, parts: Mapping[str, Any]) -> Iterator[Problem]:
        if {"undersized", "labels"} <= parts.keys() and parts["labels"] != "list" and parts["undersized"] != "merge":
            yield ("labels",), f"is for undersized: merge, and with {parts['undersized']} no blocking values are merged"


class Algorithm(Model):
    """An algorithm of the registry with its parameters."""

    name: str = Field(default="mdav", description="name in the registry")
    parameters: dict[str, Any] = Field(default={}, description="parameters by name; the rest have their defaults")

    @model_validator(mode="before")
    @classmethod
    def _flat(cls, value: Any) -> Any:
        """Accept ``algorithm: mdav`` and ``algorithm: {name: v_mdav, gamma: 0.2}``."""
        if isinstance(value, str):
            return {"name": value}
        if isinstance(value, dict) and "parameters" not in value:
            return {
                "name": value.get("name", "mdav"),
                "parameters": {key: setting for key, setting in value.items() if key != "name"},
            }
        return value

    @classmethod
    def cross_check(cls, parts: Mapping[str, Any]) -> Iterator[Problem]:
        if "name" not in parts:
            return
        info = algorithms().get(parts["name"])
        if info is None:
            near = difflib.get_close_matches(str(parts["name"]), algorithms(), 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            yield ("name",), f"must be one of {', '.join(algorithms())} (got {parts['name']!r}){hint}"
            return
        parameters = {parameter.name: parameter for parameter in info.parameters}
        for name, value in parts.get("parameters", {}).items():
            if name not in parameters:
                takes = f"it takes {', '.join(parameters)}" if parameters else "it takes none"
                yield ("parameters", name), f"is not a parameter of {info.name}; {takes}"
            elif problem := parameters[name].problem(value):
                yield ("parameters", name), problem.removeprefix(f"{name}: ")


def _rounding_rule(value: Any) -> Any:
    is_step = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf
    if not is_step and value not in ("type", "none"):
        raise ValueError("must be 'type', 'none' or a step greater than 0")
    return value


#: How many records are asked when risk is measured.
RiskEffort = Literal["full", "sampled", "off"]

RoundingRule = Annotated[
    Literal["type", "none"] | Annotated[float, Field(gt=0, allow_inf_nan=False)], BeforeValidator(_rounding_rule)
]


class ReleaseSpec(Model):
    """One release: what comes in, what is done to it, and where it goes."""

    version: Literal[1] = Field(default=SPEC_VERSION, description="version of the spec's own format")
    name: str = Field(pattern=NAME_PATTERN, description="name of the series of releases")
    id: str = Field(
        default="date",
        pattern=NAME_PATTERN,
        description="release id: 'date' for the day of the run (UTC, 2026-11-18), or an id of your own",
    )
    seed: Whole = Field(default=0, ge=0, lt=2**63, description="decides every draw: same seed, same release")
    k: Whole = Field(ge=2, description="least number of units that share a combination")
    algorithm: Algorithm = Algorithm()
    refine: Refine = Field(
        default="fast",
        description="improve the algorithm's groups: 'off', 'fast' or 'thorough' (by steps), or 'seconds:' a block; "
        "where MDAV would take long, groups to improve are cut by slabs instead",
    )
    bound: Literal["quick", "off"] = Field(
        default="quick",
        description="what is proved of how little any groups could lose: what is quick to prove, more with refine: "
        "thorough; or nothing, in less time",
    )
    reproducible: bool = Field(
        default=True,
        strict=True,
        description="false allows time budgets, with which the same spec and data give other groups each time",
    )
    input: Input = Field(description="where the microdata are; needs a url")
    output: Output = Field(description="where releases are published; needs a url")
    work: Work = Field(description="a private place for staged rows and audits; needs a url")
    roles: Roles = Field(description="what each column is")
    unit: Unit = Field(
        default="row",
        description="'row', the column(s) that name a person or firm of one row, or {id: ..., rows: several} where "
        "several rows belong together",
    )
    blocks: Blocks = Blocks()
    missing: Literal["error", "blank", "separate"] = Field(
        default="error",
        description="missing quasi-identifiers: refused; or records that lack the same are grouped together, and a "
        "pattern that fewer than k have is blanked further until k have it, or (separate) withheld",
    )
    rounding: dict[ColumnName, RoundingRule] = Field(
        default={},
        description="quasi-identifier -> 'type' (means as exact as the column's own type holds them), 'none' (the "
        "mean as it is, released as float64) or a step in the column's unit; default: for floats one decimal more "
        "than the input's values need, if they have short decimals, else 'type'",
    )
    hierarchies: dict[ColumnName, AnyHierarchy] = Field(
        default={},
        description="nominal quasi-identifier or blocking column -> its values below their parents: a CSV file with "
        "the columns code, parent and label, or nested mappings and lists; merged blocking values get their least "
        "common parent, and so do groups where that loses less than their most frequent value",
    )
    acknowledge: Acknowledge = Acknowledge()
    risk: RiskEffort = Field(
        default="sampled",
        description="how the operator is told what the release gives away: by asking every record ('full'), all of a "
        "small release and some of a large one ('sampled'), or from groups and confidential values alone ('off')",
    )
    analyses: Analyses = Field(
        default=(),
        description="linear models that the operator's report compares before and after, such as 'income ~ age + "
        "education'",
    )
    known: tuple[Annotated[Columns, Field(min_length=1)], ...] = Field(
        default=(),
        max_length=MOST_KNOWN,
        description="sets of released columns that somebody may know, such as [[age, sex], [job, region]]: the gate "
        "counts k units for every combination of each set; default: all quasi-identifiers and blocking columns",
    )
    edits: Edits = Field(
        default=(),
        description="rules between columns, such as 'dodth <= dox', counted before and after; {rule: ..., stop: true} "
        "stops a release that breaks one more often than the input",
    )
    protect: Protect | None = Field(
        default=None,
        description="what is demanded besides k: confidential column, or '*' for all -> distinct, t, inference; and "
        "linkage; default: nothing",
    )
    series: Series | None = Field(
        default=None,
        description="what releases of the same units promise together; default: a second release of them is refused",
    )
    about: About | None = Field(
        default=None,
        description="what receivers are told besides: title, licence, labels and units of columns; published as it "
        "stands",
    )
    schedule: Schedule | None = Field(
        default=None,
        description="when microagg deploy has releases made by themselves; default: when somebody asks for one",
    )
    cluster: AnyCluster = Field(
        default=None,
        description="who does the work: 'none' (the process that was called), 'local' (Dask workers on this machine), "
        "the address of a running Dask scheduler, or workers that are started through ssh, slurm or kubernetes; "
        "default: none below 200,000 records, else local",
    )

    @property
    def effort(self) -> str | float:
        """The refinement by name, or its seconds for each block."""
        return self.refine.seconds if isinstance(self.refine, TimeBudget) else self.refine

    @property
    def unit_columns(self) -> tuple[str, ...]:
        """List the columns that name a unit; none where it is a row."""
        if isinstance(self.unit, SeveralRows):
            return self.unit.id
        return () if self.unit == "row" else self.unit

    @property
    def several(self) -> SeveralRows | None:
        """Tell of units of several rows; None where each has one."""
        return self.unit if isinstance(self.unit, SeveralRows) else None

    @property
    def parts_units(self) -> bool:
        """Tell whether units have several rows that are released one by one, each with those of other units."""
        return self.several is not None and self.several.rows_tied == "impossible"

    @property
    def has_whole_units(self) -> bool:
        """Tell whether units have several rows, and all rows of one are released alike with those of others."""
        return self.several is not None and not self.parts_units

    @field_validator("id")
    @classmethod
    def _not_the_pointer(cls, id_: str) -> str:
        if id_.lower() == "latest.json":
            raise ValueError("must not be latest.json, the name of the pointer to the latest release")
        return id_

    @classmethod
    def cross_check(cls, parts: Mapping[str, Any]) -> Iterator[Problem]:
        if {"work", "output"} <= parts.keys() and is_inside(parts["work"].url, parts["output"].url):
            yield (("work", "url"), "the private work area lies inside the output, where readers could see it; move it")
        sign = parts["output"].sign if "output" in parts else None
        if sign is not None and is_inside(sign.key_file, parts["output"].url):
            yield ("output", "sign", "key_file"), "lies inside the output, where readers could see it; move it"
        schedule = parts.get("schedule")
        if schedule is not None and schedule.catch_up == "all" and parts.get("id", "date") != "date":
            yield ("schedule", "catch_up"), "all is for id: date, by which it is known which nights were missed"
        if parts.get("series") is not None:
            yield from _series_problems(parts, parts["series"])
        yield from protect_problems(parts)
        yield from about_problems(parts)
        yield from analysis_problems(parts)
        yield from edit_problems(parts)
        yield from hierarchy_problems(parts)
        yield from _known_problems(parts)
        if "roles" in parts:
            yield from _column_problems(parts, parts["roles"].role_of())
            if parts["roles"].weight is not None and parts.get("missing") == "blank":
                yield (
                    ("missing",),
                    "blank cannot be combined with roles.weight, as a plan does not know whose weights will share a "
                    "pattern of missing values; set missing: separate, or fill missing values in",
                )
        if {"algorithm", "k", "roles"} <= parts.keys():
            info = algorithms()[parts["algorithm"].name]
            if problem := info.refuses(parts["k"], parts["roles"].n_averaged):
                yield ("algorithm",), problem
        if {"refine", "reproducible", "algorithm"} <= parts.keys() and parts["reproducible"]:
            yield from _clock_problems(parts["refine"], parts["algorithm"])
        if {"blocks", "k"} <= parts.keys():
            most, k = parts["blocks"].max_records, parts["k"]
            if most is not None and most < 2 * k:
                yield ("blocks", "max_records"), f"must be at least 2k = {2 * k} (got {most})"
            if most is not None and "algorithm" in parts:
                info = algorithms()[parts["algorithm"].name]
                if problem := info.refuses_records(most):
                    yield ("blocks", "max_records"), problem


def _known_problems(parts: Mapping[str, Any]) -> Iterator[Problem]:
    """Find known sets that stand twice, and columns of them that nobody finds in the release."""
    role, seen = parts["roles"].role_of() if "roles" in parts else {}, set[frozenset[str]]()
    for place, names in enumerate(parts.get("known", ())):
        if frozenset(names) in seen:
            yield ("known", place), "is there twice; leave one out"
        seen.add(frozenset(names))
        for position, name in enumerate(names):
            if name in names[:position]:
                yield ("known", place, position), f"{name!r} is named twice"
            elif role and role.get(name) not in ("quasi_identifiers", "weight", "blocking", "confidential"):
                why = f"has the role {role[name]}, so that it is not in the release" if name in role else "is no column"
                yield ("known", place, position), f"{name!r} {why}; leave it out"


def _clock_problems(refine: Any, algorithm: Algorithm) -> Iterator[Problem]:
    """Find what would make the release depend on the machine's speed, which a reproducible one must not."""
    if isinstance(refine, TimeBudget):
        yield ("refine", "seconds"), "makes the release depend on the machine's speed; set reproducible: false"
    if algorithm.parameters.get("seconds"):
        yield (
            ("algorithm", "seconds"),
            "makes the release depend on the machine's speed; use steps, or set reproducible: false",
        )


def _series_problems(parts: Mapping[str, Any], series: Series) -> Iterator[Problem]:
    if series.mode != "independent" and parts.get("unit") == "row":
        yield (
            ("series",),
            "follows units from night to night, and a row is none; name in unit: the column(s) that name a person "
            "or firm and stay the same",
        )
    if series.carries and "blocks" in parts and parts["blocks"].undersized == "error":
        yield (
            ("blocks", "undersized"),
            f"must be merge or suppress with mode: {series.mode}, whose arrivals are few on most nights",
        )
    if series.hold is not None and "k" in parts and series.hold.until_units(parts["k"]) < parts["k"]:
        yield ("series", "hold", "until"), f"must be at least k = {parts['k']}"
    if "output" in parts:
        ledger = None if series.ledger is None else series.ledger.url
        private = {("ledger", "url"): ledger, ("key_file",): series.key_file}
        for loc, url in private.items():
            if url is not None and is_inside(url, parts["output"].url):
                yield ("series", *loc), "lies inside the output, where readers could see it; move it"


def _column_problems(parts: Mapping[str, Any], role: Mapping[str, str]) -> Iterator[Problem]:
    """Find columns outside ``roles`` that lack the role which that place asks for."""
    for column in parts.get("rounding", {}):
        if role.get(column) != "quasi_identifiers":
            yield ("rounding", column), "is not a quasi-identifier"
    for field, columns in parts.get("acknowledge", ()):
        wanted = "identifiers" if field in OF_IDENTIFIERS else "confidential"
        for position, column in enumerate(columns):
            if role.get(column) != wanted:
                article = "an identifier" if wanted == "identifiers" else "a confidential column"
                yield ("acknowledge", field, position), f"{column!r} is not {article}"
    yield from unit_problems(parts, role)
