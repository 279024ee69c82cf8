"""Propose a role for each column, with a reason, so that a plan refuses none of them."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from microagg_core.arrays import Ints
from microagg_core.data.places import Input
from microagg_core.data.tables.hashing import hash_rows, missing_in, one_array
from microagg_core.errors import DataError, SpecError
from microagg_core.inspect.disclosures import Disclosure, in_percent
from microagg_core.profile.columns import ColumnProfile
from microagg_core.profile.notations import CODES
from microagg_core.release.planning import trial_survey
from microagg_core.release.steps.survey import MOST_CODES
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
    "time": "year month hour minute quarter week jahr monat yr period wave",
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
#: More categories than these, or than this share of the records but for a few, tell a few records apart.
_MANY_CATEGORIES, _SHARE_OF_CATEGORIES, _FEW_CATEGORIES = 1000, 0.05, 10
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

QUASI, BLOCKING, CONFIDENTIAL = "quasi_identifiers", "blocking", "confidential"
DROP, IDENTIFIERS, WEIGHT = "drop", "identifiers", "weight"
_KNOWN_OUTSIDE = "known from outside"
_UNKNOWN = "nothing tells whether others know it: confidential, if nobody does"
#: Of blocking columns these come first, in this order, where not all can be.
_SEEN = ("sex", "place", "group", "job", "family", "schooling", "age", "birth", "career")
_NO_NUMBER_LACKS = "as no number may where units have several rows: fill them in"
_OF_PEOPLE = {"sex", "age", "birth", "group", "family", "schooling"}
_MEASURED = {"birth": "tells the age", "age": "a number", "career": "a number", "family": "a number",
             "schooling": "a number", "measure": "can be seen", "date": "a date", "time": "a date"}  # fmt: skip
#: Kinds of few whole numbers, by what their name means, in the order in which that counts; else they may be codes.
_KIND_OF = {"schooling": "ordinal", "family": "number", "age": "number", "birth": "number", "career": "number",
            "measure": "number", "time": "number", "money": "number"}  # fmt: skip


@dataclass(frozen=True)
class SeveralProposal:
    """Units of several rows: what names them, and what is the same in all their rows."""

    id: str
    units: int
    rows: int
    #: Rows of which nobody knows whose they are.
    nameless: int
    #: Rows of the units with fewest and with most.
    least: int
    most: int
    #: Columns with one value in each unit; and those that tell thereby that these are units.
    same: frozenset[str]
    telling: tuple[str, ...]
    #: The column that tells the rows of a unit apart.
    row: str | None
    #: The most rows of a unit that are to be released; by which column the newest; and what that leaves out.
    at_most: int | None
    by: str | None
    left_out: int
    cut_units: int

    def fields(self, proposals: Sequence[RoleProposal]) -> dict[str, Any]:
        """Write ``unit`` as a spec has it, beside these roles."""
        newest = {"keep": "newest", "by": self.by} if self.by else {}
        return {
            "id": [self.id],
            "rows": {"at_most": self.at_most, **newest} if self.at_most else "several",
            **({"row": [self.row]} if self.row else {}),
            **({"per_unit": quasi} if (quasi := self.per_unit(proposals)) else {}),
        }

    def per_unit(self, proposals: Sequence[RoleProposal]) -> list[str]:
        return [one.column.name for one in proposals if one.role == QUASI and one.column.name in self.same]


@dataclass(frozen=True)
class RoleProposal:
    column: ColumnProfile
    role: str
    reason: str
    #: Whether units have several rows, which can lack no number.
    is_of_several: bool = False

    @property
    def kind(self) -> str | None:
        """The kind that a quasi-identifier is declared with: a text, or few whole numbers, which may be codes."""
        column, meanings = self.column, meanings_of(self.column.name)
        if self.role != QUASI or (column.is_numeric and not (column.is_whole and column.distinct <= MOST_CODES)):
            return None
        if not column.is_numeric:
            return "ordinal" if column.is_ordered else "nominal"
        known = next((one for one in _KIND_OF if one in meanings), None)
        return _KIND_OF[known] if known else "nominal"

    @property
    def declared(self) -> dict[str, str]:
        """List what a quasi-identifier is declared with, beside its name."""
        lacks = self.is_of_several and self.kind == "nominal" and self.column.missing
        return ({"kind": self.kind} if self.kind else {}) | ({"missing": "category"} if lacks else {})

    @property
    def in_words(self) -> str:
        return ", ".join([self.role, *(f"{field}: {value}" for field, value in self.declared.items())])


def proposed_roles(
    columns: Sequence[ColumnProfile], sample: pa.Table, several: SeveralProposal | None = None
) -> tuple[RoleProposal, ...]:
    """Propose a role for each column, in their order; ``sample`` is what was profiled."""
    proposals = [by_itself(column) for column in columns]
    if several is not None:
        proposals = [_of_several(one, several) for one in proposals]
    proposals = _with_weight(_with_blocking(proposals, sample, several), several)
    if not any(one.role == QUASI and one.reason != _UNKNOWN for one in proposals):
        has_people = any(_OF_PEOPLE & set(meanings_of(one.column.name)) or one.column.tells_sex for one in proposals)
        proposals = [_without_names(one, has_people) for one in proposals]
    return tuple(_not_too_many([_filled(one) for one in proposals]))


def _filled(proposal: RoleProposal) -> RoleProposal:
    """Drop what lacks values, where it may lack none."""
    lacks = proposal.is_of_several and proposal.column.missing and "missing" not in proposal.declared
    if proposal.role != QUASI or not lacks:
        return proposal
    return replace(proposal, role=DROP, reason=f"{proposal.reason}; but values are missing, {_NO_NUMBER_LACKS}")


def _not_too_many(proposals: Sequence[RoleProposal]) -> Iterator[RoleProposal]:
    """Drop columns that are quasi-identifiers for want of anything that tells, where there are many others."""
    room = _MOST_AVERAGED - sum(one.role == QUASI and one.reason != _UNKNOWN for one in proposals)
    many = f"{_UNKNOWN}; but {_MOST_AVERAGED} quasi-identifiers are many already"
    for one in proposals:
        is_unknown = one.role == QUASI and one.reason == _UNKNOWN
        room -= is_unknown
        yield replace(one, role=DROP, reason=many) if is_unknown and room < 0 else one


def _of_several(proposal: RoleProposal, several: SeveralProposal) -> RoleProposal:
    """Take what names units and their rows for identifiers, and block by nothing that differs within units."""
    name, one = proposal.column.name, replace(proposal, is_of_several=True)
    if name == several.id:
        return replace(one, role=IDENTIFIERS, reason=f"names {several.units:,} units of several rows")
    if name == several.row:
        return replace(one, role=IDENTIFIERS, reason="tells the rows of a unit apart")
    if one.role == BLOCKING and name not in several.same:
        role, reason = _otherwise(one.column)
        differs = f"categories, {_KNOWN_OUTSIDE}, which differ within units"
        return replace(one, role=role, reason=differs if role == QUASI else reason)
    return one


def _with_weight(proposals: Sequence[RoleProposal], several: SeveralProposal | None) -> list[RoleProposal]:
    """Take the survey weight with most values, of equal ones the last, as households' stand before persons'."""
    weights = [one for one in proposals if "weight" in meanings_of(one.column.name) and _weighs(one.column)]
    weights = [one for one in weights if several is None or one.column.name in several.same]
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


def by_itself(column: ColumnProfile) -> RoleProposal:
    if column.is_nested:
        return RoleProposal(column, DROP, "of a type that cannot be released")
    if column.distinct <= 1:
        return RoleProposal(column, DROP, "one value in every record" if column.distinct else "it has no values")
    meanings = meanings_of(column.name)
    if "weight" in meanings and column.is_numeric:
        return RoleProposal(column, CONFIDENTIAL, "a sampling weight; it may tell the stratum, so round it if it does")
    if reason := _names_somebody(column, meanings):
        return RoleProposal(column, IDENTIFIERS, reason)
    return RoleProposal(column, *(_of_number if column.is_numeric else _of_text)(column, meanings))


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


def _of_text(column: ColumnProfile, meanings: Sequence[str]) -> tuple[str, str]:
    differing = column.distinct / max(1, column.valid)
    if "note" in meanings or ((column.longest or 0) > _LONG_TEXT and differing > _DIFFERING_SHARE):
        return DROP, "free text, which may name anybody"
    if column.remark and column.remark != CODES:
        return DROP, f"{column.remark}; then look again"
    if "bool" not in column.type and "string" not in column.type and column.type != "text":
        return DROP, f"{column.type}, which nobody can look over"
    if (_seen(meanings) and "money" not in meanings) or column.tells_sex:
        return BLOCKING, f"categories, {_KNOWN_OUTSIDE}"
    if not _has_few_categories(column):
        return DROP, _too_many(column)
    return _by_names(meanings)


def _of_number(column: ColumnProfile, meanings: Sequence[str]) -> tuple[str, str]:
    seen = _seen(meanings)
    if column.type == "bool" and seen:
        return BLOCKING, f"two categories, {_KNOWN_OUTSIDE}"
    if column.type.startswith(("date", "timestamp")) and "sensitive" not in meanings:
        return QUASI, "a date, which others may know"
    if "money" in meanings or "sensitive" in meanings:
        return _by_names(meanings)
    if seen in ("sex", "group", "job") or (seen == "place" and "float" not in column.type):
        return BLOCKING, f"codes, {_KNOWN_OUTSIDE}"
    measured = next((one for one in _MEASURED if one in meanings), None)
    if measured or seen:
        return QUASI, f"{_MEASURED.get(measured or '', 'a number')}, {_KNOWN_OUTSIDE}"
    return _by_names(meanings)


def _seen(meanings: Sequence[str]) -> str | None:
    return next((one for one in _SEEN if one in meanings), None)


def _has_few_categories(column: ColumnProfile) -> bool:
    return column.distinct <= min(_MANY_CATEGORIES, max(_FEW_CATEGORIES, _SHARE_OF_CATEGORIES * column.valid))


def _too_many(column: ColumnProfile) -> str:
    return f"{column.distinct:,} categories tell a few records apart: recode them into fewer, or block by coarser ones"


def _otherwise(column: ColumnProfile) -> tuple[str, str]:
    """Say what becomes of categories that others know, where too few records would be left to block by them too."""
    if column.type == "bool":
        return QUASI, f"yes or no, {_KNOWN_OUTSIDE}"
    if not _has_few_categories(column):
        return DROP, f"{_KNOWN_OUTSIDE}, and {_too_many(column)}"
    if column.is_numeric and not column.is_whole:
        return DROP, f"codes, {_KNOWN_OUTSIDE}, which have no mean: as whole numbers they could be of kind nominal"
    return QUASI, f"categories, {_KNOWN_OUTSIDE}; blocking by them too would leave too few records a key"


def _by_names(meanings: Sequence[str]) -> tuple[str, str]:
    """Take a column for known from outside, unless its name says that others do not know it."""
    if "money" in meanings:
        return CONFIDENTIAL, "money, which others do not know"
    if "sensitive" in meanings:
        return CONFIDENTIAL, "sensitive, by its name"
    return QUASI, _UNKNOWN


def _without_names(proposal: RoleProposal, has_people: bool) -> RoleProposal:
    """Take continuous numbers where none is known from outside by its name; of firms, money too."""
    column, meanings = proposal.column, set(meanings_of(proposal.column.name))
    is_private = bool(meanings & ({"weight", "money", "sensitive"} if has_people else {"weight"}))
    if proposal.role == CONFIDENTIAL and column.is_numeric and column.distinct > _CONTINUOUS and not is_private:
        return replace(proposal, role=QUASI, reason="no name tells what others know, so all continuous figures")
    return proposal


def _with_blocking(
    proposals: Sequence[RoleProposal], sample: pa.Table, several: SeveralProposal | None
) -> list[RoleProposal]:
    """Block by as many columns as leave enough records a key; the others have the role that is left to them.

    Where units have several rows, those of equally many are blocks of their own, and units are counted.
    """
    blocking = (one for one in proposals if one.role == BLOCKING)
    # What has a mean comes last: it need not be dropped.
    candidates = sorted(blocking, key=lambda one: (one.column.is_numeric, _rank(one), one.column.distinct))
    sample, keys = (sample, np.zeros(sample.num_rows, dtype=np.int64)) if several is None else units_of(sample, several)
    chosen: list[str] = []
    for one in candidates:
        finer = _finer(keys, sample.column(one.column.name))
        if len(chosen) < _MOST_BLOCKING and _is_filled(finer):
            keys = finer
            chosen.append(one.column.name)
    settled = []
    for one in proposals:
        if one.role == BLOCKING and one.column.name not in chosen:
            role, reason = _otherwise(one.column)
            one = replace(one, role=role, reason=reason)
        settled.append(one)
    return settled


def _rank(proposal: RoleProposal) -> int:
    seen = _seen(meanings_of(proposal.column.name))
    return _SEEN.index(seen) if seen else len(_SEEN)


def units_of(sample: pa.Table, several: SeveralProposal) -> tuple[pa.Table, Ints]:
    """Select the first row of each unit, and count the rows of each that are to be released."""
    ids = one_array(sample.column(several.id))
    named = sample.filter(pa.array(~missing_in(ids)))
    hashes = hash_rows([one_array(named.column(several.id))], named.num_rows, 0)
    _, first, sizes = np.unique(hashes, return_index=True, return_counts=True)
    return named.take(pa.array(first)), np.minimum(sizes, several.at_most or several.most)


def _finer(keys: Ints, column: pa.ChunkedArray) -> Ints:
    """Number keys from 0 by what was there and one more column; missing values are a category."""
    codes = one_array(column).dictionary_encode(null_encoding="encode").indices.to_numpy(zero_copy_only=False)
    together: Ints = np.unique(keys * (int(codes.max(initial=0)) + 1) + codes, return_inverse=True)[1]
    return together


def _is_filled(keys: Ints) -> bool:
    sizes = np.bincount(keys)
    n_below_k = int(sizes[sizes < STARTER_K].sum())
    return len(keys) >= _RECORDS_OF_A_KEY * len(sizes) and n_below_k <= _SHARE_BELOW_K * len(keys)


#: With more of them groups are so wide that averages say little; what is refused beyond that is dropped.
_MOST_AVERAGED = 20
#: What is refused of all confidential columns together, and not of some of them.
_OF_ALL = ("jointly_unique", "ties_few_records")
#: What a plan with some roles would be refused for.
Look: TypeAlias = Callable[[Sequence[RoleProposal]], tuple[Disclosure, ...]]


def missing_rule(proposals: Sequence[RoleProposal]) -> str:
    """Choose what becomes of missing quasi-identifiers; beside a weight none of their cells can be blanked."""
    if not any(one.column.missing for one in proposals if one.role == QUASI):
        return "error"
    if any(one.is_of_several for one in proposals):  # then it is a category
        return "error"
    return "separate" if any(one.role == WEIGHT for one in proposals) else "blank"


def look_at_rows(
    source: Input, table: pa.Table, several: SeveralProposal | None, proposals: Sequence[RoleProposal]
) -> tuple[Disclosure, ...]:
    """Survey the rows that were looked at; where units have several, a row of each, as a survey does."""
    roles: dict[str, Any] = {}
    # Blocking columns go from general to fine.
    for proposal in sorted(proposals, key=lambda one: one.column.distinct if one.role == BLOCKING else 0):
        name, declared = proposal.column.name, proposal.declared
        if proposal.role == WEIGHT:
            roles[WEIGHT] = name
        else:
            roles.setdefault(proposal.role, []).append({"name": name, **declared} if declared else name)
    spec = {
        "name": "look",
        "k": STARTER_K,
        "input": source,
        "output": {"url": "release"},
        "work": {"url": "work"},
        "roles": roles,
        "missing": missing_rule(proposals),
    }
    return trial_survey(ReleaseSpec.model_validate(spec), table if several is None else units_of(table, several)[0])


def without_refusals(proposals: Sequence[RoleProposal], look_at_roles: Look) -> tuple[RoleProposal, ...]:
    """Give other roles to columns for which a plan would be refused."""
    settled = tuple(proposals)
    while any(proposal.role == QUASI for proposal in settled):
        try:
            refused = look_at_roles(settled)
        except (DataError, SpecError):  # which the plan says, with the place in the spec
            break
        alone = {disclosure.columns[0]: disclosure for disclosure in refused if len(disclosure.columns) == 1}
        if alone:
            settled = _moved(settled, alone)
        elif refused:
            settled = _fewest_moved(settled, look_at_roles, refused[0])
        else:
            break
    return settled


def _fewest_moved(
    proposals: Sequence[RoleProposal], look_at_roles: Look, refused: Disclosure
) -> tuple[RoleProposal, ...]:
    """Move as few columns as suffice for what several are refused for together."""
    distinct = {proposal.column.name: proposal.column.distinct for proposal in proposals}
    order = sorted(refused.columns, key=lambda name: -distinct[name])

    def moved(n: int) -> tuple[RoleProposal, ...]:
        return _moved(proposals, dict.fromkeys(order[:n], refused))

    def suffice(n: int) -> bool:
        left = look_at_roles(moved(n))
        return not any(other.what == refused.what and len(other.columns) > 1 for other in left)

    return moved(bisect_left(range(1, len(order)), True, key=suffice) + 1 if refused.what in _OF_ALL else 1)


def _moved(proposals: Sequence[RoleProposal], refused: Mapping[str, Disclosure]) -> tuple[RoleProposal, ...]:
    """Give columns that are refused another role than confidential."""
    n_averaged = sum(proposal.role == QUASI for proposal in proposals)
    moved = []
    for proposal in proposals:
        if (disclosure := refused.get(proposal.column.name)) is not None:
            is_measured = proposal.column.is_numeric and "weight" not in meanings_of(proposal.column.name)
            is_measured &= not (proposal.is_of_several and proposal.column.missing)
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
