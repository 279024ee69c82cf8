"""Looking at a ledger: damage that is named, what is not so and found, who may read it, and how large it is."""

from __future__ import annotations

# Damage.


def three_nights(ledger: Ledger) -> list[Generation]:
    return [make_night(ledger, units(30, night=night, seed=night), n_ranges=2) for night in range(3)]


@pytest.mark.parametrize("night", [0, 1])
def test_a_lost_document_is_missed(night: int, ledger: Ledger) -> None:
    three_nights(ledger)
    ledger.store.delete(LedgerLayout(night).generation())
    with pytest.raises(StorageError, match=rf"0000{night}.json is missing.*microagg series rebuild"):
        ledger.head()
    assert refused(ledger) == ["chain"] and exit_code_of(verify_ledger(ledger)) == 5


@pytest.mark.parametrize("data", [b"", b"{", b"{}", b"[]", b"\xff", b'{"night": 2}'])
def test_a_damaged_document_is_refused(data: bytes, on_disk: Ledger) -> None:
    three_nights(on_disk)
    on_disk.store.put(LedgerLayout(2).generation(), data)
    with pytest.raises(StorageError, match=r"00002.json is damaged.*microagg series rebuild"):
        on_disk.head()


def test_a_document_of_another_night_is_refused(on_disk: Ledger) -> None:
    three_nights(on_disk)
    on_disk.store.put(LedgerLayout(2).generation(), on_disk.store.read(LedgerLayout(1).generation()))
    with pytest.raises(StorageError, match="is the document of another night"):
        on_disk.head()


def test_a_document_leads_nowhere_else(on_disk: Ledger) -> None:
    made = three_nights(on_disk)[2]
    for name in ("../secrets", "key", "/etc/passwd", LedgerLayout(3).range(0, "ab" * 32)):
        ranges_ = (replace(made.ranges[0], name=name), made.ranges[1])
        on_disk.store.put(LedgerLayout(2).generation(), replace(made, ranges=ranges_).to_bytes())
        with pytest.raises(StorageError, match="is the document of another night"):
            on_disk.head()


def test_a_forked_chain_is_seen(ledger: Ledger) -> None:
    made = three_nights(ledger)
    forked = replace(made[0], run_key="another")
    ledger.store.put(LedgerLayout(0).generation(), forked.to_bytes())
    assert ledger.head() == made[2], "the head looks one night back; verify looks back to the first"
    assert refused(ledger) == ["chain"]
    ledger.store.put(LedgerLayout(1).generation(), replace(made[1], run_key="another").to_bytes())
    with pytest.raises(StorageError, match=r"00002.json does not follow the document of the night before"):
        ledger.head()


@pytest.mark.parametrize("damage", ["missing", "cut short", "changed", "another night's"])
def test_a_damaged_range_is_never_read(damage: str, ledger: Ledger) -> None:
    made = three_nights(ledger)
    name = made[2].ranges[1].name
    data = ledger.store.read(name)
    ledger.store.delete(name)
    other = ledger.store.read(made[1].ranges[1].name)
    bad = {"cut short": data[:-8], "changed": data[:200] + b"x" + data[201:], "another night's": other}
    if damage in bad:
        ledger.store.put(name, bad[damage])
    with pytest.raises(StorageError, match=r"p00001-\w+.arrows is (missing|damaged).*microagg series rebuild"):
        ledger.read_range(made[2], 1, 2)
    assert ledger.read_range(made[2], 0, 2).num_rows == made[2].ranges[0].units
    assert refused(ledger) == ["ranges", "counts", "traces"] and exit_code_of(verify_ledger(ledger)) == 5


# What a document says of its units.


def states(table: pa.Table, *changes: tuple[int, int]) -> pa.Table:
    values = table["state"].to_numpy().copy()
    for place, state in changes:
        values[place] = state
    return with_column(table, "state", values)


def traced(table: pa.Table, place: int, trace: int) -> pa.Table:
    values = table["t1"].to_numpy().copy()
    values[place] = trace
    return with_column(table, "t1", values)


def test_a_ledger_of_all_states_is_sound(ledger: Ledger) -> None:
    table = states(units(30, n_held=4), (0, State.GONE), (1, State.FORGOTTEN), (5, State.GONE))
    make_night(ledger, table, n_ranges=2)
    assert refused(ledger) == []
    found = status_of(ledger)
    assert found is not None
    assert (found.live, found.gone, found.held, found.forgotten) == (23, 2, 4, 1) and found.smallest_trace == 3
    assert found.nights == 1 and found.release_id == "day-0" and found.k == 3 and found.url.endswith("/ledger")
    assert found.document()["bytes"] == sum(ledger.store.size(name) or 0 for name in ledger.store.list("data"))


