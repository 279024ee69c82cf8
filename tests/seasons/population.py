"""People who change from night to night; every one has a confidential number that tells the tests who he is."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv

#: The confidential column that names a person: released as it is, so that released rows tell whose they are.
TAG = "tag"
UNIT = "id"
KEYS = ("region", "town", "age", "income")
CONFIDENTIAL = (TAG, "note", "score")
ROLES = {
    "identifiers": [UNIT],
    "blocking": ["region", "town"],
    "quasi_identifiers": ["age", "income"],
    "confidential": list(CONFIDENTIAL),
}
_REGIONS = np.array(["north", "south", "east"])
#: 1,080 records of the Census Bureau, the literature's own.
_CENSUS = Path(__file__).parents[1] / "reference" / "data" / "census.csv"
#: How an id may come on another night; to anybody who looks at it, it is the same.
FORMS = {
    "text": ("P0000017", "p0000017", " P0000017 ", "P0000017\u200b", "\uff300000017"),
    "number": ("int64", "float64", "text", "leading zero"),
}


@dataclass
class Population:
    """All who are there, and all who left and may return; numbers are their tags."""

    size: int
    seed: int = 0
    #: Take values from records of the census, so that ties and zeros are real.
    is_real: bool = False
    #: The family of ids, and which form of it tonight's input has.
    family: str = "text"
    form: str = FORMS["text"][0]
    region: list[str] = field(default_factory=list)
    town: list[str] = field(default_factory=list)
    age: list[int] = field(default_factory=list)
    income: list[float] = field(default_factory=list)
    note: list[str] = field(default_factory=list)
    score: list[int] = field(default_factory=list)
    here: list[int] = field(default_factory=list)
    gone: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.draw = np.random.default_rng([self.seed, self.size])
        self._census = _census(self.draw) if self.is_real else None
        if self.family == "number":
            self.form = FORMS["number"][0]
        for _ in range(self.size):
            self.here.append(self._born())

    def come(self, n: int) -> None:
        self.here += [self._born() for _ in range(n)]

    def leave(self, n: int) -> None:
        for _ in range(min(n, len(self.here))):
            self.gone.append(self.here.pop(int(self.draw.integers(len(self.here)))))

    def come_back(self, n: int) -> None:
        """Some return who had left."""
        for _ in range(min(n, len(self.gone))):
            self.here.append(self.gone.pop(int(self.draw.integers(len(self.gone)))))

    def change_scores(self, n: int) -> None:
        for place in self.draw.choice(len(self.here), min(n, len(self.here)), replace=False):
            self.score[self.here[int(place)]] += 1

    def ids(self, people: np.ndarray) -> pa.Array:
        """Write the ids as they come tonight."""
        number = 10**10 + people.astype(np.int64)
        forms = {
            **dict.fromkeys(FORMS["text"], None),
            "int64": (number, pa.int64()),
            "float64": (number.astype(float), pa.float64()),
            "text": ([str(i) for i in number], pa.string()),
            "leading zero": ([f"000{i}" for i in number], pa.string()),
        }
        if (made := forms[self.form]) is None:
            return pa.array([self.form.replace("0000017", f"{tag:07d}") for tag in people], pa.string())
        return pa.array(*made)

    def _born(self) -> int:
        draw = self.draw
        if self._census is not None:
            return self._of_the_census(self._census[len(self.age) % len(self._census)])
        region = str(draw.choice(_REGIONS, p=[0.6, 0.3, 0.1]))
        self.region.append(region)
        self.town.append(f"{region}-{min(int(draw.geometric(0.5)), 6)}")
        self.age.append(int(draw.integers(18, 100)))
        self.income.append(float(np.round(draw.gamma(2.0, 9000.0), 2)))
        self.note.append(f"{draw.integers(0, 12):02d}")
        self.score.append(int(draw.integers(0, 50)))
        return len(self.age) - 1

    def _of_the_census(self, record: dict[str, int]) -> int:
        region = str(_REGIONS[np.searchsorted([4000, 16000], record["FEDTAX"])])
        self.region.append(region)
        self.town.append(f"{region}-{record['FEDTAX'] % 3}")
        self.age.append(record["EMCONTRB"])
        self.income.append(float(record["AGI"]))
        self.note.append(f"{record['INTVAL'] % 12:02d}")
        self.score.append(record["POTHVAL"])
        return len(self.age) - 1

    def pass_a_day(self, churn: float) -> None:
        """Some leave, some come or return, and some change; about ``churn`` of all do each."""
        draw, n = self.draw, max(len(self.here), 1)
        for _ in range(int(draw.poisson(churn * n))):
            if self.here:
                self.gone.append(self.here.pop(int(draw.integers(len(self.here)))))
        for _ in range(int(draw.poisson(churn * n))):
            if self.gone and draw.random() < 0.3:
                self.here.append(self.gone.pop(int(draw.integers(len(self.gone)))))
            else:
                self.here.append(self._born())
        self.correct(churn)

    def correct(self, churn: float) -> None:
        """Some get other values, quasi-identifiers and blocking values among them; nobody comes or leaves."""
        draw = self.draw
        for _ in range(int(draw.poisson(2 * churn * len(self.here)))):
            one = self.here[int(draw.integers(len(self.here)))]
            what = int(draw.integers(5))
            if what == 0:
                self.age[one] = int(draw.integers(18, 100))
            elif what == 1:
                self.income[one] = float(np.round(draw.gamma(2.0, 9000.0), 2))
            elif what == 2:
                self.town[one] = f"{self.region[one]}-{draw.integers(1, 7)}"
            elif what == 3:
                self.note[one] = f"{draw.integers(0, 12):02d}"
            else:
                self.score[one] = int(draw.integers(0, 50))

    def change_a_town(self, least: int) -> None:
        """All of a town get another score at once, so that changes are not always of single people."""
        if self.here:
            town = self.town[self.here[int(self.draw.integers(len(self.here)))]]
            there = [one for one in self.here if self.town[one] == town]
            for one in there if len(there) >= least else []:
                self.score[one] += 1

    def tables(self, n_parts: int) -> list[pa.Table]:
        """Tonight's input, in no order."""
        order = self.draw.permutation(np.array(self.here, dtype=np.int64))
        return [self._table(part) for part in np.array_split(order, n_parts)]

    def _table(self, who: np.ndarray) -> pa.Table:
        def of(values: list, kind: pa.DataType) -> pa.Array:
            return pa.array([values[one] for one in who], kind)

        columns = {
            UNIT: self.ids(who),
            "region": of(self.region, pa.string()),
            "town": of(self.town, pa.string()),
            "age": of(self.age, pa.int64()),
            "income": of(self.income, pa.float64()),
            TAG: pa.array(who, pa.int64()),
            "note": of(self.note, pa.string()),
            "score": of(self.score, pa.int64()),
        }
        return pa.table(columns)

    def truth(self) -> dict[int, tuple[str, ...]]:
        """Everybody's confidential values tonight, as text."""
        return {one: (str(one), self.note[one], str(self.score[one])) for one in self.here}


def _census(draw: np.random.Generator) -> list[dict[str, int]]:
    records = pyarrow.csv.read_csv(_CENSUS).to_pylist()
    return [records[i] for i in draw.permutation(len(records))]
