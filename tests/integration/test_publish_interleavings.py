"""Publishers that race for one id: every interleaving of their requests, with deaths, faults and late requests."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import cast

import pytest

from covering import cover, is_whole, share
from microagg_core.errors import StorageError
from microagg_core.release.manifest import Manifest
from microagg_core.release.minisign import SecretKey, Signature
from microagg_core.release.page_files import no_pages
from microagg_core.release.publish import Published, StagedPart, publish
from microagg_core.release.revisions import Tombstone, parse_latest, withdraw
from microagg_core.store.layout import LATEST, MANIFEST, ReleaseLayout, release_order
from microagg_core.store.objects import Store
from microagg_core.store.urls import is_local
from releasing.parts import facts_for, safe_tables
from trouble.interleavings import Ended, Held, Program, Search, alone, walk_on

ID = "one"
KEY = SecretKey(b"8 bytes.", b"a seed of 32 bytes, for a test..")


@dataclass(frozen=True)
class Source:
    """The work area, of which only reading a part matters here."""

    data: bytes

    def chunks(self, name: str) -> list[bytes]:
        return [self.data]


def page_of(manifest: Manifest) -> dict[str, bytes]:
    """A page that differs from attempt to attempt, as one that names files or the moment does."""
    return {"README.md": "".join(part.name[-30:] for part in manifest.parts).encode()}


def publisher(
    content: str, attempt: int, replacing: bool = False, created_at: int | None = None, signing: bool = False,
    paged: bool = True,
) -> Program:  # fmt: skip
    """A run that publishes two parts, and a page unless that would only make a search longer.

    The same content is the same bytes.
    """
    parts = []
    for number, rows in enumerate((7, 4)):
        data = f"{content}{number}".encode()
        source = cast(Store, Source(data))
        parts.append(StagedPart(source, str(number), rows, len(data), hashlib.sha256(data).hexdigest()))
    second = attempt if created_at is None else created_at
    return partial(
        publish,
        facts=facts_for(safe_tables(), ID, created=f"2026-11-18T12:00:{second:02d}Z"),
        parts=parts,
        replace=replacing,
        attempt=f"{attempt:012x}",
        signing_key=KEY if signing else None,
        pages_of=page_of if paged else no_pages,
    )


@cache
def manifest_of(data: bytes) -> Manifest:
    return Manifest.from_bytes(data, "model")


@cache
def sha256_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def committed(held: Held) -> list[Manifest]:
    return [manifest_of(data) for name, data in held if name.endswith(MANIFEST)]


def damaged(held: Held) -> set[str]:
    """Parts and pages that were written before a manifest, and are not there or do not hold what it says."""
    objects = dict(held)
    return {
        manifest.layout.absolute(name)
        for manifest in committed(held)
        for name, sha256 in written_before(manifest)
        if sha256_of(objects.get(manifest.layout.absolute(name), b"")) != sha256
    }


def written_before(manifest: Manifest) -> list[tuple[str, str]]:
    parts = [(part.name, part.sha256) for part in manifest.parts]
    return [*parts, *((page.written, page.sha256) for page in manifest.pages)]


def pages_where_readers_look(held: Held) -> dict[str, bool]:
    """The pages that lie beside a manifest, or where one would: whether a committed one says what they hold."""
    right = {(m.layout.absolute(page.name), page.sha256) for m in committed(held) for page in m.pages}
    return {name: (name, sha256_of(data)) in right for name, data in held if name.endswith("/README.md")}


def assert_step_is_right(before: Held, after: Held) -> None:
    assert damaged(after) <= damaged(before), "a reader finds a part missing or damaged"
    pages = pages_where_readers_look(before)
    for name, is_right in pages_where_readers_look(after).items():
        assert is_right or not pages.get(name, True), "a reader finds a page that no manifest names"
    assert pages.keys() <= pages_where_readers_look(after).keys(), "a page is gone"
    named = [parse_latest(dict(held).get(LATEST)) for held in (before, after)]
    if named[1] is not None:
        assert named[1].manifest() in dict(after), "latest.json names what is not committed"
    if named[0] is not None:
        assert named[1] is not None, "latest.json is gone"
        old, new = (release_order(layout.id, layout.revision) for layout in named if layout is not None)
        assert old <= new, "latest.json moved backwards"
    for name, data in before:
        assert not name.endswith(MANIFEST) or dict(after).get(name) == data, "a manifest was changed or removed"


def unnamed(held: Held) -> set[str]:
    """Objects that neither latest.json nor a manifest accounts for."""
    named = {LATEST} | {m.layout.manifest() for m in committed(held)}
    for manifest in committed(held):
        named |= manifest.part_names() | manifest.page_names() | manifest.written_page_names()
    return {name for name, _ in held} - named


class Race:
    """A search, with what must hold whenever a publisher ends, and when all have ended or died."""

    def __init__(self, programs: Sequence[Program], remote: bool) -> None:
        self.url = "s3://model" if remote else "/model"
        self.endings: set[str] = set()
        #: How publishers end where nothing fails and nobody dies.
        self.smooth: set[str] = set()
        self.search = Search(programs, self.url, assert_step_is_right, self.ended)

    def ended(self, program: int, end: Ended, held: Held, smoothly: bool) -> None:
        if isinstance(end.value, Published):
            word = "already" if end.value.already else "published"
            manifest = end.value.manifest
            assert manifest in committed(held), "it says published, and nothing is"
            names = manifest.part_names() | manifest.written_page_names()
            assert not damaged(held) & names, "it says published, and a part is not there"
            there = {name for name, is_right in pages_where_readers_look(held).items() if is_right}
            assert manifest.page_names() <= there, "it says published, and a page is not there"
            assert not smoothly or not end.value.warnings
        else:
            assert isinstance(end.error, StorageError | KeyboardInterrupt), end.error
            word = type(end.error).__name__
        self.endings.add(word)
        if smoothly:
            self.smooth.add(word)
            mine = [name for name in unnamed(held) if f"{program:012x}" in name]
            assert mine == [], "who has ended left something behind"

    def assert_another_run_clears_up(self, most: int) -> None:
        """Whatever the store held when everybody died: the next run ends well, and clears what is not its rivals'."""
        for held in share(self.search.stores(), most):
            again, after = alone(publisher("a", 8, replacing=True), self.url, held)
            assert isinstance(again.value, Published), again.error
            assert_step_is_right(held, after)
            newest = again.value.manifest.layout
            later = [name for name in unnamed(after) if name.split("/")[1] > newest.revision]
            assert unnamed(after) == set(later), "of a committed revision something is left beside what it names"
            last, clean = alone(publisher("z", 9, replacing=True), self.url, after)
            assert isinstance(last.value, Published) and unnamed(clean) == set()
            assert parse_latest(dict(clean)[LATEST]) == last.value.manifest.layout


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("microagg_core.release.revisions.time.sleep", lambda seconds: None)


