"""Propose a role for each column, with a reason, so that a plan refuses none of them."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from microagg_core.arrays import Ints
from microagg_core.data.places import Input
from microagg_core.data.tables.hashing import one_array
from microagg_core.errors import DataError, SpecError
from microagg_core.inspect.disclosures import Disclosure, in_percent
from microagg_core.profile.columns import ColumnProfile
from microagg_core.profile.notations import CODES
from microagg_core.release.planning import FirstLook, trial_survey
from microagg_core.spec.release import ReleaseSpec

#: What words in names mean, in the order in which they count. A word counts if it is one of a name's own;
#: a word of five letters or more also as the beginning or end of one (birthyear, netincome).
MEANINGS = {
    "weight": "db090 rb050 rb060 pb040 pb060 pw wgt wgts weights pweight fnlwgt afnlwgt finalweight sampweight "
    "samplingweight designweight sampleweight gewicht hochrechnung ponderation grossing",
    "contact": "email mail phone telephone tel telefon mobile fax iban passport address adresse street strasse url "
    "homepage ip ssn nin nino nhs sin pesel bsn sozialversicherungsnummer licence license licenseplate numberplate "
    "tailnum surname lastname firstname forename familyname fullname vorname nachname nom prenom username login",
    "id": "db030 rb030 hb030 pb030 id ids pid uid uuid guid idno recid caseid personid userid patientid idnr "
    "idunit seqno seqn serial record key respondent nr number kennung identifier identification mrn hhid hid ssid "
    "lfdnr",
    "name": "name names utilname company firma firm employer school hospital",
    "sex": "rb090 pb150 male female sex gender geschlecht sexe sexo kon kjonn sukupuoli",
    "birth": "rb080 pb140 birth birthyear birthdate birthday dob yob born geburt geburtsjahr naissance nacimiento",
    "age": "age ages alter edad hage agegroup agegrp",
    "place": "db040 region regions state states province county district city town municipality commune canton "
    "bundesland land kreis gemeinde zip zipcode postcode postal plz nuts country nation location area msa smsa "
    "south north urban rural departement comarca lat lon latitude longitude origin dest faa",
    "family": "children kids youngkids oldkids parity household hsize hhsize famsize familysize dependents "
    "siblings",
    "group": "pb190 pb210 pb220a hispanic foreign immigrant minority "
    "race ethnicity ethnic afam caste nationality citizenship citizen religion marital "
    "married marstat single civil owner",
    "career": "tenure experience lengthservice seniority",
    "job": "pl030 pl031 pl040 pl051 occupation job profession industry sector branch nace nace1 isco beruf "
    "employment memployment employed selfemp union contract fullpart parttime parttimejob",
    "schooling": "pe040 education educ meducation feducation heducation schooling school college hcollege hschool "
    "degree isced bildung diploma",
    "measure": "height stature size weightkg",
    "money": "income incomes wage wages salary salaries earning earnings earningsmonth earningshour pay tax taxes "
    "expenditure expense expenses cost costs debt loan revenue turnover profit sales assets wealth capital price "
    "rent benefit benefits pension fedtax statetax einkommen lohn gehalt steuer umsatz salaire revenu ingreso renta",
    "sensitive": "diagnosis diagnose disease illness health hiv cancer status death died mortality chapter icd "
    "treatment trt drug medication score grade test result affairs deny denied default crime arrest vote party "
    "opinion rating visits hospital disability insurance medicaid",
    "note": "note notes comment comments remark remarks text freetext description bemerkung kommentar memo",
    "date": "date day datetime timestamp datum visit admission discharge",
    "time": "year month hour minute quarter week jahr monat yr",
}  # fmt: skip
#: Incomes of persons and households in EU-SILC, whose names are the same all over Europe.
_SILC_MONEY = re.compile(r"[hp]y[0-9]{3}[gn]?")
_WORDS = {name: frozenset(words.split()) for name, words in MEANINGS.items()}
#: Shorter words are found in too many others: age in wage and mortgage.
_LEAST_LETTERS = 5
_CUT = re.compile(r"[^a-z0-9]+")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def words_of(name: str) -> tuple[str, ...]:
    """The words of a name, without accents, in small letters.

    >>> words_of("birthYear"), words_of("sample.yr"), words_of("UTILITYID"), words_of("id_2")
    (('birth', 'year'), ('sample', 'yr'), ('utilityid',), ('id', '2'))
    """
    plain = unicodedata.normalize("NFKD", _HUMP.sub(" ", name)).encode("ascii", "ignore").decode().lower()
    return tuple(word for word in _CUT.split(plain) if word)


def meanings_of(name: str) -> tuple[str, ...]:
    """What a name may mean, in the order of the table.

    >>> meanings_of("birthYear"), meanings_of("net_income"), meanings_of("UTILITYID"), meanings_of("x1")
    (('birth', 'time'), ('money',), ('id',), ())
    """
    words = words_of(name)
    joined = ("".join(words),)
    said = [meaning for meaning, table in _WORDS.items() if any(_means(word, table) for word in words + joined)]
    return (*said, "money") if _SILC_MONEY.fullmatch(joined[0]) else tuple(said)


def _means(word: str, table: frozenset[str]) -> bool:
    if word in table or word.rstrip("0123456789") in table:
        return True
    is_number_of = word.endswith("id") and "id" in table and len(word) > _LEAST_LETTERS
    return is_number_of or any(len(w) >= _LEAST_LETTERS and (word.startswith(w) or word.endswith(w)) for w in table)


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
STARTER_K = 5
_SHARE_BELOW_K = 0.01
_MOST_BLOCKING = 4
#: Continuous figures have more different values.
_CONTINUOUS = 20

QUASI, BLOCKING, CONFIDENTIAL, DROP, IDENTIFIERS, WEIGHT = (
    "quasi_identifiers",
    "blocking",
    "confidential",
    "drop",
    "identifiers",
    "weight",
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
    proposals = _with_weight(_with_blocking(proposals, sample))
    if not any(one.role == QUASI for one in proposals):
        has_people = any(_OF_PEOPLE & set(meanings_of(one.column.name)) or one.column.tells_sex for one in proposals)
        proposals = [_without_names(one, has_people) for one in proposals]
    return tuple(proposals)


def _with_weight(proposals: Sequence[RoleProposal]) -> list[RoleProposal]:
    """Take the survey weight with most values, of equal ones the last, as households' stand before persons'."""
    weights = [one for one in proposals if "weight" in meanings_of(one.column.name) and _weighs(one.column)]
    if not weights:
        return list(proposals)
    chosen = max(enumerate(weights), key=lambda pair: (pair[1].column.distinct, pair[0]))[1]
    role = replace(chosen, role=WEIGHT, reason="a survey weight: groups get weighted means, and totals are kept")
    return [role if one is chosen else one for one in proposals]


def _weighs(column: ColumnProfile) -> bool:
    """Tell whether every record has a number above 0."""
    is_number = column.is_numeric and column.type.startswith(("int", "uint", "float", "double", "decimal"))
    is_positive = not column.zeros and not (column.low or "").startswith("-")
    return is_number and is_positive and not column.missing and not column.codes and column.distinct > 1


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
        len(keys) >= _RECORDS_OF_A_KEY * len(sizes) and sizes[sizes < STARTER_K].sum() <= _SHARE_BELOW_K * len(keys)
    )


#: With more of them groups are so wide that averages say little; what is refused beyond that is dropped.
_MOST_AVERAGED = 20
#: What is refused of all confidential columns together, and not of some of them.
_OF_ALL = ("jointly_unique", "ties_few_records")


#: What a plan with some roles would be refused for.
Look: TypeAlias = Callable[[Sequence[RoleProposal]], FirstLook]


def look_at_rows(source: Input, table: pa.Table, proposals: Sequence[RoleProposal]) -> FirstLook:
    roles: dict[str, Any] = {}
    # Blocking columns go from general to fine.
    for proposal in sorted(proposals, key=lambda one: one.column.distinct if one.role == BLOCKING else 0):
        if proposal.role == WEIGHT:
            roles[WEIGHT] = proposal.column.name
        else:
            roles.setdefault(proposal.role, []).append(proposal.column.name)
    has_missing = any(proposal.column.missing for proposal in proposals if proposal.role == QUASI)
    spec = {
        "name": "look",
        "k": STARTER_K,
        "input": source,
        "output": {"url": "release"},
        "work": {"url": "work"},
        "roles": roles,
        "missing": "separate" if has_missing else "error",
    }
    return trial_survey(ReleaseSpec.model_validate(spec), table)


def without_refusals(proposals: Sequence[RoleProposal], look_at_roles: Look) -> tuple[RoleProposal, ...]:
    """Give other roles to columns for which a plan would be refused."""
    settled = tuple(proposals)
    while any(proposal.role == QUASI for proposal in settled):
        try:
            look = look_at_roles(settled)
        except (DataError, SpecError):  # which the plan says, with the place in the spec
            break
        alone = {refused.columns[0]: refused for refused in look.disclosures if len(refused.columns) == 1}
        if alone:
            settled = _moved(settled, alone)
        elif look.disclosures:
            settled = _fewest_moved(settled, look_at_roles, look.disclosures[0])
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
    proposals: Sequence[RoleProposal], look_at_roles: Look, refused: Disclosure
) -> tuple[RoleProposal, ...]:
    """Move as few columns as suffice for what several are refused for together."""
    distinct = {proposal.column.name: proposal.column.distinct for proposal in proposals}
    order = sorted(refused.columns, key=lambda name: -distinct[name])

    def moved(n: int) -> tuple[RoleProposal, ...]:
        return _moved(proposals, dict.fromkeys(order[:n], refused))

    def suffice(n: int) -> bool:
        left = look_at_roles(moved(n)).disclosures
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
