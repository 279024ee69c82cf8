"""Proposals that a plan of the profiled rows would refuse, and the roles that these columns have instead.

A number is averaged, and a text or a sampling weight dropped, until nothing is refused any more. Of several columns
that are refused together, those with the most different values go, and as few of them as suffice.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from microagg_core.data.places import Input
from microagg_core.errors import DataError, SpecError
from microagg_core.inspect.disclosures import Disclosure, in_percent
from microagg_core.profile.names import meanings_of
from microagg_core.profile.proposing import BLOCKING, DROP, QUASI, RoleProposal
from microagg_core.release.planning import FirstLook, look_at
from microagg_core.spec.release import ReleaseSpec
from microagg_core.spec.starter import STARTER_K

#: With more of them groups are so wide that averages say little; what is refused beyond that is dropped.
_MOST_AVERAGED = 20
#: What is refused of all confidential columns together, and not of some of them.
_OF_ALL = ("jointly_unique", "ties_few_records")


@dataclass(frozen=True)
class ProfiledRows:
    """Rows that were profiled, and the input that they come from."""

    table: pa.Table
    source: Input

    def look(self, proposals: Sequence[RoleProposal]) -> FirstLook:
        """Look at what a plan with these roles would be refused for."""
        roles: dict[str, list[str]] = {}
        for proposal in sorted(proposals, key=_from_general_to_fine):
            roles.setdefault(proposal.role, []).append(proposal.column.name)
        has_missing = any(proposal.column.missing for proposal in proposals if proposal.role == QUASI)
        spec = {
            "name": "look",
            "k": STARTER_K,
            "input": self.source,
            "output": {"url": "release"},
            "work": {"url": "work"},
            "roles": roles,
            "missing": "separate" if has_missing else "error",
        }
        return look_at(ReleaseSpec.model_validate(spec), self.table)


def _from_general_to_fine(proposal: RoleProposal) -> int:
    return proposal.column.distinct if proposal.role == BLOCKING else 0


def without_refusals(proposals: Sequence[RoleProposal], rows: ProfiledRows) -> tuple[RoleProposal, ...]:
    """Give other roles to columns for which a plan of these rows would be refused."""
    settled = tuple(proposals)
    while any(proposal.role == QUASI for proposal in settled):
        try:
            look = rows.look(settled)
        except (DataError, SpecError):  # which the plan says, with the place in the spec
            break
        alone = {refused.columns[0]: refused for refused in look.disclosures if len(refused.columns) == 1}
        if alone:
            settled = _moved(settled, alone)
        elif look.disclosures:
            settled = _fewest_moved(settled, rows, look.disclosures[0])
        elif look.few and any(proposal.role == QUASI and proposal.column.missing for proposal in settled):
            settled = _without_most_missing(settled)
        else:
            break
    return settled


def _without_most_missing(proposals: Sequence[RoleProposal]) -> tuple[RoleProposal, ...]:
    """Drop the quasi-identifier whose patterns of missing values few records share most likely."""
    most = max((proposal for proposal in proposals if proposal.role == QUASI), key=lambda quasi: quasi.column.missing)
    reason = f"{most.reason}; but few records share the patterns of its missing values: fill them in to keep it"
    return tuple(replace(most, role=DROP, reason=reason) if proposal is most else proposal for proposal in proposals)


def _fewest_moved(
    proposals: Sequence[RoleProposal], rows: ProfiledRows, refused: Disclosure
) -> tuple[RoleProposal, ...]:
    """Move as few columns as suffice for what several are refused for together."""
    distinct = {proposal.column.name: proposal.column.distinct for proposal in proposals}
    order = sorted(refused.columns, key=lambda name: -distinct[name])

    def moved(n: int) -> tuple[RoleProposal, ...]:
        return _moved(proposals, dict.fromkeys(order[:n], refused))

    def suffice(n: int) -> bool:
        left = rows.look(moved(n)).disclosures
        return not any(other.what == refused.what and len(other.columns) > 1 for other in left)

    return moved(bisect_left(range(1, len(order)), True, key=suffice) + 1 if refused.what in _OF_ALL else 1)


def _moved(proposals: Sequence[RoleProposal], refused: Mapping[str, Disclosure]) -> tuple[RoleProposal, ...]:
    """Give columns that are refused another role than confidential."""
    n_averaged = sum(proposal.role == QUASI for proposal in proposals)
    moved = []
    for proposal in proposals:
        if (disclosure := refused.get(proposal.column.name)) is not None:
            is_measured = proposal.column.is_numeric and "weight" not in meanings_of(proposal.column.name)
            role = QUASI if is_measured and n_averaged < _MOST_AVERAGED else DROP
            n_averaged += role == QUASI
            advice = "averaged; coarsen it to release it as it is" if role == QUASI else "coarsen it to release it"
            proposal = replace(proposal, role=role, reason=f"{proposal.reason}; but {_why(disclosure)}: {advice}")
        moved.append(proposal)
    return tuple(moved)


def _why(refused: Disclosure) -> str:
    """Say in a few words why a column may not be released as it is."""
    share, together = in_percent(refused.share), " with others" if len(refused.columns) > 1 else ""
    return {
        "nearly_unique": f"{share} of records have a value of their own",
        "jointly_unique": f"{share} of records are alone with what they have in it and others",
        "ties_few_records": f"it ties {share} of records to a few{together}, as members of a household",
        "free_text": "it is long free text",
        "fixes_quasi_identifier": f"it tells {', '.join(refused.quasi_identifiers)}{together}",
        "completes_mean": f"it tells {', '.join(refused.quasi_identifiers)} beside the means",
    }[refused.what]
