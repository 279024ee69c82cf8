"""Every object's name, in one place.

A name is made of keys, ids, numbers and our own words only, never of anything that was read from the data: a block is
its number. Numbers have five digits so that names sort as numbers do, and a larger number just has more.

    work area   runs/<key>/  runs/<0-v>/<key>/  audit/<id>/<revision>/  series/<name>/
                audit/runs/<series>-<id>-<time>-<attempt>.json  audit/lineage/...-start.json
    output      <id>/<revision>/data/part-NNNNN-<sha256 prefix>-<attempt>.<extension>
                <id>/<revision>/manifest.json, manifest.json.minisig, withdrawn.json     latest.json
                <id>/<revision>/README.html                                  where a reader finds a page
                <id>/<revision>/pages/README-<sha256 prefix>-<attempt>.html  where it is written before the manifest
    ledger      generations/NNNNN.json  data/<night>/pNNNNN-<sha256 prefix>.arrows  key
                published/NNNNN  attempts/<attempt>.json  damaged/<attempt>/...

An attempt is one publication's try: twelve random digits, so that no two publications ever share an object.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable
from dataclasses import dataclass

from microagg_core.errors import SpecError

LATEST, MANIFEST, WITHDRAWN = "latest.json", "manifest.json", "withdrawn.json"
#: Where minisign looks for it.
SIGNATURE = f"{MANIFEST}.minisig"
RUNS, AUDIT, PROBES, SERIES = "runs", "audit", "probes", "series"
LINEAGE, OPERATOR_PAGE, PAGES = "lineage", "report.html", "pages"
GENERATIONS, LEDGER_DATA, LEDGER_KEY, PUBLISHED = "generations", "data", "key", "published"
DAMAGED, ATTEMPTS = "damaged", "attempts"
#: A run's objects lie in one of these each, by the hash of their names: S3 takes 5,500 reads and 3,500 writes a second
#: for each prefix, and learns prefixes that are the same in every run.
SHARDS = tuple("0123456789abcdefghijklmnopqrstuv")
#: How many digits of a part's checksum its name carries, and of an attempt at publishing.
SHA256_DIGITS, ATTEMPT_DIGITS = 16, 12

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_RELEASE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_REVISION = re.compile(r"r(\d{4,})")
_DIGITS = re.compile(r"(\d+)")
_OF_A_NIGHT = re.compile(rf"(?:{GENERATIONS}/(\d{{5,}})\.json|{LEDGER_DATA}/(\d{{5,}})/[^/]+|{PUBLISHED}/(\d{{5,}}))")
_OF_ATTEMPT = re.compile(rf"(?:data|pages)/.*-([0-9a-f]{{{ATTEMPT_DIGITS}}})(?:\.[A-Za-z0-9.]+)?")
#: One dot, so that the name falls into a stem and an ending; short enough for every store and disk.
PAGE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}\.([a-z0-9]{1,8})")
WRITTEN_PAGE = re.compile(
    rf"{PAGES}/[A-Za-z0-9][A-Za-z0-9_-]{{0,63}}"
    rf"-[0-9a-f]{{{SHA256_DIGITS}}}-([0-9a-f]{{{ATTEMPT_DIGITS}}})\.[a-z0-9]{{1,8}}"
)
#: What is read as a release's data, or as the word that it is one, is no page.
_NO_PAGES = re.compile(rf".*\.(?:parquet|csv|arrow)|{MANIFEST}|{LATEST}|{WITHDRAWN}")

OrderKey = tuple[tuple[tuple[int, int, str], ...], str, int]


def digits(number: int) -> str:
    """Write a number as it stands in names.

    >>> digits(7)
    '00007'
    """
    if number < 0:
        raise ValueError("numbers of objects start at 0")
    return f"{number:05d}"


def is_name(name: str) -> bool:
    """Tell whether a key, or another part of a name, may be one of ours.

    >>> is_name("3f9a"), is_name(".hidden")
    (True, False)
    """
    return _NAME.fullmatch(name) is not None


def _checked(name: str) -> str:
    if not is_name(name):
        raise ValueError("keys and names of objects are made of letters, digits, dots, dashes and underscores")
    return name


def revision_name(number: int) -> str:
    return f"r{number:04d}"


def revision_number(name: str) -> int | None:
    """Read the number of a revision; None where the name is not one.

    >>> revision_number("r0012"), revision_number("data")
    (12, None)
    """
    match = _REVISION.fullmatch(name)
    return int(match[1]) if match and revision_name(int(match[1])) == name else None


def is_release_id(name: str) -> bool:
    """Tell whether a folder of the output may be a release.

    >>> is_release_id("2026-11-18"), is_release_id(".probe"), is_release_id("latest.json")
    (True, False, False)
    """
    return _RELEASE_ID.fullmatch(name) is not None and name != LATEST


def release_order(release_id: str, revision: str) -> OrderKey:
    """Make a key that sorts releases from old to new: ids with their digits read as numbers, then revisions.

    >>> sorted(["v10", "v9", "v9a"], key=lambda i: release_order(i, "r0001"))
    ['v9', 'v9a', 'v10']
    """
    pieces = (piece for piece in _DIGITS.split(release_id) if piece)
    natural = tuple((0, int(piece), "") if piece.isdigit() else (1, 0, piece) for piece in pieces)
    return natural, release_id, revision_number(revision) or 0


@dataclass(frozen=True)
class ReleaseLayout:
    """Names at the output, relative to its root; the manifest names parts relative to :attr:`folder`.

    >>> ReleaseLayout("2026", "r0001").part(3, "ab" * 32, "0123456789ab", "csv")
    '2026/r0001/data/part-00003-abababababababab-0123456789ab.csv'
    """

    id: str
    revision: str

    def __post_init__(self) -> None:
        if not is_release_id(self.id):
            raise SpecError(f"id: {self.id!r} cannot be a release id; use letters, digits, dots and dashes")
        if revision_number(self.revision) is None:
            raise ValueError("a revision is named r0001, r0002, ...")

    @property
    def folder(self) -> str:
        return f"{self.id}/{self.revision}"

    def manifest(self) -> str:
        return f"{self.folder}/{MANIFEST}"

    def signature(self) -> str:
        return f"{self.folder}/{SIGNATURE}"

    def withdrawn(self) -> str:
        """Name the tombstone, which says that the data of this revision are not there any more."""
        return f"{self.folder}/{WITHDRAWN}"

    def data(self) -> str:
        return f"{self.folder}/data"

    def part(self, number: int, sha256: str, attempt: str, extension: str) -> str:
        """Name a part as one attempt at publishing does."""
        return f"{self.data()}/part-{digits(number)}-{sha256[:SHA256_DIGITS]}-{_checked(attempt)}.{_checked(extension)}"

    def probe(self, attempt: str) -> str:
        """Name the object by which an attempt finds out what the store grants."""
        return f"{self.data()}/probe-{_checked(attempt)}"

    def relative(self, name: str) -> str:
        return name.removeprefix(f"{self.folder}/")

    def absolute(self, name: str) -> str:
        return f"{self.folder}/{name}"


def is_page_name(name: str) -> bool:
    """Tell whether a page may be called so.

    >>> is_page_name("README.html"), is_page_name("Manifest.json"), is_page_name("../x.md"), is_page_name("more.csv")
    (True, False, False, False)
    """
    # Some disks take capitals and small letters for the same.
    return PAGE_NAME.fullmatch(name) is not None and not _NO_PAGES.fullmatch(name.lower())


def written_page(name: str, sha256: str, attempt: str) -> str:
    """Name the object as which an attempt at publishing writes a page.

    >>> written_page("README.html", "ab" * 32, "0123456789ab")
    'pages/README-abababababababab-0123456789ab.html'
    """
    stem, _, ending = name.partition(".")
    return f"{PAGES}/{stem}-{sha256[:SHA256_DIGITS]}-{attempt}.{ending}"


def is_written_page(written: str, name: str, sha256: str) -> bool:
    """Tell whether a name is one under which some attempt may have written a page.

    >>> is_written_page("pages/README-abababababababab-0123456789ab.html", "README.html", "ab" * 32)
    True
    """
    match = WRITTEN_PAGE.fullmatch(written)
    return match is not None and written == written_page(name, sha256, match[1])


def attempt_of(name: str) -> str | None:
    """Read the attempt at publishing that wrote an object of a revision, off its name there; None where none did.

    >>> attempt_of("data/part-00003-abababababababab-0123456789ab.csv"), attempt_of("data/probe-0123456789ab")
    ('0123456789ab', '0123456789ab')
    >>> attempt_of("README.html") is None
    True
    """
    match = _OF_ATTEMPT.fullmatch(name)
    return match[1] if match else None


@dataclass(frozen=True)
class RunLayout:
    """Names of one run in the work area. An ending tells the format: ``arrows`` is one Arrow stream, ``slices`` are
    many, one after the other.

    >>> RunLayout("3f9a").object("scatter", "scattered", 2, 1, "slices")
    'runs/9/3f9a/scatter/scattered-00002-00001.slices'
    """

    key: str

    @property
    def folder(self) -> str:
        """Name the folder of what says that there is such a run; the rest lies in shards."""
        return f"{RUNS}/{_checked(self.key)}"

    def in_shard(self, shard: str, name: str = "") -> str:
        return f"{RUNS}/{shard}/{_checked(self.key)}/{name}".rstrip("/")

    def _sharded(self, name: str) -> str:
        return self.in_shard(SHARDS[zlib.crc32(name.encode()) % len(SHARDS)], name)

    def sign_of_life(self) -> str:
        """Name what says when the run was last seen alive; its age decides when a failed run's rows go."""
        return f"{self.folder}/sign-of-life"

    def input_parts(self) -> str:
        """Name what says where the input's large files are cut."""
        return f"{self.folder}/input-parts.json"

    def object(self, step: str, name: str, number: int, index: int, ending: str) -> str:
        """Name an object that a task of a step wrote; it is one of several where it has an index."""
        numbers = f"{digits(number)}-{digits(index)}" if index else digits(number)
        return self._sharded(f"{_checked(step)}/{_checked(name)}-{numbers}.{ending}")

    def receipt(self, step: str, number: int) -> str:
        return self._sharded(f"receipts/{_checked(step)}/{digits(number)}.receipt")

    def task(self, step: str, number: int) -> str:
        """Name a task that is written down for somebody who does it later."""
        return f"{self.tasks(step)}/{digits(number)}.task"

    def tasks(self, step: str) -> str:
        return f"{self.folder}/tasks/{_checked(step)}"


