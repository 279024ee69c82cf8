"""A commented release spec to start from: everything that a file tells, and a list of what it does not.

Every column stands under ``to_decide``, which the spec's checks refuse until it is empty; with a proposal, where there
is one. Proposals become roles only for who asks for that, below a line that says where they come from.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from microagg_core.data.formats.options import quoted
from microagg_core.data.formats.reading import format_of
from microagg_core.data.kinds.registry import kind_for
from microagg_core.data.tables.types import is_bytes, is_nested
from microagg_core.errors import DataError, SpecError
from microagg_core.group.algorithms import algorithms
from microagg_core.store.urls import basename, holds_credentials, shown

#: The least size of groups to start from.
STARTER_K = 5
#: The roles as a spec lists them, with what each does.
ROLES = {
    "identifiers": "name a person or firm: dropped",
    "quasi_identifiers": "known from outside, numbers or dates: microaggregated together; at least one",
    "blocking": "known from outside and kept exactly, from general to fine",
    "confidential": "released as they are",
    "drop": "not released, not looked at",
}


@dataclass(frozen=True)
class ColumnAdvice:
    """A column: what it holds, and the role that is proposed, with the reason."""

    name: str
    holds: str
    role: str
    reason: str


@dataclass(frozen=True)
class Advice:
    """Suggestions for a spec from a look at the data."""

    columns: tuple[ColumnAdvice, ...]
    #: Sentences about the data, which become comments.
    remarks: tuple[str, ...] = ()
    unit: tuple[str, ...] = ()
    missing: str = "error"
    #: As the input is read; without it, as its ending says.
    format: str = ""
    #: Whether the proposals stand as roles, and not as comments.
    is_accepted: bool = False


def starter_spec(
    url: str, schema: pa.Schema, options: str = "", output_format: str = "parquet", advice: Advice | None = None
) -> str:
    """Write a release spec for the data at ``url``, which the user completes.

    Args:
        url: where the data are, as the spec is to have it.
        schema: the data's own.
        options: lines under ``input:`` that are their format's own.
        output_format: the format of the release.
        advice: what a look at the data suggests.

    Raises:
        DataError: a column without a name, or two of one name.
        SpecError: the URL holds a user or password.

    >>> text = starter_spec("people.parquet", pa.schema({"age": pa.int8(), "no": pa.string()}))
    >>> print("\\n".join(line for line in text.splitlines() if line.startswith("    - ")))
        - age     # int8, a number
        - "no"    # string
    """
    if holds_credentials(url):
        raise SpecError(f"{shown(url)}: a spec must not hold a user or password; use the environment of each worker")
    _check_names(schema.names)
    described = [ColumnAdvice(field.name, _described(field.type), "", "") for field in schema]
    advice = advice or Advice(tuple(described))
    return _TEMPLATE.format(
        n_columns=len(schema.names),
        remarks="".join(f"# {line}\n" for line in (*(_ACCEPTED if advice.is_accepted else ()), *advice.remarks)),
        algorithms=", ".join(algorithms()),
        k=STARTER_K,
        name=quoted(_series_name(url)),
        url=quoted(url),
        format=advice.format or format_of(url) or "parquet",
        options=options,
        output_format=output_format,
        roles="\n".join(_role_lines(advice)),
        unit=f"[{', '.join(map(quoted, advice.unit))}]" if advice.unit else "row",
        missing=advice.missing,
    )


_ACCEPTED = (
    "PROPOSED BY A PROGRAM: the roles below come from names and values of the columns alone, and nobody has read them.",
    "Read every reason, move what is wrong, and then take these lines out.",
)


def _role_lines(advice: Advice) -> Iterator[str]:
    if not advice.is_accepted:
        yield "  # to decide: move every column from here to the list that fits, then take to_decide out."
        yield "  to_decide:"
        order = ["", *ROLES]
        yield from _column_lines(sorted(advice.columns, key=lambda column: order.index(column.role)), True)
    for role, what in ROLES.items():
        columns = [column for column in advice.columns if column.role == role] if advice.is_accepted else []
        start = f"  {role}:" if columns else f"  {role}: []"
        yield f"{start:<25} # {what}"
        yield from _column_lines(columns, False)


def _column_lines(columns: Sequence[ColumnAdvice], has_roles: bool) -> Iterator[str]:
    width = max((len(quoted(column.name)) for column in columns), default=0)
    for column in columns:
        proposal = f"propose {column.role} ({column.reason})" if has_roles else column.reason
        said = f"{column.holds}: {proposal}" if column.role else column.holds
        yield f"    - {quoted(column.name):<{width}}    # {said}"


def _check_names(names: list[str]) -> None:
    if "" in names:
        raise DataError(f"column {names.index('') + 1} of the input has no name; give it one")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise DataError(f"the input has more than one column named {', '.join(map(repr, twice))}; rename them")


def _series_name(url: str) -> str:
    stem = basename(url).split(".")[0] or "release"
    return re.sub(r"[^A-Za-z0-9_-]+", "-", stem).strip("-_")[:64] or "release"


def _described(held: pa.DataType) -> str:
    if isinstance(held, pa.DictionaryType):
        held = held.value_type
    if is_nested(held):
        return "nested; cannot be released, so drop it"
    if kind := kind_for(held):
        return kind.words.format(held)
    return "bytes" if is_bytes(held) else re.sub(r"[^ -~]", "?", str(held))


_TEMPLATE = """\
# A release spec to start from, made from the input's {n_columns} columns. Give each a role under roles, look over the
# rest, and see what a release would do:  microagg plan release.yaml
{remarks}
name: {name}
id: date                  # one release a day, named after it; or an id of your own
seed: 0
k: {k}                      # least number of people or firms that share a combination: yours to decide
algorithm: mdav           # one of {algorithms}
refine: fast              # improve its groups: off, fast or thorough

input:
  url: {url}
  format: {format}
{options}output:
  url: release            # where releases are published; s3://bucket/prefix works the same
  format: {output_format}
  # sign: {{key_file: release.key}}   # sign each release, for those who get it; microagg keys release makes the key
work:
  url: work               # a private place, not inside the output: staged rows, then audits

roles:
{roles}

unit: {unit:<20}# is one row one person or firm? If not, name the column(s) that tell them apart
blocks:
  undersized: merge       # blocking values with fewer than k: merge, suppress or error
missing: {missing:<17}# quasi-identifiers without a value: error, or separate
# rounding:               # means have their column's type, floats one decimal more than the input, unless it says else
#   a_column: 0.5         # a step; or type, for all digits; or none, for the mean as it is, as float64

# analyses: [income ~ age + education]    # what you would ask of the data: compared before and after, for you alone

# series:                 # to release the same people or firms again, which is refused otherwise; needs a unit
#   mode: atoms           # groups stay together for ever; or disjoint: everybody is released once
#   leavers: withhold     # a group that lost somebody waits until it is whole again; or ghosts, decoys
#   key_file: series.key  # a secret of at least 16 bytes, chmod 600; or MICROAGG_SERIES_KEY in the environment

# about:                  # what receivers read beside the data; it is published as it stands
#   title: People and their incomes
#   publisher: ..         # and contact, licence (CC-BY-4.0), url, citation, keywords, period, geography
#   columns:
#     a_column: {{label: Yearly income, unit: EUR, description: before taxes}}

# cluster: local          # or none, an address, ssh, slurm, kubernetes; without it, the input's size decides
"""
