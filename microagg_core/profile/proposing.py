"""A role for each column, with the reason: what its name says, and what its values look like.

A proposal is read by somebody, or it is worth nothing: what others know of people and firms stands in no file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from microagg_core.arrays import Ints
from microagg_core.data.tables.hashing import one_array
from microagg_core.profile.columns import ColumnProfile
from microagg_core.profile.names import meanings_of
from microagg_core.profile.notations import CODES

#: Text of which a tenth differs, and the longest is longer than this, is written by people.
_LONG_TEXT = 50
_DIFFERING_SHARE = 0.1
#: What has more different values than this, and more than this share of its records, names somebody if it is called so.
_FEW = 20
_SHARE_OF_IDS = 0.02
#: Above this share of records with a value of their own a text names them.
_MOSTLY_UNIQUE = 0.5
#: More categories than these tell a few records apart.
_MANY_CATEGORIES = 200
#: Whole numbers that rise through a file number its records, where they are so many and repeat so little.
_LEAST_NUMBERED = 50
_SHARE_OF_NUMBERED = 0.1
#: A key of all blocking columns is to have as many records on the average, and few records a key below k.
_RECORDS_OF_A_KEY = 50
_USUAL_K = 5
_SHARE_BELOW_K = 0.01
_MOST_BLOCKING = 4
#: Continuous figures have more different values.
_CONTINUOUS = 20

QUASI, BLOCKING, CONFIDENTIAL, DROP, IDENTIFIERS = (
    "quasi_identifiers",
    "blocking",
    "confidential",
    "drop",
    "identifiers",
)
_KNOWN_OUTSIDE = "known from outside"
_SEEN = ("sex", "place", "group", "job", "family", "schooling", "age", "birth", "career")
_OF_PEOPLE = {"sex", "age", "birth", "group", "family", "schooling"}
#: Which blocking columns come first, where not all can be.
_BLOCKING_ORDER = ("sex", "place", "group", "job", "family", "schooling", "age", "birth", "career")
_MEASURED = {"birth": "tells the age", "age": "a number", "career": "a number", "family": "a number",
             "schooling": "a number", "measure": "can be seen", "date": "a date", "time": "a date"}  # fmt: skip


@dataclass(frozen=True)
class RoleProposal:
    column: ColumnProfile
    role: str
    reason: str
    #: Of a column that cannot be blocked by: the role and reason that it has then.
    otherwise: tuple[str, str] | None = None


def proposed_roles(columns: Sequence[ColumnProfile], sample: pa.Table) -> tuple[RoleProposal, ...]:
    """Propose a role for each column, in their order; ``sample`` is what was profiled."""
    proposals = [_by_itself(column) for column in columns]
    proposals = _with_blocking(proposals, sample)
    if not any(one.role == QUASI for one in proposals):
        has_people = any(_OF_PEOPLE & set(meanings_of(one.column.name)) or one.column.tells_sex for one in proposals)
        proposals = [_without_names(one, has_people) for one in proposals]
    return tuple(proposals)


def _by_itself(column: ColumnProfile) -> RoleProposal:
    if column.is_nested:
        return RoleProposal(column, DROP, "of a type that cannot be released")
    if column.distinct <= 1:
        return RoleProposal(column, DROP, "one value in every record" if column.distinct else "it has no values")
    meanings = meanings_of(column.name)
    if "weight" in meanings and column.is_numeric:
        return RoleProposal(column, CONFIDENTIAL, "a sampling weight; it may tell the stratum, so round it if it does")
    if reason := _names_somebody(column, meanings):
        return RoleProposal(column, IDENTIFIERS, reason)
    role, reason, otherwise = (_of_number if column.is_numeric else _of_text)(column, meanings)
    return RoleProposal(column, role, reason, otherwise)


def _names_somebody(column: ColumnProfile, meanings: Sequence[str]) -> str:
    """Say why a column is an identifier; empty, where it is none."""
    is_many = column.distinct > max(_FEW, _SHARE_OF_IDS * column.valid)
    is_whole = "int" in column.type or not column.is_numeric
    if is_whole and column.distinct > _FEW:
        if "contact" in meanings:
            return "reaches somebody, or what is somebody's"
        if "name" in meanings and not column.is_numeric:
            return "called a name"
        if "place" in meanings and column.unique == 1 and "money" not in meanings:
            return "a place of its own in every record"
    if is_many and is_whole:
        if "id" in meanings:
            return "called an id"
        if column.ascends and column.valid >= _LEAST_NUMBERED and set(meanings) <= {"family"}:
            if column.unique == 1:
                return "numbers the records"
            if column.distinct >= _SHARE_OF_NUMBERED * column.valid and column.is_numeric:
                return "rises through the file and repeats: numbers households or firms"
    is_plain = not (column.is_numeric or column.remark or "note" in meanings or (column.longest or 0) > _LONG_TEXT)
    if is_plain and column.unique > _MOSTLY_UNIQUE and column.valid > _FEW:
        return "most records have a text of their own"
    return ""


_Role = tuple[str, str, tuple[str, str] | None]


def _of_text(column: ColumnProfile, meanings: Sequence[str]) -> _Role:
    differing = column.distinct / max(1, column.valid)
    if "note" in meanings or ((column.longest or 0) > _LONG_TEXT and differing > _DIFFERING_SHARE):
        return DROP, "free text, which may name anybody", None
    if column.remark and column.remark != CODES:
        return DROP, f"{column.remark}; then look again", None
    if "bool" not in column.type and "string" not in column.type and column.type != "text":
        return DROP, f"{column.type}, which nobody can look over", None
    if (_seen(meanings) and "money" not in meanings) or column.tells_sex:
        return BLOCKING, f"categories, {_KNOWN_OUTSIDE}", (DROP, _too_fine("text has no mean"))
    if column.distinct > _MANY_CATEGORIES:
        return DROP, f"{column.distinct:,} different texts tell a few records apart", None
    return CONFIDENTIAL, _why_confidential(meanings), None


def _of_number(column: ColumnProfile, meanings: Sequence[str]) -> _Role:
    is_truth, is_date = column.type == "bool", column.type.startswith(("date", "timestamp"))
    seen = _seen(meanings)
    if is_truth and seen:
        return BLOCKING, f"two categories, {_KNOWN_OUTSIDE}", (QUASI, f"yes or no, {_KNOWN_OUTSIDE}")
    if is_date and "sensitive" not in meanings:
        return QUASI, "a date, which others may know", None
    if "money" in meanings or "sensitive" in meanings:
        return CONFIDENTIAL, _why_confidential(meanings), None
    if seen in ("sex", "group", "job") or (seen == "place" and "float" not in column.type):
        return BLOCKING, f"codes, {_KNOWN_OUTSIDE}", (DROP, _too_fine("codes have no mean"))
    measured = next((one for one in _MEASURED if one in meanings), None)
    if measured or seen:
        return QUASI, f"{_MEASURED.get(measured or '', 'a number')}, {_KNOWN_OUTSIDE}", None
    return CONFIDENTIAL, _why_confidential(meanings), None


def _seen(meanings: Sequence[str]) -> str | None:
    return next((one for one in _SEEN if one in meanings), None)


def _too_fine(why: str) -> str:
    return f"{_KNOWN_OUTSIDE}, {why}, and blocking by it too would leave too few records a key"


def _why_confidential(meanings: Sequence[str]) -> str:
    if "money" in meanings:
        return "money, which others do not know"
    if "sensitive" in meanings:
        return "sensitive, by its name"
    return "nothing tells that others know it"


def _without_names(proposal: RoleProposal, has_people: bool) -> RoleProposal:
    """Take continuous numbers where none is known from outside by its name; of firms, money too."""
    column, meanings = proposal.column, set(meanings_of(proposal.column.name))
    is_private = bool(meanings & ({"weight", "money", "sensitive"} if has_people else {"weight"}))
    if proposal.role == CONFIDENTIAL and column.is_numeric and column.distinct > _CONTINUOUS and not is_private:
        return replace(proposal, role=QUASI, reason="no name tells what others know, so all continuous figures")
    return proposal


# --- Blocking ------------------------------------------------------------------------------------------------


def _with_blocking(proposals: Sequence[RoleProposal], sample: pa.Table) -> list[RoleProposal]:
    """Block by as many columns as leave enough records a key; the others have the role that is left to them."""
    blocking = (one for one in proposals if one.role == BLOCKING)
    # What has a mean comes last: it need not be dropped.
    candidates = sorted(blocking, key=lambda one: (one.column.is_numeric, _rank(one), one.column.distinct))
    keys: Ints = np.zeros(sample.num_rows, dtype=np.int64)
    chosen: list[str] = []
    for one in candidates:
        finer = _finer(keys, sample.column(one.column.name))
        if len(chosen) < _MOST_BLOCKING and _is_filled(finer):
            keys = finer
            chosen.append(one.column.name)
    return [_settled(one, chosen) for one in proposals]


def _settled(proposal: RoleProposal, chosen: Sequence[str]) -> RoleProposal:
    if proposal.role != BLOCKING or proposal.column.name in chosen or proposal.otherwise is None:
        return proposal
    role, reason = proposal.otherwise
    return replace(proposal, role=role, reason=reason)


def _rank(proposal: RoleProposal) -> int:
    meanings = meanings_of(proposal.column.name)
    return next((i for i, one in enumerate(_BLOCKING_ORDER) if one in meanings), len(_BLOCKING_ORDER))


def _finer(keys: Ints, column: pa.ChunkedArray) -> Ints:
    """Number keys from 0 by what was there and one more column; missing values are a category."""
    codes = one_array(column).dictionary_encode(null_encoding="encode").indices.to_numpy(zero_copy_only=False)
    together: Ints = np.unique(keys * (int(codes.max(initial=0)) + 1) + codes, return_inverse=True)[1]
    return together


def _is_filled(keys: Ints) -> bool:
    sizes = np.bincount(keys)
    return bool(
        len(keys) >= _RECORDS_OF_A_KEY * len(sizes) and sizes[sizes < _USUAL_K].sum() <= _SHARE_BELOW_K * len(keys)
    )
