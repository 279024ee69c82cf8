"""How often the roles that are proposed for real files are those that a statistician would choose.

    python tests/functional/proposals.py FOLDER

The folder has the files as CSV, as R's ``write.csv(x, "NAME.csv", row.names = FALSE, na = "")`` writes those of the
packages laeken, AER, survival and nycflights13; census, tarragona and eia lie in ``tests/reference/data``. Files that
are not there are left out. It prints for each file how many proposals are what would be chosen first, how many would
do, and which would not; then what was proposed for what, over all files.

A choice is a letter (identifiers i, quasi-identifiers q, blocking b, confidential c, drop d); others behind it would do
as well: the file does not tell, or blocking by all that others know would leave no block with enough records. A
quasi-identifier does for what is blocked by or confidential, too: that it is masked gives nothing away.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

from microagg_core.profile.profile import profile_of

_LETTERS = {"identifiers": "i", "quasi_identifiers": "q", "blocking": "b", "confidential": "c", "drop": "d"}
_REFERENCE = Path(__file__).resolve().parents[1] / "reference" / "data"

#: Files that the rules were written with in view.
SEEN = {
    "eusilc": "db030:i hsize:q db040:b rb030:i age:q rb090:b pl030:bcd pb220a:bcd py010n:c py050n:c py090n:c py100n:c "
    "py110n:c py120n:c py130n:c py140n:c hy040n:c hy050n:c hy070n:c hy080n:c hy090n:c hy110n:c hy130n:c hy145n:c "
    "eqSS:qc eqIncome:c db090:cd rb050:cd",
    "ses": "location:bd NACE1:bd size:bd economicFinanc:bdc payAgreement:cbd IDunit:i sex:b age:bd education:bd "
    "occupation:bdc contract:bdc fullPart:bdc lengthService:bd weeks:cq hoursPaid:cq overtimeHours:cq "
    "shareNormalHours:cq holiday:cq notPaid:c earningsOvertime:c paymentsShiftWork:c earningsMonth:c earnings:c "
    "earningsHour:c weightsEmployers:cd weightsEmployees:cd weights:cd",
    "CPS1985": "wage:c education:q experience:q age:q ethnicity:bd region:bd gender:b occupation:bdc sector:bdc "
    "union:cbd married:bd",
    "CPS1988": "wage:c education:q experience:q ethnicity:bd smsa:bd region:b parttime:cbd",
    "DoctorVisits": "visits:c gender:b age:q income:cq illness:c reduced:c health:c private:c freepoor:c freerepat:c "
    "nchronic:c lchronic:c",
    "HMDA": "deny:c pirat:cq hirat:cq lvrat:cq chist:c mhist:c phist:c unemp:qc selfemp:bcd insurance:c condomin:bcd "
    "afam:bd single:bd hschool:bcd",
    "CreditCard": "card:c reports:c age:q income:cq share:c expenditure:c owner:bcd selfemp:bcd dependents:q months:cq "
    "majorcards:c active:c",
    "PSID1976": "participation:bcd hours:c youngkids:q oldkids:q age:q education:q wage:c repwage:c hhours:c hage:q "
    "heducation:q hwage:c fincome:c tax:c meducation:qc feducation:qc unemp:qc city:bd experience:q college:bd "
    "hcollege:bd",
    "NMES1988": "visits:c nvisits:c ovisits:c novisits:c emergency:c hospital:c health:c chronic:c adl:c region:b "
    "age:q afam:bd gender:b married:bd school:q income:cq employed:bcd insurance:c medicaid:c",
    "colon": "id:i study:d rx:c sex:b age:q obstruct:c perfor:c adhere:c nodes:c status:c differ:c extent:c surg:c "
    "node4:c time:cq etype:c",
    "flchain": "age:q sex:b sample.yr:qbd kappa:c lambda:c flc.grp:c creatinine:c mgus:c futime:cq death:c chapter:c",
    "rotterdam": "pid:i year:q age:q meno:cb size:c grade:c nodes:c pgr:c er:c hormon:c chemo:c rtime:cq recur:c "
    "dtime:cq death:c",
    "flights": "year:d month:q day:q dep_time:qc sched_dep_time:qc dep_delay:cq arr_time:qc sched_arr_time:qc "
    "arr_delay:cq carrier:bcd flight:idc tailnum:i origin:b dest:bd air_time:cq distance:qc hour:q minute:qc "
    "time_hour:qd",
    "census": "AFNLWGT:cdq AGI:qc EMCONTRB:qc FEDTAX:qc PTOTVAL:qc STATETAX:qc TAXINC:qc POTHVAL:qc INTVAL:qc "
    "PEARNVAL:qc FICA:qc WSALVAL:qc ERNVAL:qc",
    "tarragona": "FIXED.ASSETS:q CURRENT.ASSETS:q TREASURY:q UNCOMMITTED.FUNDS:q PAID.UP.CAPITAL:q SHORT.TERM.DEBT:q "
    "SALES:q LABOR.COSTS:q DEPRECIATION:q OPERATING.PROFIT:q FINANCIAL.OUTCOME:q GROSS.PROFIT:q NET.PROFIT:q",
    "eia": "UTILITYID:i UTILNAME:i STATE:b YEAR:qb MONTH:qb RESREVENUE:qc RESSALES:qc COMREVENUE:qc COMSALES:qc "
    "INDREVENUE:qc INDSALES:qc OTHREVENUE:qc OTHRSALES:qc TOTREVENUE:qc TOTSALES:qc",
}
#: Files that nobody looked at before the rules were done.
UNSEEN = {
    "CPSSW8": "earnings:c gender:b age:q region:b education:q",
    "CPSSW9298": "year:qbd earnings:c degree:bd gender:b age:q",
    "Fertility": "morekids:bcd gender1:bcd gender2:bcd age:q afam:bd hispanic:bd other:bcd work:cq",
    "GSS7402": "kids:q age:q education:q year:qb siblings:q agefirstbirth:q ethnicity:bd city16:bcd lowincome16:c "
    "immigrant:bcd",
    "BankWages": "job:b education:q gender:b minority:bcd",
    "CollegeDistance": "gender:b ethnicity:bd score:c fcollege:bcd mcollege:bcd home:bcd urban:bd unemp:qc wage:cq "
    "distance:qc tuition:cq education:q income:c region:b",
    "HealthInsurance": "health:c age:q limit:c gender:b insurance:c married:bd selfemp:bcd family:q region:b "
    "ethnicity:bd education:bd",
    "PSID7682": "id:i year:qb experience:q weeks:cq occupation:bcd industry:bcd south:bd smsa:bd married:bd gender:b "
    "union:cbd education:q ethnicity:bd wage:c",
    "SwissLabor": "participation:bcd income:c age:q education:q youngkids:q oldkids:q foreign:bcd",
    "TeachingRatings": "minority:bcd age:q gender:b credits:cbd beauty:cq eval:c division:cbd native:bcd tenure:bcd "
    "students:qc allstudents:qc prof:i",
    "ResumeNames": "name:i gender:b ethnicity:bd quality:cbd call:c city:bd jobs:qc experience:q honors:cbd "
    "volunteer:cbd military:cbd holes:cbd school:bcd email:cbd computer:cbd special:cbd college:bd minimum:cbd "
    "equal:cbd wanted:cbd requirements:cbd reqexp:cbd reqcomm:cbd reqeduc:cbd reqcomp:cbd reqorg:cbd industry:bcd",
    "nafld1": "id:i age:q male:bd weight:qc height:q bmi:cq case.id:i futime:cq status:c",
    "lung": "inst:bcd time:cq status:c age:q sex:b ph.ecog:c ph.karno:c pat.karno:c meal.cal:c wt.loss:cq",
    "mgus2": "id:i age:q sex:b dxyr:q hgb:c creat:c mspike:c ptime:cq pstat:c futime:cq death:c",
    "pbc": "id:i time:cq status:c trt:c age:q sex:b ascites:c hepato:c spiders:c edema:c bili:c chol:c albumin:c "
    "copper:c alk.phos:c ast:c trig:c platelet:c protime:c stage:c",
}


def proposed(path: Path) -> dict[str, str]:
    return {one.column.name: _LETTERS[one.role] for one in profile_of(str(path)).proposals}


def choices(text: str) -> dict[str, str]:
    """Column -> letters of the roles that would do, the best first."""
    letters = dict(word.rsplit(":", 1) for word in text.split())
    return {column: roles + "q" * (roles[0] in "bc") for column, roles in letters.items()}


def main(folder: Path) -> None:
    of_pairs: Counter[tuple[str, str]] = Counter()
    for title, files in (("seen before", SEEN), ("not seen before", UNSEEN)):
        totals = Counter[str]()
        for name, text in files.items():
            path = next(
                (path / f"{name}.csv" for path in (folder, _REFERENCE) if (path / f"{name}.csv").exists()), None
            )
            if path is None:
                print(f"{name}: not there")
                continue
            chosen, roles = choices(text), proposed(path)
            wrong = [f"{c} {roles[c]} for {chosen[c][0]}" for c in roles if roles[c] not in chosen[c]]
            first = sum(roles[column] == chosen[column][0] for column in roles)
            of_pairs.update((chosen[c][0], roles[c]) for c in roles)
            totals.update(columns=len(roles), first=first, do=len(roles) - len(wrong))
            print(f"{name:<16} {len(roles):>3} {first:>3} {len(roles) - len(wrong):>3}  {', '.join(wrong)}")
        print(f"{title}: {totals['columns']} columns, {totals['first']} as chosen, {totals['do']} would do\n")
    letters = "iqbcd"
    print("chosen \\ proposed  " + "  ".join(f"{letter:>4}" for letter in letters))
    for first in letters:
        print(f"{first:<18} " + "  ".join(f"{of_pairs[first, letter]:>4}" for letter in letters))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
