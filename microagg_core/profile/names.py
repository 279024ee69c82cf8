"""What names of columns say to somebody who has seen many files: a table of words, and how names are cut into them."""

from __future__ import annotations

import re
import unicodedata

#: What words in names mean, in the order in which they count. A word counts if it is one of a name's own;
#: a word of five letters or more also as the beginning or end of one (birthyear, netincome).
MEANINGS = {
    "weight": "db090 rb050 rb060 pb040 pb060 wgt wgts weights pweight fnlwgt afnlwgt finalweight sampweight "
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
