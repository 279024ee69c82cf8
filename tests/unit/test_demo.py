"""The demo's people: the shape that a demonstration needs, and the same file every time."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from microagg_core.demo import make_people, write_demo
from microagg_core.errors import StorageError
from microagg_core.spec.columns import resolve_schema
from microagg_core.spec.loading import load_spec

BLOCKING = ["region", "district", "sex"]
CONFIDENTIAL = ["education", "diagnosis", "monthly_income", "benefits", "weekly_hours"]
QUASI = ["birth_date", "dwelling_area_m2", "commute_km", "year_of_arrival"]


@pytest.fixture(scope="module")
def people() -> pa.Table:
    return make_people()


@pytest.fixture(scope="module")
def block_sizes(people: pa.Table) -> pd.Series:
    sizes: pd.Series = people.select(BLOCKING).to_pandas().value_counts()
    return sizes


def test_the_columns_and_their_types(people: pa.Table) -> None:
    assert people.num_rows == 200_000
    assert {field.name: str(field.type) for field in people.schema} == {
        "person_id": "string",
        "region": "string",
        "district": "string",
        "sex": "string",
        "birth_date": "date32[day]",
        "dwelling_area_m2": "int32",
        "commute_km": "double",
        "year_of_arrival": "int16",
        "education": "string",
        "diagnosis": "string",
        "monthly_income": "int32",
        "benefits": "bool",
        "weekly_hours": "int8",
    }
    nulls = {name: people.column(name).null_count for name in people.column_names}
    assert nulls.pop("weekly_hours") > 50_000
    assert set(nulls.values()) == {0}


def test_a_few_blocks_are_huge_and_a_few_are_below_k(people: pa.Table, block_sizes: pd.Series) -> None:
    assert len(block_sizes) > 150 and np.percentile(block_sizes, 25) > 50
    assert 3 <= (block_sizes < 5).sum() <= 25
    assert block_sizes.max() > 20 * block_sizes.median()
    assert block_sizes.max() < 30_000
    # One district is too small as a whole, so that merging has to give up two attributes.
    assert (people.select(["district"]).to_pandas().value_counts() < 5).sum() == 1


def test_everybody_has_a_number_and_no_confidential_column_comes_near_to_naming_anyone(people: pa.Table) -> None:
    assert pc.count_distinct(people.column("person_id")).as_py() == 200_000
    for name in CONFIDENTIAL:
        assert pc.count_distinct(people.column(name)).as_py() < 500, name


def test_the_values_are_plausible_together(people: pa.Table) -> None:
    frame = people.to_pandas()
    births = pd.to_datetime(frame["birth_date"])
    age = (pd.Timestamp("2026-03-21") - births).dt.days / 365.25
    assert age.min() >= 0 and age.max() < 105
    assert (frame["year_of_arrival"] >= births.dt.year).all() and frame["year_of_arrival"].max() <= 2026
    assert frame["monthly_income"].mod(50).eq(0).all() and frame["monthly_income"].min() >= 0
    assert frame["dwelling_area_m2"].between(10, 500).all() and frame["commute_km"].between(0.1, 180).all()
    assert frame.loc[age < 16, "weekly_hours"].isna().all()
    grown = frame[age.between(30, 60) & frame["weekly_hours"].notna()]
    by_level = grown.groupby("education")["monthly_income"].mean()
    assert by_level["master"] > by_level["vocational"] > by_level["primary"]
    assert grown["monthly_income"].corr(grown["dwelling_area_m2"]) > 0.15
    ill = frame["diagnosis"].isin(["I10", "E11"])
    assert age[ill].mean() > age[~ill].mean() + 5
    assert "01" in set(frame["diagnosis"])


def test_the_same_seed_gives_the_same_people_and_another_gives_others() -> None:
    assert make_people(500, seed=3).equals(make_people(500, seed=3))
    assert not make_people(500, seed=3).equals(make_people(500, seed=4))
    assert [make_people(n, seed=1).num_rows for n in (0, 1, 7)] == [0, 1, 7]


def test_the_files_and_their_spec(tmp_path: Path) -> None:
    spec_path = write_demo(tmp_path / "demo", n=1001, seed=5)
    spec = load_spec(str(spec_path))
    parts = sorted((tmp_path / "demo" / "input").iterdir())
    assert [part.name for part in parts] == [f"people-{n}.parquet" for n in range(4)]
    assert spec.input.url == str(tmp_path / "demo/input/people-*.parquet")
    tables = [pq.read_table(part) for part in parts]
    assert pa.concat_tables(tables).equals(make_people(1001, seed=5))
    assert min(table.num_rows for table in tables) >= 250
    schema = resolve_schema(spec, tables[0].schema)
    assert sorted(column.name for column in schema.quasi_identifiers) == sorted(QUASI)
    assert [column.name for column in schema.blocking] == BLOCKING
    assert sorted(column.name for column in schema.confidential) == sorted(CONFIDENTIAL)
    assert (spec.k, spec.algorithm.name, spec.unit) == (5, "mdav", ("person_id",))


def test_written_again_the_bytes_are_the_same(tmp_path: Path) -> None:
    def digests() -> dict[str, str]:
        write_demo(tmp_path, n=300)
        files = [path for path in tmp_path.rglob("*") if path.is_file()]
        return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}

    first = digests()
    assert len(first) == 6 and digests() == first, "the key too is the one that was drawn first"


def test_the_key_is_drawn_for_each_folder_and_its_owner_alone_can_read_it(tmp_path: Path) -> None:
    keys = [(write_demo(tmp_path / name, n=10).parent / "series.key") for name in "ab"]
    assert len({key.read_text() for key in keys}) == 2
    assert {key.stat().st_mode & 0o777 for key in keys} == {0o600}


def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StorageError) as caught:
        write_demo(tmp_path / "file", n=10)
    assert "\n" not in caught.value.message
