"""A commented release spec to start from: everything that a file tells, and a list of what it does not.

Every column stands under ``to_decide``, which the spec's checks refuse until it is empty, with a proposal. Proposals
become roles only for who asks for that, below a line that says where they come from.
"""

from __future__ import annotations

import json
import os
import re
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path

from microagg_core.data.formats import released_names
from microagg_core.data.formats.options import quoted
from microagg_core.data.formats.reading import input_format
from microagg_core.group.algorithms import algorithms
from microagg_core.profile.profile import FileProfile, held, notes, unit_sentences
from microagg_core.profile.proposals import (
    BLOCKING,
    IDENTIFIERS,
    QUASI,
    STARTER_K,
    WEIGHT,
    RoleProposal,
    missing_rule,
)
from microagg_core.spec.release import Output
from microagg_core.store.urls import basename, is_local, local_path

#: The roles as a spec lists them, with what each does.
ROLES = {
    "identifiers": "name a person or firm: dropped",
    "quasi_identifiers": "known from outside: microaggregated together; at least one",
    "blocking": "known from outside and kept exactly, from general to fine",
    "confidential": "released as they are",
    "weight": "one column of survey weights: groups get weighted means, which keeps weighted totals",
    "drop": "not released, not looked at",
}
#: Below this the dearer ways of grouping take seconds.
_SMALL = 5_000
_WIDTH = 110
_ONE_ROW = "is one row one person or firm? If not, name the column(s) that tell them apart"
_DAY_IN_A_NAME = re.compile(r"(?<![0-9])(19|20)[0-9]{2}-?(0[1-9]|1[0-2])-?(0[1-9]|[12][0-9]|3[01])(?![0-9])")
_ACCEPTED = (
    "PROPOSED BY A PROGRAM: the roles below come from names and values of the columns alone, and nobody has read them.",
    "Read every reason, move what is wrong, and then take these lines out.",
)


def starter_of(profile: FileProfile, data: str, spec: Path, is_accepted: bool = False) -> str:
    """Write a release spec for the profiled file or files at ``data``, to be put at ``spec``, which the user completes.

    Proposals are comments, or accepted, as roles. The release has the format of the input, if releases are made in it.
    """
    form, url = input_format(profile.source), data
    if is_local(data):  # the spec's paths start at its own folder
        url = Path(os.path.relpath(local_path(data), spec.resolve().parent)).as_posix()
    storage = profile.source.storage_options
    unit, about_unit = _unit(profile)
    about_unit += [line for words in unit_sentences(profile.several) for line in textwrap.wrap(words, _WIDTH)]
    remarks = [*(_ACCEPTED if is_accepted else ()), *_about_input(profile), *about_unit, *_hints(profile)]
    return _TEMPLATE.format(
        n_columns=len(profile.proposals),
        remarks="".join(f"# {line}\n" for line in remarks),
        algorithms=", ".join(algorithms()),
        k=STARTER_K,
        name=quoted(_series_name(url)),
        url=quoted(url),
        format=profile.source.format,
        options=(f"  storage_options: {json.dumps(storage)}\n" if storage else "")
        + form.starter_options(profile.source),
        output_format=form.name if form.name in released_names() else Output.model_fields["format"].default,
        roles="\n".join(_role_lines(profile.proposals, is_accepted)),
        unit=_unit_lines(profile) or f"unit: {_listed(unit) if unit else 'row':<20}# {_ONE_ROW}",
        missing=missing_rule(profile.proposals),
    )


def _role_lines(proposals: Sequence[RoleProposal], is_accepted: bool) -> Iterator[str]:
    # Blocking columns go from general to fine.
    in_order = sorted(proposals, key=lambda one: one.column.distinct if one.role == BLOCKING else 0)
    if not is_accepted:
        yield "  # to decide: move every column from here to the list that fits, then take to_decide out."
        yield "  to_decide:"
        by_role = [one for role in ROLES for one in in_order if one.role == role]
        yield from _column_lines(by_role, "propose {} ({})", in_words=True)
    for role, what in ROLES.items():
        if role == WEIGHT:
            named = [quoted(one.column.name) for one in in_order if one.role == role and is_accepted]
            yield f"{f'  weight: {named[0]}' if named else '  # weight: a_column':<25} # {what}"
            continue
        own = [proposal for proposal in in_order if proposal.role == role] if is_accepted else []
        start = f"  {role}:" if own else f"  {role}: []"
        yield f"{start:<25} # {what}"
        yield from _column_lines(own, "{1}")


