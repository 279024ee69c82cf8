"""A release spec to start from, for files that were profiled."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

from microagg_core.data.formats import released_names
from microagg_core.data.formats.options import quoted
from microagg_core.data.formats.reading import input_format
from microagg_core.profile.profile import FileProfile, held, notes, profile_of
from microagg_core.profile.proposals import BLOCKING, IDENTIFIERS, QUASI, RoleProposal, meanings_of
from microagg_core.spec.release import Output
from microagg_core.spec.starter import Advice, ColumnAdvice, starter_spec
from microagg_core.store.urls import basename, is_local, local_path

#: Below this the dearer ways of grouping take seconds.
_SMALL = 5_000
_DAY_IN_A_NAME = re.compile(r"(?<![0-9])(19|20)[0-9]{2}-?(0[1-9]|1[0-2])-?(0[1-9]|[12][0-9]|3[01])(?![0-9])")


def starter_for(data: str, spec: Path, is_accepted: bool = False) -> str:
    """The starter spec, to be written to ``spec``, for the file or files at ``data``.

    Raises:
        SpecError: the URL cannot stand in a spec.
        StorageError: there is no such file.
        DataError: what is there is not understood.
    """
    return starter_of(profile_of(data), data, spec, is_accepted)


def starter_of(profile: FileProfile, data: str, spec: Path, is_accepted: bool = False) -> str:
    """The same for a profile that is there; with proposals as comments, or accepted, as roles.

    The release has the format of the input, if releases are made in it.
    """
    form = input_format(profile.source)
    url = data
    if is_local(data):  # the spec's paths start at its own folder
        url = Path(os.path.relpath(local_path(data), spec.resolve().parent)).as_posix()
    output_format = form.name if form.name in released_names() else Output.model_fields["format"].default
    storage = profile.source.storage_options
    options = f"  storage_options: {json.dumps(storage)}\n" if storage else ""
    options += form.starter_options(profile.source)
    return starter_spec(url, profile.schema, options, output_format, _advice(profile, is_accepted))


def _advice(profile: FileProfile, is_accepted: bool) -> Advice:
    unit, about_unit = _unit(profile)
    has_missing = any(column.missing for column in profile.with_role(QUASI))
    # Blocking columns go from general to fine.
    in_order = sorted(profile.proposals, key=lambda one: one.column.distinct if one.role == BLOCKING else 0)
    return Advice(
        tuple(_about(proposal) for proposal in in_order),
        (*_about_input(profile), *about_unit, *_hints(profile)),
        unit,
        "separate" if has_missing else "error",
        profile.source.format,
        is_accepted,
    )


def _about(proposal: RoleProposal) -> ColumnAdvice:
    column = proposal.column
    said = [re.sub(r"[^ -~]", "?", held(column)), *notes(column)]
    return ColumnAdvice(column.name, "; ".join(dict.fromkeys(said)), proposal.role, proposal.reason)


def _about_input(profile: FileProfile) -> list[str]:
    rows = f"{profile.n_rows:,}" if profile.is_counted else f"about {profile.n_rows:,}"
    lines = [f"{rows} rows; profiled: {profile.looked_at}. Ranges leave out the outermost hundredth and are rounded."]
    return [*lines, *([f"Encoding: {profile.encoding_reason}."] if profile.encoding_reason else [])]


def _unit(profile: FileProfile) -> tuple[tuple[str, ...], list[str]]:
    """Find the column that tells units apart, and say what to know of identifiers that repeat."""
    ids = profile.with_role(IDENTIFIERS)
    single = [column for column in ids if column.unique == 1 and not column.missing]
    repeated = [column for column in ids if column.unique < 1]
    numbered = [column for column in repeated if column.is_numeric or "id" in meanings_of(column.name)]
    names = ", ".join(quoted(column.name) for column in repeated)
    if repeated and single:
        return (single[0].name,), [
            f"Unit: values of {names} repeat, as numbers of households do; k counts {quoted(single[0].name)}."
        ]
    if numbered:
        most = max(numbered, key=lambda column: column.distinct)
        what = f"{quoted(most.name)} has {most.distinct:,} values in {most.records:,} records"
        return (most.name,), [
            f"Unit: {what}. If each is one person or firm with several rows,",
            "a run refuses them, as k counts units: make one row of each. If not, write unit: row.",
        ]
    if repeated:
        return (), [
            f"Unit: values of {names} repeat, which a run refuses, as an identifier is of one person or firm.",
            "If each row is a person or firm of its own all the same, drop them; else name what tells units apart.",
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
    repeats = any(column.unique < 1 for column in ids) and not any(column.unique == 1 for column in ids)
    lacking = (
        [] if profile.with_role(QUASI) else ["no column is proposed for quasi_identifiers, which take at least one"]
    )
    return [*lacking, *([" ".join(_unit(profile)[1])] if repeats else [])]
