"""A census-like file of people who do not exist, and the release spec that goes with it.

Its blocks are skewed as real ones are: a few regions and districts hold most of the people, and a few
combinations of region, district and sex hold fewer than five. Confidential values go with age, education and
means, and none of them comes near to naming a person.
"""

from __future__ import annotations

import os
import secrets
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from microagg_core.store.failures import explaining

N_PEOPLE = 200_000
N_PARTS = 4
_SEED = 2026
_CENSUS_DAY = np.datetime64("2026-03-21", "D")
_REGIONS = (
    "Port Amalie", "Northmoor", "Eastvale", "Lower Tarn", "Upper Tarn", "Brackenshire",
    "Côte d'Ambre", "Saltmarsh", "Kestrel Hills", "Vale of Orrin", "Stonefield", "Far Skerries",
)  # fmt: skip
_DISTRICTS = ("Centre", "Riverside", "North", "South", "West", "Old Town", "Hills", "Outlying")
_SEXES = ("female", "male", "unspecified")
#: Only the registers of the first regions know a third entry, and few people have it.
_UNSPECIFIED_SHARE, _UNSPECIFIED_REGIONS = 0.004, 3
_REGION_STEEPNESS, _DISTRICT_STEEPNESS = 1.0, 1.6
#: In the last district of the last region next to nobody lives: 4 of 200,000.
_SHARE_OF_LAST_DISTRICT = 2e-5
_EDUCATION = ("none", "primary", "secondary", "vocational", "bachelor", "master", "doctorate")
_EDUCATION_SHARES = (0.02, 0.13, 0.33, 0.24, 0.17, 0.09, 0.02)
_YEARS_OF_SCHOOL = np.array([4, 8, 12, 13, 15, 17, 21])
#: Codes keep their leading zeros; '01' is nobody's number 1.
_DIAGNOSES = ("00", "01", "07", "C50", "E11", "F32", "I10", "J45", "M54", "N18")
_DIAGNOSIS_WEIGHTS = np.array([60.0, 5, 4, 0.5, 2, 6, 3, 5, 7, 0.6])
_DIAGNOSIS_AGEING = np.array([-1.2, 0.0, -0.3, 1.6, 1.9, 0.0, 2.4, -0.4, 0.9, 2.2])


def make_people(n: int = N_PEOPLE, seed: int = _SEED) -> pa.Table:
    """A table of ``n`` made-up people; the same ``n`` and ``seed`` give the same table.

    >>> make_people(3, seed=1).column("person_id").to_pylist()
    ['P0000001', 'P0000002', 'P0000003']
    """
    rng = np.random.default_rng([seed, n])
    region, district = _places(rng, n)
    sex = _sex(rng, region)
    age_days = (_ages(rng, n) * 365.25).astype(np.int64)
    age = age_days / 365.25
    education = _education(rng, age)
    # What a household can afford shows in its income, its dwelling and how far it lives from work.
    means = rng.normal(size=n) + 0.12 * (_YEARS_OF_SCHOOL[education] - 12) - 0.04 * region
    hours = _weekly_hours(rng, age)
    income = _monthly_income(rng, means, age, sex, hours)
    return pa.table(
        {
            "person_id": pa.array(np.char.mod("P%07d", np.arange(1, n + 1)).tolist(), pa.string()),
            "region": _texts(_REGIONS, region),
            "district": _texts([f"{r}, {d}" for r in _REGIONS for d in _DISTRICTS], region * 8 + district),
            "sex": _texts(_SEXES, sex),
            "birth_date": pa.array((_CENSUS_DAY - age_days.astype("timedelta64[D]")), pa.date32()),
            "dwelling_area_m2": pa.array(_dwelling_area(rng, means, district), pa.int32()),
            "commute_km": pa.array(_commute(rng, district, hours), pa.float64()),
            "year_of_arrival": pa.array(_year_of_arrival(rng, age_days), pa.int16()),
            "education": _texts(_EDUCATION, education),
            "diagnosis": _texts(_DIAGNOSES, _diagnosis(rng, age)),
            "monthly_income": pa.array(income, pa.int32()),
            "benefits": pa.array(rng.random(n) < np.where(income < 1200, 0.55, 0.04), pa.bool_()),
            "weekly_hours": pa.array(hours, pa.int8(), mask=hours == 0),
        }
    )


