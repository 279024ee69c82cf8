"""Every object's name, in one place.

A name is made of keys, ids and numbers only, never of anything that was read from the data: a block is its
number. Numbers have five digits so that names sort as numbers do, and a larger number just has more.

    work area   runs/<key>/  audit/<id>/<revision>/  series/<name>/
                audit/runs/<series>-<id>-<time>-<attempt>.json  audit/lineage/...-start.json
    output      <id>/<revision>/data/part-NNNNN-<sha256 prefix>-<attempt>.<extension>
                <id>/<revision>/manifest.json, manifest.json.minisig, withdrawn.json, page_layout.py     latest.json
    ledger      generations/NNNNN.json  data/<night>/pNNNNN-<sha256 prefix>.arrows  key
                published/NNNNN  attempts/<attempt>.json  damaged/<attempt>/...

An attempt is one publication's try: twelve random digits, so that no two publications ever share an object.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from microagg_core.errors import SpecError

LATEST, MANIFEST, WITHDRAWN = "latest.json", "manifest.json", "withdrawn.json"
#: Where minisign looks for it.
SIGNATURE = f"{MANIFEST}.minisig"
RUNS, AUDIT, PROBES, SERIES = "runs", "audit", "probes", "series"
LINEAGE, OPERATOR_PAGE = "lineage", "report.html"
GENERATIONS, LEDGER_DATA, LEDGER_KEY, PUBLISHED = "generations", "data", "key", "published"
DAMAGED, ATTEMPTS = "damaged", "attempts"
#: How many digits of a part's checksum its name carries.
SHA256_DIGITS = 16
#: How many hexadecimal digits name an attempt at publishing.
ATTEMPT_DIGITS = 12

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_RELEASE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_REVISION = re.compile(r"r(\d{4,})")
_DIGITS = re.compile(r"(\d+)")
_OF_A_NIGHT = re.compile(rf"(?:{GENERATIONS}/(\d{{5,}})\.json|{LEDGER_DATA}/(\d{{5,}})/[^/]+|{PUBLISHED}/(\d{{5,}}))")

OrderKey = tuple[tuple[tuple[int, int, str], ...], str, int]


def digits(number: int) -> str:
    """A number as it stands in names.

    >>> digits(7)
    '00007'
    """
    if number < 0:
        raise ValueError("numbers of objects start at 0")
    return f"{number:05d}"


def is_name(name: str) -> bool:
    """Whether a key, or another part of a name, may be one of ours.

    >>> is_name("3f9a"), is_name(".hidden")
    (True, False)
    """
    return _NAME.fullmatch(name) is not None


def _checked(name: str) -> str:
    if not is_name(name):
        raise ValueError("keys and names of objects are made of letters, digits, dots, dashes and underscores")
    return name


def revision_name(number: int) -> str:
    """The name of a revision.

    >>> revision_name(1)
    'r0001'
    """
    return f"r{number:04d}"


def revision_number(name: str) -> int | None:
    """The number of a revision, or None where the name is not one.

    >>> revision_number("r0012"), revision_number("data")
    (12, None)
    """
    match = _REVISION.fullmatch(name)
    return int(match[1]) if match and revision_name(int(match[1])) == name else None


def is_release_id(name: str) -> bool:
    """Whether a folder of the output may be a release.

    >>> is_release_id("2026-11-18"), is_release_id(".probe"), is_release_id("latest.json")
    (True, False, False)
    """
    return _RELEASE_ID.fullmatch(name) is not None and name != LATEST


def release_order(release_id: str, revision: str) -> OrderKey:
    """A key that sorts releases from old to new: ids with their digits read as numbers, then revisions.

    >>> sorted(["v10", "v9", "v9a"], key=lambda i: release_order(i, "r0001"))
    ['v9', 'v9a', 'v10']
    """
    pieces = (piece for piece in _DIGITS.split(release_id) if piece)
    natural = tuple((0, int(piece), "") if piece.isdigit() else (1, 0, piece) for piece in pieces)
    return natural, release_id, revision_number(revision) or 0


@dataclass(frozen=True)
class ReleaseLayout:
    """Names at the output, relative to its root; the manifest names parts relative to :attr:`folder`."""

    id: str
    revision: str

    def __post_init__(self) -> None:
        if not is_release_id(self.id):
            raise SpecError(f"id: {self.id!r} cannot be a release id; use letters, digits, dots and dashes")
        if revision_number(self.revision) is None:
            raise ValueError("a revision is named r0001, r0002, ...")

    @property
    def folder(self) -> str:
        """The folder of this revision."""
        return f"{self.id}/{self.revision}"

    def manifest(self) -> str:
        """The object whose existence makes the release."""
        return f"{self.folder}/{MANIFEST}"

    def signature(self) -> str:
        """The signature of the manifest, where the release is signed."""
        return f"{self.folder}/{SIGNATURE}"

    def withdrawn(self) -> str:
        """The tombstone: says that the data of this revision are not there any more."""
        return f"{self.folder}/{WITHDRAWN}"

    def data(self) -> str:
        """The folder of the parts."""
        return f"{self.folder}/data"

    def part(self, number: int, sha256: str, attempt: str, extension: str) -> str:
        """A part, as one attempt at publishing names it.

        >>> ReleaseLayout("2026", "r0001").part(3, "ab" * 32, "0123456789ab", "csv")
        '2026/r0001/data/part-00003-abababababababab-0123456789ab.csv'
        """
        return f"{self.data()}/part-{digits(number)}-{sha256[:SHA256_DIGITS]}-{_checked(attempt)}.{_checked(extension)}"

    def probe(self, attempt: str) -> str:
        """An object by which an attempt finds out what the store grants."""
        return f"{self.data()}/probe-{_checked(attempt)}"

    def relative(self, name: str) -> str:
        """A part's name as the manifest has it."""
        return name.removeprefix(f"{self.folder}/")

    def absolute(self, name: str) -> str:
        """A part's name from the root of the output."""
        return f"{self.folder}/{name}"


