"""A reader who looks all the time: follows latest.json and every manifest to every part, and believes no word.

Knows nothing of the product but what its README tells readers: a release exists when its manifest does, and consists
of the parts that it names, with their sizes and checksums. Pages come a moment later, and are what it names, or not
there.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from soak.places import Place, sha256

#: The checksums of a release's parts, in their order: what makes two releases the same.
Content = tuple[str, ...]


@dataclass(frozen=True)
class Release:
    """A release that can be read."""

    folder: str
    content: Content
    names: frozenset[str]


class UnreadableError(Exception):
    """A reader was promised something that is not there."""


def read_json(place: Place, name: str) -> Any:
    """A JSON object that was listed or named; it has to be there, and whole."""
    data = place.read(name)
    if data is None:
        raise UnreadableError(f"{name} is named but not there")
    try:
        return json.loads(data)
    except ValueError:
        raise UnreadableError(f"{name} is not whole ({len(data)} bytes)") from None


def read_release(place: Place, manifest_name: str) -> Release:
    """Everything that a manifest names, with sizes and checksums compared.

    Raises:
        UnreadableError: something is missing or not what the manifest says.
    """
    folder = manifest_name.rpartition("/")[0]
    manifest = read_json(place, manifest_name)
    names = []
    pages = manifest.get("pages", [])
    written = [{**page, "name": page["written"]} for page in pages]
    for entry in (*manifest["parts"], *written, *pages):
        name = f"{folder}/{entry['name']}"
        data = place.read(name)
        if data is None and entry in pages:
            continue
        if data is None:
            raise UnreadableError(f"{manifest_name} names {name}, which is not there")
        if (sha256(data), len(data)) != (entry["sha256"], entry["bytes"]):
            raise UnreadableError(f"{name} has {len(data)} bytes that are not what its manifest says")
        names.append(name)
    return Release(folder, tuple(part["sha256"] for part in manifest["parts"]), frozenset(names))


def manifests(names: Collection[str]) -> list[str]:
    """The manifests among names of objects."""
    return sorted(name for name in names if name.endswith("/manifest.json"))


def latest(place: Place) -> Release | None:
    """The release that latest.json names; None where there is none."""
    if place.read("latest.json") is None:
        return None
    return read_release(place, read_json(place, "latest.json")["manifest"])


@dataclass
class Reader:
    """Looks again and again, in a thread of its own, while a case lasts."""

    place: Place
    allowed: set[Content]
    every: float
    wrongs: list[str] = field(default_factory=list)
    looks: int = 0
    _stop: threading.Event = field(default_factory=threading.Event)
    _resting: threading.Lock = field(default_factory=threading.Lock)
    _thread: threading.Thread | None = None
    _seen: set[str] = field(default_factory=set)
    _last: str = ""

    def start(self) -> None:
        """Begin to look."""
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop looking."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(30)

    def rest(self) -> threading.Lock:
        """A lock under which a kind of fault may damage the output itself; then :meth:`forget`."""
        return self._resting

    def forget(self) -> None:
        """What was seen before the output was damaged is no promise any more."""
        self._seen.clear()
        self._last = ""

    def _read(self) -> None:
        while not self._stop.wait(self.every):
            with self._resting:
                self.look()

    def look(self) -> None:
        """One look at all that can be read."""
        try:
            self._look_once()
        except UnreadableError as error:
            self._complain(str(error))
        except Exception as error:  # the server is away, or the disk: no reader can read then, and none is misled
            if not _is_absence(error):
                self._complain(f"the reader failed: {type(error).__name__}: {error}")
        self.looks += 1

    def _look_once(self) -> None:
        found = set(manifests(self.place.versions()))
        for name in self._seen - found:
            if self.place.read(name) is None:
                self._complain(f"{name} was there and is gone")
        self._seen |= found
        for name in sorted(found):
            release = read_release(self.place, name)
            if release.content not in self.allowed:
                self._complain(f"{name} names content that no undisturbed release has")
        self._look_at_latest()

    def _look_at_latest(self) -> None:
        newest = latest(self.place)
        if newest is None:
            if self._last:
                self._complain("latest.json was there and is gone")
            return
        if newest.folder < self._last:
            self._complain(f"latest.json went back from {self._last} to {newest.folder}")
        self._last = max(self._last, newest.folder)

    def _complain(self, what: str) -> None:
        if what not in self.wrongs:
            self.wrongs.append(what)


def _is_absence(error: Exception) -> bool:
    """Whether the store itself did not answer."""
    module = type(error).__module__.split(".")[0]
    return module in ("botocore", "urllib3") or isinstance(error, (ConnectionError, TimeoutError))


def look_until(reader: Reader, seconds: float) -> None:
    """Have the reader look now, at least once more."""
    before, deadline = reader.looks, time.monotonic() + seconds
    while reader.looks <= before and time.monotonic() < deadline:
        time.sleep(0.05)