@dataclass(frozen=True)
class AuditLayout:
    """Names of what stays in the work area about a release; for the operator alone.

    >>> AuditLayout("2026", "r0001").plan()
    'audit/2026/r0001/plan.json'
    """

    id: str
    revision: str

    @property
    def folder(self) -> str:
        return f"{AUDIT}/{_checked(self.id)}/{_checked(self.revision)}"

    def file(self, name: str) -> str:
        return f"{self.folder}/{_checked(name)}"

    def plan(self) -> str:
        return self.file("plan.json")

    def risk(self) -> str:
        return self.file("risk.json")

    def blocks(self) -> str:
        """Name sizes and losses, block by block; as Parquet, for there may be millions."""
        return self.file("blocks.parquet")

    def digests(self) -> str:
        """Name the digests of spec, input and software."""
        return self.file("digests.json")

    def checks(self) -> str:
        return self.file("checks.json")

    def page(self) -> str:
        """Name the operator's page, which can be made again from the rest."""
        return self.file(OPERATOR_PAGE)


@dataclass(frozen=True)
class CallLayout:
    """Names of what one call of ``microagg run`` leaves about itself, however it ends; for the operator alone.

    >>> CallLayout("people", "2026", "20261118T023000Z", "0123456789ab").results()
    'audit/runs/people-2026-20261118T023000Z-0123456789ab.json'
    """

    series: str
    id: str
    #: When it began, in UTC.
    time: str
    attempt: str

    @property
    def name(self) -> str:
        return "-".join(map(_checked, (self.series, self.id, self.time, self.attempt)))

    def results(self) -> str:
        return f"{AUDIT}/{RUNS}/{self.name}.json"

    def lineage(self, event: str) -> str:
        """Name an event of OpenLineage."""
        return f"{AUDIT}/{LINEAGE}/{self.name}-{_checked(event.lower())}.json"