def write_demo(folder: str | Path, n: int = N_PEOPLE, seed: int = _SEED) -> Path:
    """Write the people as four Parquet files below ``folder``, with a spec and a key, and return the spec's path.

    Files that are there are replaced, by the same bytes for the same ``n`` and ``seed``; but the key of the series
    stays, so that releases of other days go on with it. StorageError where the folder cannot be written.
    """
    folder = Path(folder)
    people = make_people(n, seed)
    with explaining(str(folder), "writing the demo to"):
        (folder / "input").mkdir(parents=True, exist_ok=True)
        ends = np.linspace(0, n, N_PARTS + 1).astype(int)
        for part, (start, end) in enumerate(pairwise(ends)):
            pq.write_table(people.slice(start, end - start), folder / "input" / f"people-{part}.parquet")
        spec = folder / "release.yaml"
        spec.write_text(_SPEC, encoding="utf-8")
        _draw_key(folder / "series.key")
    return spec


def _draw_key(path: Path) -> None:
    """A key that its owner alone can read, unless there is one."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return
    with open(descriptor, "w", encoding="ascii") as file:  # noqa: PTH123 - a descriptor
        file.write(secrets.token_hex(32) + "\n")


def _draw(rng: np.random.Generator, n: int, shares: NDArray[np.float64]) -> NDArray[np.int64]:
    """``n`` positions of ``shares``, each drawn with its share."""
    edges = np.cumsum(shares / shares.sum())[:-1]
    return np.searchsorted(edges, rng.random(n), side="right").astype(np.int64)


def _places(rng: np.random.Generator, n: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Region and district of each person: both follow Zipf's law, the second within the first."""
    regions = 1 / np.arange(1, len(_REGIONS) + 1) ** _REGION_STEEPNESS
    districts = 1 / np.arange(1, len(_DISTRICTS) + 1) ** _DISTRICT_STEEPNESS
    shares = np.outer(regions / regions.sum(), districts / districts.sum())
    shares[-1, -1] = _SHARE_OF_LAST_DISTRICT
    place = _draw(rng, n, shares.ravel())
    return place // len(_DISTRICTS), place % len(_DISTRICTS)


def _sex(rng: np.random.Generator, region: NDArray[np.int64]) -> NDArray[np.int64]:
    unspecified = (rng.random(len(region)) < _UNSPECIFIED_SHARE) & (region < _UNSPECIFIED_REGIONS)
    return np.where(unspecified, 2, (rng.random(len(region)) < 0.494).astype(np.int64))


def _texts(names: tuple[str, ...] | list[str], positions: NDArray[np.int64]) -> pa.Array:
    return pa.array(names, pa.string()).take(pa.array(positions))


def _ages(rng: np.random.Generator, n: int) -> NDArray[np.float64]:
    """Ages in years: level up to the fifties, then thinning out, nobody above 104."""
    middle = rng.triangular(0, 48, 97, n)
    ages: NDArray[np.float64] = np.where(rng.random(n) < 0.25, rng.uniform(0, 30, n), middle)
    ages += rng.gamma(1.0, 1.2, n).clip(0, 7)
    return ages


def _education(rng: np.random.Generator, age: NDArray[np.float64]) -> NDArray[np.int64]:
    """The level reached, which nobody has before the age for it."""
    levels = _draw(rng, len(age), np.array(_EDUCATION_SHARES))
    most = np.searchsorted([10, 16, 18, 20, 23, 26], age, side="right")
    return np.minimum(levels, most)


def _weekly_hours(rng: np.random.Generator, age: NDArray[np.float64]) -> NDArray[np.int64]:
    """Paid hours a week, 0 for those who do not work."""
    works = (age >= 16) & (rng.random(len(age)) < np.where(age < 66, 0.74, 0.07))
    usual = np.array([8, 16, 20, 24, 30, 35, 38, 40, 45, 50])
    shares = np.array([3.0, 5, 9, 6, 8, 14, 20, 24, 7, 4])
    return np.where(works, usual[_draw(rng, len(age), shares)], 0)


