"""How often real files are refused for what their confidential columns would disclose.

    python tests/functional/disclosures.py FOLDER

The folder has the files as CSV, as R's ``write.csv(x, "NAME.csv", row.names = FALSE, na = "")`` writes eusilc and ses
(package laeken), CPS1985, CPS1988, DoctorVisits, HMDA, CreditCard, PSID1976 and NMES1988 (AER), flchain, colon and
rotterdam (survival) and flights (nycflights13); census, tarragona and eia lie in ``tests/reference/data``. Files that
are not there are left out. For each, with roles as somebody would choose them, it prints what a plan would refuse and
what it would tell.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pyarrow as pa

from microagg_core.privacy.disclosures import Disclosure
from microagg_core.steps.routing import load_survey
from releasing.runs import run_stages, start, write_release

_ROLES = ("quasi_identifiers", "blocking", "confidential", "drop")
_REFERENCE = Path(__file__).resolve().parents[1] / "reference" / "data"


@dataclass(frozen=True)
class Choice:
    """The roles that somebody would give a file's columns; the columns that are not named are dropped."""

    file: str
    quasi_identifiers: str
    blocking: str = ""
    #: Empty: all that have no other role.
    confidential: str = ""
    drop: str = ""

    def roles(self, columns: Sequence[str]) -> dict[str, list[str]]:
        """As a spec has them."""
        named = {role: getattr(self, role).split() for role in _ROLES}
        taken = {name for names in named.values() for name in names}
        named["drop" if self.confidential else "confidential"] += [name for name in columns if name not in taken]
        return named


CHOICES = (
    Choice("eusilc", "age eqSS", "db040 rb090", "py010n py050n py090n py100n hy040n hy050n pl030 pb220a", ""),
    Choice("eusilc", "age hsize", "db040 rb090", "eqIncome pl030 pb220a"),
    Choice("ses", "hoursPaid holiday", "location sex", "earningsHour education occupation contract"),
    Choice("CPS1985", "age education", "gender region", "wage occupation sector union married"),
    Choice("CPS1985", "age education", "gender region", "wage experience occupation sector union married"),
    Choice("CPS1988", "education experience", "region ethnicity", "wage smsa parttime"),
    Choice("DoctorVisits", "age income", "gender", ""),
    Choice("HMDA", "pirat hirat lvrat", "afam", ""),
    Choice("CreditCard", "age income", "owner", ""),
    Choice("PSID1976", "age education hage heducation", "city", "fincome hwage wage hours hhours"),
    Choice("NMES1988", "age school income", "region gender", ""),
    Choice("flchain", "age", "sex sample.yr", ""),
    Choice("colon", "age", "sex", "", "id study"),
    Choice("rotterdam", "age year", "meno", "", "pid"),
    Choice("census", "TAXINC POTHVAL", "", "FEDTAX FICA"),
    Choice("census", "AFNLWGT AGI PTOTVAL", "", ""),
    Choice("tarragona", "FIXED.ASSETS CURRENT.ASSETS SALES LABOR.COSTS", "", ""),
    Choice("eia", "RESREVENUE RESSALES COMREVENUE COMSALES", "", "", "UTILITYID"),
    Choice("flights", "distance air_time", "origin carrier", "dep_delay arr_delay month day hour"),
)


def disclosures_of(table: pa.Table, roles: dict[str, list[str]]) -> tuple[Disclosure, ...]:
    """What the survey of a release of these rows finds."""
    with tempfile.TemporaryDirectory() as folder:
        release = start(write_release(Path(folder), [table], roles=roles, missing="separate"))
        run_stages(release, "survey")
        return load_survey(release.run.pieces(release.reads("survey")), release.layout).disclosures


def main() -> None:
    """Print what every choice comes to."""
    folders = (Path(sys.argv[1]), _REFERENCE)
    for choice in CHOICES:
        paths = [folder / f"{choice.file}.csv" for folder in folders if (folder / f"{choice.file}.csv").exists()]
        if not paths:
            continue
        frame = pd.read_csv(paths[0], low_memory=False)
        table = pa.Table.from_pandas(frame, preserve_index=False)
        disclosures = disclosures_of(table, choice.roles(table.column_names))
        print(f"\n{choice.file}: {table.num_rows} records, quasi-identifiers {choice.quasi_identifiers}")
        for one in disclosures:
            print(f"  {'REFUSED' if one.is_refused else 'told   '} {one.sentence()}")


if __name__ == "__main__":
    main()
