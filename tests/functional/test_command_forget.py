"""``microagg forget`` and ``microagg series rebuild``: what they say, and the codes they end with."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import Ended, call_command

from microagg_core.store.layout import LedgerLayout
from releasing.small_series import SmallSeries, atoms


@pytest.fixture(scope="module")
def series(tmp_path_factory: pytest.TempPathFactory) -> SmallSeries:
    made = SmallSeries(tmp_path_factory.mktemp("series"), atoms(leavers="decoys"))
    made.night(range(40), 0)
    made.night(range(60), 1)
    return made


def call(series: SmallSeries, *arguments: str) -> Ended:
    return call_command(*arguments, cwd=series.folder)


def forget(series: SmallSeries, *options: str) -> Ended:
    return call(series, "forget", "release.yaml", "--units", "units.csv", *options)


def test_wrong_calls(series: SmallSeries, tmp_path: Path) -> None:
    (series.folder / "units.csv").write_text("person\n7\n")
    forget(series).assert_refused(2, "units.csv has no column 'id'")
    call(series, "forget", "release.yaml", "--units", "none.csv").assert_refused(2, "none.csv cannot be read")
    assert call(series, "forget", "release.yaml").code == 2
    (series.folder / "units.csv").write_text("id\n\n7\n,\n")
    assert forget(series).code == 3
    call(series, "series", "rebuild", "release.yaml", "--night", "day-0").assert_refused(2, "write ID=INPUT")
    unknown = call(series, "series", "rebuild", "release.yaml", "--night", "day-7=x.csv")
    unknown.assert_refused(2, "no release 'day-7'")
    rows = SmallSeries(tmp_path, None, {"unit": "row"})
    rows.units([7])
    forget(rows).assert_refused(2, "a row cannot be forgotten")


def test_rebuild(series: SmallSeries) -> None:
    series.ledger.store.delete(LedgerLayout(1).generation())
    given = [f"--night={name}={url}" for name, url in series.inputs(2).items()]
    ended = call(series, "series", "rebuild", "release.yaml", "-q", *given)
    assert ended.code == 0, ended.err
    assert ended.out.startswith("1 nights were sound, 1 were made again, ") and ended.out.endswith("moved to damaged\n")
    assert call(series, "series", "rebuild", "release.yaml", "-q", "--json").document() == {
        "kept": 2,
        "moved": 0,
        "again": 0,
    }
    series.ledger.store.delete(LedgerLayout(1).generation())
    wrong = call(series, "series", "rebuild", "release.yaml", "-q", f"--night=day-1={series.inputs(2)['day-0']}")
    wrong.assert_refused(5, "night 1, release day-1 r0001 comes out otherwise than it was published")
    assert call(series, "series", "rebuild", "release.yaml", "-q", *given).code == 0


def test_forget(series: SmallSeries) -> None:
    series.units([990])
    nobody = forget(series, "--yes")
    assert (nobody.code, nobody.err) == (0, "")
    assert nobody.out == "0 of 1 units are known to the series people\nnothing is to be done\n"
    series.units([7, 8, 991])
    told = forget(series)
    assert told.code == 0 and told.err == ""
    assert told.out.splitlines()[:3] == [
        "2 of 3 units are known to the series people",
        "day-0/r0001 may hold 2 of them: withdrawn",
        "day-1/r0001 may hold 2 of them: withdrawn, and published again without them",
    ]
    assert "cannot be unread" in told.out and told.out.endswith("the same command with --yes does it\n")
    document = forget(series, "--yes", "--json").document()
    assert document["done"] and document["forgotten"] == 2 and len(document["releases"]) == 2
    assert "2 of them forgotten already" in forget(series, "--yes").out
    call(series, "verify", "output/day-0").assert_refused(5, "was withdrawn on")
    assert call(series, "verify", "output").code == 0 and call(series, "series", "verify", "release.yaml").code == 0