def newest_results(names: Iterable[str], most: int) -> list[str]:
    """Select the names of the newest calls' outcomes, the newest first.

    >>> newest_results(["audit/runs/a-b-20260102T000000Z-9.json", "audit/runs/z-20270102T000000Z-1.json"], 1)
    ['audit/runs/z-20270102T000000Z-1.json']
    """
    named = [(name.rsplit("-", 2)[1:], name) for name in names if name.count("-") > 1]
    return [name for _, name in sorted(named, reverse=True)[:most]]


def is_call_of(name: str, series: str, release_id: str) -> bool:
    """Tell whether an outcome is that of a call that was to make a release of a series.

    >>> is_call_of("audit/runs/people-2026-11-18-20261119T023000Z-01ab.json", "people", "2026-11-18")
    True
    """
    return name.rpartition("/")[2].rsplit("-", 2)[0] == f"{series}-{release_id}"


@dataclass(frozen=True)
class LedgerLayout:
    """Names of what one night adds to the private ledger of a series, relative to the ledger's own root.

    >>> LedgerLayout(12).generation(), LedgerLayout(12).range(3, "ab" * 32)
    ('generations/00012.json', 'data/00012/p00003-abababababababab.arrows')
    """

    night: int

    def generation(self) -> str:
        """Name the document whose existence makes the night a part of the series."""
        return f"{GENERATIONS}/{digits(self.night)}.json"

    def published(self) -> str:
        """Name what says that the night's release was there for readers."""
        return f"{PUBLISHED}/{digits(self.night)}"

    def range(self, number: int, sha256: str) -> str:
        """Name the units of one range, as this night left them; or those that it changed."""
        return f"{LEDGER_DATA}/{digits(self.night)}/p{digits(number)}-{sha256[:SHA256_DIGITS]}.arrows"

    def atoms(self, number: int, sha256: str) -> str:
        return f"{LEDGER_DATA}/{digits(self.night)}/a{digits(number)}-{sha256[:SHA256_DIGITS]}.arrows"


def night_of(name: str) -> int | None:
    """Read the night to which an object of a ledger belongs; None where it belongs to none.

    >>> night_of("generations/00012.json"), night_of("data/00003/p00000-ab.arrows"), night_of("key")
    (12, 3, None)
    """
    match = _OF_A_NIGHT.fullmatch(name)
    return int(match[1] or match[2] or match[3]) if match else None