@pytest.mark.parametrize(
    ("wrong", "changes", "failed"),
    [
        (lambda t: t, {"smallest_trace": 4}, {"traces"}),
        (lambda t: t, {"smallest_trace": None, "frozen": replace(FROZEN, k=4)}, {"traces"}),
        (lambda t: t, {"counts": UnitCounts(released=29, held=1)}, {"counts"}),
        (lambda t: traced(t, 0, 99), {"smallest_trace": 1}, {"traces"}),
        (lambda t: states(t, (0, 9)), {}, {"states"}),
        (lambda t: states(t, (0, State.HELD)), {"smallest_trace": 2}, {"states", "traces"}),
        (lambda t: with_column(t, "since", [1] * 30), {}, {"states"}),
        (lambda t: with_column(t, "last", [7] * 30), {"counts": UnitCounts(withheld=30)}, {"states"}),
        (lambda t: with_column(t, "t0", [NEVER[0]] * 30).set_column(3, "t1", pa.array([NEVER[1]] * 30, pa.uint64())),
         {"smallest_trace": 30}, {"states"}),
    ],
    ids=["trace said", "k", "counts", "rare trace", "state", "held", "since", "last", "never released"],
)  # fmt: skip
def test_what_is_not_so_is_found(
    wrong: Callable[[pa.Table], pa.Table], changes: dict[str, object], failed: set[str], on_disk: Ledger
) -> None:
    make_night(on_disk, wrong(units(30)), **changes)
    assert set(refused(on_disk)) == failed
    assert exit_code_of(verify_ledger(on_disk)) == 4


def test_rare_traces_of_who_is_gone_are_history_and_without_a_promise_none_matters(on_disk: Ledger) -> None:
    make_night(on_disk, states(traced(units(31), 30, 99), (30, State.GONE)), smallest_trace=1)
    assert refused(on_disk) == []
    rare = traced(units(30, night=1), 0, 99)
    make_night(on_disk, rare, smallest_trace=1, frozen=replace(FROZEN, mode="independent"))
    assert refused(on_disk) == []


def test_units_in_the_wrong_range_are_found(on_disk: Ledger) -> None:
    table = units(30)
    files = (on_disk.write_range(0, 0, table), on_disk.write_range(0, 1, empty_range(0)))
    on_disk.commit(generation_of(0, files, ""))
    assert refused(on_disk) == ["units"]


def test_a_smaller_k_and_another_key_are_found(on_disk: Ledger) -> None:
    make_night(on_disk, units(30))
    make_night(on_disk, units(30, night=1), frozen=replace(FROZEN, k=2))
    assert refused(on_disk) == ["chain"]
    make_night(on_disk, units(30, night=2), key_fingerprint="f" * 16)
    assert "another key" in verify_ledger(on_disk)[0].detail


# Privacy and size.


@pytest.fixture(params=[0o000, 0o022, 0o277])
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


def test_a_ledger_is_for_its_owner_alone(umask: None, tmp_path: Path) -> None:
    ledger = Ledger(Store(str(tmp_path / "work" / "series" / "people"), private=True), "people")
    local_key(ledger.store)
    three_nights(ledger)
    clear_unnamed(ledger)
    rights = {
        (path.is_dir(), stat.S_IMODE(path.stat().st_mode)) for path in (tmp_path / "work", *tmp_path.rglob("work/**/*"))
    }
    assert rights == {(True, 0o700), (False, 0o600)}


def test_no_name_and_no_document_holds_a_unit(ledger: Ledger) -> None:
    table = units(60)
    make_night(ledger, table, n_ranges=4)
    names = ledger.store.list()
    text = "\n".join([*names, *(ledger.store.read(name).decode() for name in names if name.endswith(".json"))])
    for column in ("u0", "u1", "row"):
        for value in table[column].to_pylist():
            assert str(value) not in text and f"{value:x}" not in text


def test_a_unit_takes_at_most_80_bytes(on_disk: Ledger) -> None:
    head = make_night(on_disk, units(200_000, n_columns=3, k=5), smallest_trace=5)
    assert head.n_ranges == 1 and head.n_bytes / 200_000 <= 80
    found = status_of(on_disk)
    assert found is not None and 60 < found.bytes_per_unit <= 80


