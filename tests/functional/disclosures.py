"""How often real files are refused for what their confidential columns would disclose.

    python tests/functional/disclosures.py FOLDER [--planted]

The folder has the files as CSV, as R's ``write.csv(x, "NAME.csv", row.names = FALSE, na = "")`` writes eusilc and ses
(package laeken), CPS1985, CPS1988, DoctorVisits, HMDA, CreditCard, PSID1976 and NMES1988 (AER), flchain, colon and
rotterdam (survival) and flights (nycflights13); census, tarragona and eia lie in ``tests/reference/data``. Files that
are not there are left out. For each, with roles as somebody would choose them, it prints what a plan would refuse and
what it would tell. With ``--planted`` confidential columns that complete a mean are planted in them instead, and beside
each file stands for how many records such a column tells nearly the value, by chance and after all, and what of it is
refused.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

from microagg_core.inspect.disclosures import Disclosure
from microagg_core.release.planned import SURVEY
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


#: Files, the quasi-identifier of which something is planted and another, and the unit that its remainder is taken of.
PLANTED = (
    ("eusilc", "eqIncome", "age", 10_000),
    ("ses", "earningsMonth", "hoursPaid", 1000),
    ("CPS1988", "wage", "experience", 100),
    ("DoctorVisits", "income", "age", 0.25),
    ("HMDA", "pirat", "lvrat", 0.1),
    ("CreditCard", "income", "age", 1),
    ("PSID1976", "fincome", "age", 5000),
    ("NMES1988", "income", "age", 1),
    ("census", "TAXINC", "POTHVAL", 10_000),
    ("tarragona", "SALES", "LABOR.COSTS", 10_000),
)


def planted(frame: pd.DataFrame, name: str, other: str, unit: float) -> dict[str, tuple[pd.DataFrame, list[str]]]:
    """Records with one confidential column, and their quasi-identifiers, by what the column is of one of them."""
    rng = np.random.default_rng(1)
    value, n = frame[name], len(frame)
    has_age = "age" in frame and pd.api.types.is_numeric_dtype(frame["age"])
    columns = {f"mod {unit}": (value % unit).round(9), "from median": (value - value.median()).abs()}
    columns |= {f"copy {s}": value.where(rng.random(n) < s, rng.permutation(value)) for s in (0.95, 0.85, 0.57)}
    columns |= {
        "permuted": pd.Series(rng.permutation(columns[f"mod {unit}"])),
        "noise": pd.Series(rng.integers(0, 90, n)),
    }
    made = {what: (frame[[name, other]].assign(planted=column), [name, other]) for what, column in columns.items()}
    towns = pd.Series(rng.choice(rng.choice(np.arange(10_000, 99_999), 900, replace=False), n))
    made["postcode"] = (frame[[name]].assign(postcode=towns, planted=towns % 1000), ["postcode", name])
    if has_age:
        days = (frame["age"] * 365.25 + rng.integers(0, 365, n)).round()
        born = pd.Timestamp("2020-12-31") - pd.to_timedelta(days, unit="D")
        made["birthday"] = (frame[[name]].assign(born=born, planted=born.dt.strftime("%m-%d")), ["born", name])
    return made


def plant(folders: Sequence[Path]) -> None:
    """Print what of planted columns is refused."""
    for file, name, other, unit in PLANTED:
        for path in [folder / f"{file}.csv" for folder in folders if (folder / f"{file}.csv").exists()][:1]:
            frame = pd.read_csv(path, low_memory=False)
            frame = frame.sample(min(len(frame), 5000), random_state=1).reset_index(drop=True)
            for column, (made, quasi) in planted(frame, name, other, unit).items():
                roles = {"quasi_identifiers": quasi, "confidential": ["planted"], "blocking": []}
                found = disclosures_of(pa.Table.from_pandas(made, preserve_index=False), roles)
                means = [f"{one.by_chance:.0%} {one.share:.0%}" for one in found if one.what == "completes_mean"]
                words = ", ".join(f"{one.what}{'' if one.is_refused else ' (told)'}" for one in found)
                print(f"{file:<14} {len(frame):>6} {column:<12} {', '.join(means):<9} {words}")


def disclosures_of(table: pa.Table, roles: dict[str, list[str]]) -> tuple[Disclosure, ...]:
    with tempfile.TemporaryDirectory() as folder:
        release = start(write_release(Path(folder), [table], roles=roles, missing="separate"))
        run_stages(release, "survey")
        return release.known(SURVEY).disclosures


def main() -> None:
    """Print what every choice comes to."""
    folders = (Path(sys.argv[1]), _REFERENCE)
    if "--planted" in sys.argv:
        plant(folders)
        return
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