def robbed_of_a_part(held: Held) -> Held:
    gone = min(name for name, _ in held if "/data/" in name)
    return frozenset(item for item in held if item[0] != gone)


def store_with(content: str, remote: bool) -> Held:
    """A store in which a run published before, of which a part may be gone; nothing where there is no content."""
    if content.startswith("damaged "):
        return robbed_of_a_part(store_with(content.removeprefix("damaged "), remote))
    empty: Held = frozenset()
    return alone(publisher(content, 7), "s3://model" if remote else "/model", empty)[1] if content else empty


LOST = {"published", "StorageError"}
RACES: dict[str, tuple[list[Program], str, set[str]]] = {
    "identical": ([publisher("a", 0), publisher("a", 1)], "", {"published", "already"}),
    "different": ([publisher("a", 0), publisher("b", 1, paged=False)], "", LOST),
    "one replaces": ([publisher("a", 0, paged=False), publisher("b", 1, True)], "", LOST),
    "both replace, identical": (
        [publisher("a", i, True, paged=i == 0) for i in (0, 1)], "old", {"published", "already"},
    ),
    "both replace, different": ([publisher(c, i, True) for i, c in enumerate("ab")], "old", LOST),
    "both mend what is damaged": ([publisher("a", 0), publisher("a", 1)], "damaged a", {"already"}),
    "one mends, one replaces": ([publisher("a", 0), publisher("b", 1, True)], "damaged a", LOST | {"already"}),
    "one is there already": ([publisher(c, i, True) for i, c in enumerate("ab")], "a", {"published", "already"}),
}  # fmt: skip