def _column_lines(proposals: Sequence[RoleProposal], form: str, *, in_words: bool = False) -> Iterator[str]:
    """Write a line for each column: by its name, where the comment has the kind ``in_words``, else as declared."""
    written = [quoted(one.column.name) if in_words else _declared(one) for one in proposals]
    width = max(map(len, written), default=0)
    for proposal, entry in zip(proposals, written, strict=True):
        holds = dict.fromkeys([re.sub(r"[^ -~]", "?", held(proposal.column)), *notes(proposal.column)])
        why = form.format(proposal.in_words, proposal.reason)
        yield f"    - {entry:<{width}}    # {'; '.join(holds)}: {why}"


def _declared(proposal: RoleProposal) -> str:
    name, declared = quoted(proposal.column.name), proposal.declared
    return f"{{name: {name}, {', '.join(f'{a}: {b}' for a, b in declared.items())}}}" if declared else name


def _listed(names: Sequence[str]) -> str:
    return f"[{', '.join(map(quoted, names))}]"


def _unit_lines(profile: FileProfile) -> str:
    """Write units of several rows; empty, where each has one."""
    several = profile.several
    if several is None:
        return ""
    rows = "several"
    if several.at_most:
        newest = f", keep: newest, by: {quoted(several.by)}" if several.by else ""
        rows = f"{{at_most: {several.at_most}{newest}}}"
    per_unit = several.per_unit(profile.proposals)
    fields = {
        f"id: {_listed([several.id])}": "rows with one value belong together: k counts these, and not rows",
        f"rows: {rows}": "several: all of them are released; or {at_most: 12, keep: newest, by: a_date}",
        f"row: {_listed([several.row] if several.row else [])}": "what tells rows of a unit apart: a series needs it",
        f"per_unit: {_listed(per_unit)}": "quasi-identifiers that are the same in all rows of a unit",
    }
    return "\n".join(["unit:", *(f"  {field:<23} # {words}" for field, words in fields.items() if "[]" not in field)])


def _series_name(url: str) -> str:
    stem = basename(url).split(".")[0] or "release"
    return re.sub(r"[^A-Za-z0-9_-]+", "-", stem).strip("-_")[:64] or "release"


def _about_input(profile: FileProfile) -> list[str]:
    rows = f"{profile.n_rows:,}" if profile.is_counted else f"about {profile.n_rows:,}"
    lines = [f"{rows} rows; profiled: {profile.looked_at}. Ranges leave out the outermost hundredth and are rounded."]
    return [*lines, *([f"Encoding: {profile.encoding_reason}."] if profile.encoding_reason else [])]


def _unit(profile: FileProfile) -> tuple[tuple[str, ...], list[str]]:
    """Find the column that tells units apart, and say what to know of identifiers that repeat."""
    ids = profile.with_role(IDENTIFIERS)
    single = [column for column in ids if column.unique == 1 and not column.missing]
    repeated = [column for column in ids if column.unique < 1]
    if profile.several:
        return (), []
    names = ", ".join(quoted(column.name) for column in repeated)
    if repeated and single:
        return (single[0].name,), [
            f"Unit: values of {names} repeat, as numbers of households do; k counts {quoted(single[0].name)}."
        ]
    if repeated:
        return (), [
            f"Unit: values of {names} repeat, which a run refuses, as an identifier is of one person or firm.",
            "If rows with one value belong together, write unit: {id: [...], rows: several}; else name what tells",
            "units apart, or drop them.",
        ]
    return tuple(column.name for column in single[:1]), []


def _hints(profile: FileProfile) -> list[str]:
    few = "Algorithm: so few records take algorithm: best and refine: thorough in seconds, and lose less."
    day = "Series: the file's name holds a day. With {date} in its place each night reads its own; see series below."
    has_day = _DAY_IN_A_NAME.search(basename(profile.source.url))
    return [few] * (profile.n_rows <= _SMALL) + [day] * bool(has_day)


def left_to_decide(profile: FileProfile) -> list[str]:
    """Say what keeps even accepted proposals from being a spec that a plan takes."""
    ids = profile.with_role(IDENTIFIERS)
    is_told = profile.several is not None or any(column.unique == 1 for column in ids)
    repeats = not is_told and any(column.unique < 1 for column in ids)
    lacking = "no column is proposed for quasi_identifiers, which take at least one"
    return [lacking] * (not profile.with_role(QUASI)) + [" ".join(_unit(profile)[1])] * repeats


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

{unit}
blocks:
  undersized: merge       # blocking values with fewer than k: merge, suppress or error
missing: {missing:<17}# quasi-identifiers without a value: error; blank cells until k lack the same; separate
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
