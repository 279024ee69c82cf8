"""Algorithms side by side: the figures, the words, and the literature's figures for the files it knows."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from microagg_core.api import microaggregate
from microagg_core.compare.bare_file import Comparison, Outcome, compare, read_columns
from microagg_core.errors import SpecError
from microagg_core.group.algorithms import AlgorithmInfo, algorithms
from microagg_core.group.metrics.statistics import significant
from microagg_flows.command.cli import build_app

REFERENCE = Path(__file__).resolve().parents[1] / "reference" / "data"


@pytest.fixture
def firms(tmp_path: Path) -> Path:
    path = tmp_path / "firms.csv"
    rows = [f"firm {i},{i * i % 37},{i % 7 / 2},0{i},2020-01-{i % 28 + 1:02d}" for i in range(60)]
    path.write_text("\n".join(["name,staff,area,code,since", *rows]) + "\n")
    return path


def _suits(info: AlgorithmInfo, k: int) -> bool:
    return info.refuses(k, 2) is None and info.refuses_records(60) is None


def test_what_is_left_out_says_why_once_for_all_k(firms: Path) -> None:
    found = compare(read_columns(str(firms), ["staff", "area"]), [2, 3, 5])
    assert "exhaustive at k=2, 3, 5: exhaustive takes at most 20 records (got 60); choose another algorithm, or " in (
        "\n".join(found.left_out)
    )
    assert [reason.split(":")[0] for reason in found.left_out] == [
        "univariate at k=2, 3, 5",
        "individual_ranking at k=2, 3, 5",
        "exhaustive at k=2, 3, 5",
        "two_mu_approx at k=3",
        "two_mu_approx at k=5",
    ]


def test_every_figure_is_the_api_s(firms: Path) -> None:
    table = read_columns(str(firms), ["staff", "area"])
    found = compare(table, [3, 5])
    run = {(o.algorithm, o.k) for o in found.outcomes}
    assert run == {(name, k) for name, info in algorithms().items() for k in (3, 5) if _suits(info, k)}
    for outcome in found.outcomes:
        result = microaggregate(table, ["staff", "area"], outcome.k, outcome.algorithm)
        assert (outcome.l_sse, outcome.l_e) == (significant(result.losses.l_sse), significant(result.losses.l_e))
        assert outcome.least >= outcome.k


def test_columns_with_a_mean_are_taken_and_codes_are_not(firms: Path) -> None:
    assert list(read_columns(str(firms), []).columns) == ["staff", "area", "since"]
    with pytest.raises(SpecError, match="has no column 'size'"):
        read_columns(str(firms), ["size"])
    found = compare(pd.DataFrame({"sector": ["trade", "crafts", "services"] * 20}), [3])
    refused = "univariate at k=3: univariate sorts values, and nominal ones such as 'sector' have no order"
    assert found.outcomes and any(words.startswith(refused) for words in found.left_out)


def outcome(name: str, loss: float, k: int = 3) -> Outcome:
    return Outcome(name, k, loss, loss, 5, 3, 5, 0.1)


def test_words_say_which_is_best_and_by_how_much() -> None:
    found = Comparison(10, ("x",), (outcome("b", 8.0), outcome("a", 6.0), outcome("c", 12.0)), (), ())
    assert found.in_words() == [
        "k=3: a loses least, 6 % of the variance, 25 % less than b and 50 % less than c, the last"
    ]
    tied = Comparison(10, ("x",), (outcome("b", 6.0), outcome("a", 6.0)), (), ())
    assert tied.in_words() == ["k=3: a loses least, 6 % of the variance (as do b)"]
    nothing = Comparison(10, ("x",), (outcome("a", 0.0), outcome("b", 0.0), outcome("c", 1.0)), (), ())
    assert nothing.in_words() == ["k=3: a loses least, 0 % of the variance (as do b), 100 % less than c"]


def test_the_command_writes_what_it_is_asked_for(firms: Path, tmp_path: Path) -> None:
    picture, table = tmp_path / "loss.png", tmp_path / "loss.csv"
    arguments = [
        "compare",
        str(firms),
        "--quasi-identifiers",
        "staff,area",
        "--k",
        "3,4",
        "--algorithms",
        "mdav,v_mdav",
    ]
    done = CliRunner().invoke(build_app(), [*arguments, "--json", "--plot", str(picture), "--csv", str(table)])
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    assert [o["algorithm"] for o in document["outcomes"]] == ["mdav", "v_mdav"] * 2
    assert pd.read_csv(table)["l_sse"].tolist() == [o["l_sse"] for o in document["outcomes"]]
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["--k", "three"], "--k: must be whole numbers"),
        (["--k", "1"], "--k: must be at least 2"),
        (["--algorithms", "magic"], "--algorithms: must be among"),
        (["--plot", "loss.docx"], "--plot: must end in"),
    ],
)
def test_wrong_arguments_get_a_sentence(firms: Path, more: list[str], says: str) -> None:
    done = CliRunner().invoke(build_app(), ["compare", str(firms), "--quasi-identifiers", "staff", *more])
    assert isinstance(done.exception, SpecError)
    assert says in done.exception.message


def test_the_reference_files_stand_beside_what_is_printed() -> None:
    found = compare(read_columns(str(REFERENCE / "tarragona.csv"), []), [3], ["mdav"])
    printed = {(f.source, f.method, f.k, f.measure): f.value for f in found.published}
    assert printed["mu-approx-2008 Table 5", "MDAV", 3, "L_SSE"] == pytest.approx(found.outcomes[0].l_sse, abs=0.005)
    eia = pd.read_csv(REFERENCE / "eia.csv")
    assert compare(eia, [3], ["mdav"]).published
    assert not compare(eia.head(100), [3], ["mdav"]).published
    assert "mdav" in algorithms()