#: All of them in a remote store, where requests may also be late, and two on a disk.
PLACES = [*((race, True) for race in RACES), ("identical", False), ("both replace, different", False)]


@pytest.mark.parametrize(("race", "remote"), PLACES)
def test_every_interleaving_of_two(race: str, remote: bool) -> None:
    """With deaths everywhere, and one request that fails, succeeds unheard, is interrupted, or arrives much later."""
    programs, before, smooth = RACES[race]
    watched = Race(programs, remote)
    if is_whole():
        assert watched.search.everything(store_with(before, remote), faults=1) > 500
        assert watched.smooth == smooth
    else:
        assert watched.search.walks(store_with(before, remote), faults=1, n_walks=250, seed=3) > 500
        assert watched.smooth <= smooth
    assert {"TransientStorageError", "KeyboardInterrupt"} <= watched.endings
    watched.assert_another_run_clears_up(most=50)


@pytest.mark.parametrize(("contents", "replacing"), cover(["aab", "abc", "aaa"], [False, True]))
def test_three_at_random(contents: str, replacing: bool) -> None:
    """With two things that go wrong; every interleaving of three takes minutes, so they are drawn."""
    watched = Race([publisher(content, i, replacing) for i, content in enumerate(contents)], remote=True)
    n_walks = 700 if is_whole() else 150
    assert watched.search.walks(store_with("old" if replacing else "", True), faults=2, n_walks=n_walks, seed=7) > 500
    assert "published" in watched.endings
    watched.assert_another_run_clears_up(most=50)


def test_interleavings_on_a_real_store(output: Store) -> None:
    """Drawn, with deaths, failures and late requests; each in a folder of its own."""
    draw = random.Random(12)
    endings: set[str] = set()
    for number in range(6 if is_local(output.url) else 4):
        place = Store(output.url_of(f"{number}"), output.storage_options)
        held: list[Held] = [frozenset()]

        def watch(place: Store = place, held: list[Held] = held) -> None:
            now = frozenset((name, place.read(name)) for name in place.list(unfinished=True))
            assert_step_is_right(held[-1], now)
            held.append(now)

        contents = draw.choice(("aa", "ab", "aab"))
        programs = [publisher(content, i, draw.random() < 0.5) for i, content in enumerate(contents)]
        for end in walk_on(place, programs, 2, draw, watch):
            if isinstance(end, Ended):
                endings.add("published" if isinstance(end.value, Published) else type(end.error).__name__)
        for last in (publisher("a", 8, True), publisher("z", 9, True)):
            assert isinstance(last(place), Published)
        watch()
        assert unnamed(held[-1]) == set()
    assert "published" in endings


@cache
def fits(data: bytes, signature: bytes) -> bool:
    return KEY.public.refuses(data, Signature.parse(signature)) is None


def signed(held: Held) -> dict[str, bool]:
    objects = dict(held)
    manifests = {name: data for name, data in held if name.endswith(MANIFEST)}
    return {
        name: f"{name}.minisig" in objects and fits(data, objects[f"{name}.minisig"])
        for name, data in manifests.items()
    }


class SignedRace:
    """A search in which all sign with one key."""

    def __init__(self, programs: Sequence[Program]) -> None:
        self.unsigned = 0
        self.smooth_ends = 0
        self.search = Search(programs, "s3://model", self.step, self.ended)

    def step(self, before: Held, after: Held) -> None:
        was, now = signed(before), signed(after)
        assert all(now[name] for name, well in was.items() if well), "what was signed is not any more"
        self.unsigned += any(name not in was and not well for name, well in now.items())

    def ended(self, program: int, end: Ended, held: Held, smoothly: bool) -> None:
        if isinstance(end.value, Published):
            assert signed(held)[end.value.manifest.layout.manifest()], "it says published, and that is not signed"
            assert not smoothly or not end.value.warnings
        self.smooth_ends += smoothly