@dataclass(frozen=True)
class RunLayout:
    """Names of one run in the work area. An ending tells the format: ``arrows`` is one Arrow stream, ``slices`` are
    many, one after the other.

    >>> RunLayout("3f9a").object("scatter", "scattered", 2, 1, "slices")
    'runs/3f9a/scatter/scattered-00002-00001.slices'
    """

    key: str

    @property
    def folder(self) -> str:
        """The folder of this run."""
        return f"{RUNS}/{_checked(self.key)}"

    def sign_of_life(self) -> str:
        """When the run was last seen alive; its age decides when a failed run's rows go."""
        return f"{self.folder}/sign-of-life"

    def input_parts(self) -> str:
        """Where the input's large files are cut."""
        return f"{self.folder}/input-parts.json"

    def object(self, step: str, name: str, number: int, index: int, ending: str) -> str:
        """An object that a task of a step wrote; it is one of several where it has an index."""
        numbers = f"{digits(number)}-{digits(index)}" if index else digits(number)
        return f"{self.objects(step)}/{_checked(name)}-{numbers}.{ending}"

    def objects(self, step: str) -> str:
        """The folder of the objects that a step's tasks wrote."""
        return f"{self.folder}/{_checked(step)}"

    def receipt(self, step: str, number: int) -> str:
        """The receipt of one task of a step."""
        return f"{self.receipts(step)}/{digits(number)}.receipt"

    def receipts(self, step: str) -> str:
        """The folder of a step's receipts."""
        return f"{self.folder}/receipts/{_checked(step)}"

    def task(self, step: str, number: int) -> str:
        """A task that is written down for somebody who does it later."""
        return f"{self.tasks(step)}/{digits(number)}.task"

    def tasks(self, step: str) -> str:
        """The folder of the tasks of a step that are written down."""
        return f"{self.folder}/tasks/{_checked(step)}"


@dataclass(frozen=True)
class AuditLayout:
    """Names of what stays in the work area about a release; for the operator alone."""

    id: str
    revision: str

    @property
    def folder(self) -> str:
        """The folder of this revision's audit."""
        return f"{AUDIT}/{_checked(self.id)}/{_checked(self.revision)}"

    def file(self, name: str) -> str:
        """One file of the audit.

        >>> AuditLayout("2026", "r0001").file("plan.json")
        'audit/2026/r0001/plan.json'
        """
        return f"{self.folder}/{_checked(name)}"

    def plan(self) -> str:
        """The plan that was carried out."""
        return self.file("plan.json")

    def risk(self) -> str:
        """Disclosure-risk figures."""
        return self.file("risk.json")

    def blocks(self) -> str:
        """Sizes and losses, block by block; as Parquet, for there may be millions."""
        return self.file("blocks.parquet")

    def digests(self) -> str:
        """Digests of spec, input and software."""
        return self.file("digests.json")

    def checks(self) -> str:
        """What the gate checked, in full."""
        return self.file("checks.json")

    def page(self) -> str:
        """The operator's page, which can be made again from the rest."""
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
        """What tells this call from all others."""
        return "-".join(map(_checked, (self.series, self.id, self.time, self.attempt)))

    def results(self) -> str:
        """The outcome."""
        return f"{AUDIT}/{RUNS}/{self.name}.json"

    def lineage(self, event: str) -> str:
        """An event of OpenLineage."""
        return f"{AUDIT}/{LINEAGE}/{self.name}-{_checked(event.lower())}.json"


def newest_results(names: Iterable[str], most: int) -> list[str]:
    """Of names of outcomes those of the newest calls, the newest first.

    >>> newest_results(["audit/runs/a-b-20260102T000000Z-9.json", "audit/runs/z-20270102T000000Z-1.json"], 1)
    ['audit/runs/z-20270102T000000Z-1.json']
    """
    named = [(name.rsplit("-", 2)[1:], name) for name in names if name.count("-") > 1]
    return [name for _, name in sorted(named, reverse=True)[:most]]


def is_call_of(name: str, series: str, release_id: str) -> bool:
    """Whether an outcome is that of a call that was to make a release of a series.

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
        """The document whose existence makes the night a part of the series."""
        return f"{GENERATIONS}/{digits(self.night)}.json"

    def published(self) -> str:
        """Says that the night's release was there for readers."""
        return f"{PUBLISHED}/{digits(self.night)}"

    def range(self, number: int, sha256: str) -> str:
        """The units of one range, as this night left them; or those that it changed."""
        return f"{LEDGER_DATA}/{digits(self.night)}/p{digits(number)}-{sha256[:SHA256_DIGITS]}.arrows"

    def atoms(self, number: int, sha256: str) -> str:
        """The atoms of one range."""
        return f"{LEDGER_DATA}/{digits(self.night)}/a{digits(number)}-{sha256[:SHA256_DIGITS]}.arrows"


def night_of(name: str) -> int | None:
    """The night to which an object of a ledger belongs; None where it belongs to none.

    >>> night_of("generations/00012.json"), night_of("data/00003/p00000-ab.arrows"), night_of("key")
    (12, 3, None)
    """
    match = _OF_A_NIGHT.fullmatch(name)
    return int(match[1] or match[2] or match[3]) if match else None