def _monthly_income(
    rng: np.random.Generator,
    means: NDArray[np.float64],
    age: NDArray[np.float64],
    sex: NDArray[np.int64],
    hours: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Euros a month, rounded to 50 and top-coded, as a statistical office would do."""
    experience = np.clip(age - 18, 0, 40) / 40
    log_wage = 2.6 + 0.33 * means + 0.5 * experience + 0.08 * (sex == 1) + rng.normal(0, 0.18, len(age))
    wages = np.exp(log_wage) * hours * 4.33
    pension = np.where(age >= 66, np.exp(7.0 + 0.22 * means), 0.0)
    steps: NDArray[np.float64] = np.clip((wages + pension) / 50, 0, 240).round()
    return steps.astype(np.int64) * 50


def _dwelling_area(
    rng: np.random.Generator, means: NDArray[np.float64], district: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Square metres of the dwelling: larger with means and away from the centre."""
    area = np.exp(4.25 + 0.16 * means + 0.05 * district + rng.normal(0, 0.25, len(means)))
    return np.clip(area, 14, 480).round().astype(np.int64)


def _commute(rng: np.random.Generator, district: NDArray[np.int64], hours: NDArray[np.int64]) -> NDArray[np.float64]:
    """Kilometres to work or school, to 100 m; those who do not work go to something nearer."""
    usual = (3.0 + 2.5 * district) * np.where(hours > 0, 1.6, 0.6)
    return np.clip(usual * rng.lognormal(0, 0.7, len(hours)), 0.1, 180).round(1)


def _year_of_arrival(rng: np.random.Generator, age_days: NDArray[np.int64]) -> NDArray[np.int64]:
    """The year in which the person came to the district: of birth for a third, and recent for most others."""
    born = (_CENSUS_DAY - age_days.astype("timedelta64[D]")).astype("datetime64[Y]").astype(np.int64) + 1970
    stayed = rng.exponential(11.0, len(age_days)).astype(np.int64)
    native = rng.random(len(age_days)) < 0.33
    return np.where(native, born, np.maximum(born, 2026 - stayed))


def _diagnosis(rng: np.random.Generator, age: NDArray[np.float64]) -> NDArray[np.int64]:
    """The main diagnosis of the last year, '00' for none; some grow likelier with age."""
    weights = _DIAGNOSIS_WEIGHTS * np.exp(np.outer((age - 40) / 50, _DIAGNOSIS_AGEING))
    edges = np.cumsum(weights, axis=1)
    drawn: NDArray[np.int64] = (rng.random((len(age), 1)) * edges[:, -1:] > edges[:, :-1]).sum(axis=1)
    return drawn.astype(np.int64)


_SPEC = """\
# A release of 200,000 made-up people. Run it with:  microagg run release.yaml
# or look first at what it would do:                 microagg plan release.yaml

name: people
id: date                  # one release a day, named after it; or an id of your own
seed: 0
k: 5                      # every combination of quasi-identifiers and blocking values: at least 5 people
algorithm: mdav           # or, with parameters:  {name: v_mdav, gamma: 0.2}

input:
  url: input/people-*.parquet   # paths start at this file's folder; s3://bucket/... works the same
output:
  url: release
work:
  url: work               # private: staged rows while it runs, audits afterwards

roles:                    # every column has exactly one
  identifiers: [person_id]                     # dropped
  quasi_identifiers:                           # microaggregated together
    - birth_date
    - dwelling_area_m2
    - commute_km
    - year_of_arrival
  blocking: [region, district, sex]            # kept, and never mixed; from general to fine
  confidential:                                # released as they are
    - education
    - diagnosis
    - monthly_income
    - benefits
    - weekly_hours

unit: [person_id]         # who must not be singled out, under the same name every day
series:                   # run it again tomorrow: whoever was released keeps the values of the first day
  mode: atoms             # groups stay together for ever, so that no two days tell more than one
  leavers: ghosts         # who is gone stays as released last, until k can go together
  key_file: series.key    # private, as work is: what is remembered of people is kept under it
blocks:
  undersized: merge       # blocking values shared by fewer than k people join a neighbour
missing: error            # a quasi-identifier without a value stops the run
rounding:
  commute_km: 0.5         # released in steps of 500 m

cluster:
  local: {workers: 2, threads: 1, memory: 1GiB}
"""