@pytest.mark.parametrize("contents", ["a", "aa", "ab"])
def test_what_is_signed_stays_signed_however_publishers_interleave(contents: str) -> None:
    """A reader may find the manifest before the right signature only where a rival was about to publish."""
    race = SignedRace([publisher(content, i, signing=True) for i, content in enumerate(contents)])
    if is_whole() or len(contents) == 1:
        assert race.search.everything(frozenset(), faults=1) > 50
        assert (race.unsigned > 0) == (len(contents) > 1)
    else:
        assert race.search.walks(frozenset(), faults=1, n_walks=300, seed=5) > 50
    assert race.smooth_ends
    for held in share(race.search.stores(), 50):
        again, after = alone(publisher("a", 8, replacing=True, signing=True), "s3://model", held)
        assert isinstance(again.value, Published) and signed(after)[again.value.manifest.layout.manifest()]


# --- Taken back ------------------------------------------------------------------------------------------------

README = f"{ID}/r0001/README.md"


def withdrawer(output: Store) -> int:
    return withdraw(output, ReleaseLayout(ID, "r0001"), Tombstone("erasure", "2026-11-19T02:00:00Z", 1))


def says_withdrawn(held: Held) -> bool:
    return b"was withdrawn" in dict(held).get(README, b"")


def without_its_page(held: Held) -> Held:
    return frozenset(item for item in held if item[0] != README)


@pytest.mark.parametrize("page", ["not published", "there", "missing", "damaged"])
def test_no_page_of_a_withdrawn_release_comes_back_however_late_it_is_brought(page: str) -> None:
    """A run finds the release, or makes it, while it is taken back."""
    there = store_with("" if page == "not published" else "a", remote=True)
    if page in ("missing", "damaged"):
        there = without_its_page(there) | ({(README, b"damaged")} if page == "damaged" else set())
    ends: set[str] = set()

    def step(before: Held, after: Held) -> None:
        assert says_withdrawn(after) or not says_withdrawn(before), "a page took the place of the notice"

    def ended(program: int, end: Ended, held: Held, smoothly: bool) -> None:
        if program == 1 and end.error is None:
            is_published = f"{ID}/r0001/{MANIFEST}" in dict(held)
            assert says_withdrawn(held) or not is_published or README not in dict(held), "a page is left"
            ends.add("taken back")
        elif program == 0 and says_withdrawn(held):
            ends.add("met a notice")

    search = Search([publisher("a", 0), withdrawer], "s3://model", step, ended)
    if is_whole():
        assert search.everything(there, faults=1) > 300
    else:
        assert search.walks(there, faults=1, n_walks=300, seed=5) > 100
    assert ends == {"taken back", "met a notice"}
    for held in share(search.stores(), 50):
        _, after = alone(withdrawer, "s3://model", held)
        assert says_withdrawn(after) or f"{ID}/r0001/{MANIFEST}" not in dict(after)
        assert not any(name.startswith((f"{ID}/r0001/data/", f"{ID}/r0001/pages/")) for name, _ in after)


def losses_of(programs: Sequence[Program], faults: int) -> None:
    with pytest.raises(AssertionError, match="a reader finds a part missing or damaged"):
        Race(programs, remote=True).search.everything(frozenset(), faults)


def test_names_that_two_attempts_share_lose_parts() -> None:
    """The same content under the same names: who gives up takes what the other commits."""
    shared = publisher("a", 0)
    losses_of([shared, publisher("a", 0, created_at=1)], faults=1)


def test_giving_up_a_commit_that_may_still_arrive_loses_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("microagg_core.release.publish.is_local", lambda url: True)
    losses_of([publisher("a", 0)], faults=1)
