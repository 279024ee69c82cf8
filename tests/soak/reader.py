"""Two who look all the time while a case lasts: a reader of the output, and one who counts what a re-run did again.

They know nothing of the product but what its README tells readers: a release exists when its manifest does, and
consists of the parts that it names, with their sizes and checksums. Pages come a moment later, and are what it names,
or not there.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Collection
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from soak.places import Place

#: The checksums of a release's parts, in their order: what makes two releases the same.
Content = tuple[str, ...]
#: Tasks that no re-run is spared: the gate looks at everything again, and what is uploaded is another attempt's.
ALWAYS_AGAIN = ("check-files", "join", "trace", "traces", "upload")


@dataclass(frozen=True)
class Release:
    """A release that can be read."""

    folder: str
    content: Content
    names: frozenset[str]


class UnreadableError(Exception):
    """A reader was promised something that is not there."""


def read_json(place: Place, name: str) -> Any:
    """Read a JSON object that was listed or named; it has to be there, and whole."""
    data = place.read(name)
    if data is None:
        raise UnreadableError(f"{name} is named but not there")
    try:
        return json.loads(data)
    except ValueError:
        raise UnreadableError(f"{name} is not whole ({len(data)} bytes)") from None


def read_release(place: Place, manifest_name: str) -> Release:
    """Read everything that a manifest names, and compare sizes and checksums.

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
        if (sha256(data).hexdigest(), len(data)) != (entry["sha256"], entry["bytes"]):
            raise UnreadableError(f"{name} has {len(data)} bytes that are not what its manifest says")
        names.append(name)
    return Release(folder, tuple(part["sha256"] for part in manifest["parts"]), frozenset(names))


def manifests(names: Collection[str]) -> list[str]:
    return sorted(name for name in names if name.endswith("/manifest.json"))


def latest(place: Place) -> Release | None:
    """Read the release that latest.json names; None where there is none."""
    if place.read("latest.json") is None:
        return None
    return read_release(place, read_json(place, "latest.json")["manifest"])


@dataclass
class _Watcher:
    """Look again and again, in a thread of its own."""

    place: Place
    every: float
    _over: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join(30)

    def _watch(self) -> None:
        while not self._over.wait(self.every):
            self.look()

    def look(self) -> None:
        raise NotImplementedError


@dataclass
class Reader(_Watcher):
    allowed: set[Content] = field(default_factory=set)
    wrongs: list[str] = field(default_factory=list)
    #: Held by a kind of fault that damages the output itself; then :meth:`forget`.
    rest: threading.Lock = field(default_factory=threading.Lock)
    _seen: set[str] = field(default_factory=set)
    _last: str = ""

    def forget(self) -> None:
        """Forget what was seen before the output was damaged: it is no promise any more."""
        self._seen.clear()
        self._last = ""

    def look(self) -> None:
        """Look once at all that can be read."""
        with self.rest:
            try:
                self._look()
            except UnreadableError as error:
                self._complain(str(error))
            except Exception as error:  # the server is away, or the disk: no reader can read then, and none is misled
                if not _is_absence(error):
                    self._complain(f"the reader failed: {type(error).__name__}: {error}")

    def _look(self) -> None:
        found = set(manifests(self.place.versions()))
        for name in self._seen - found:
            if self.place.read(name) is None:
                self._complain(f"{name} was there and is gone")
        self._seen |= found
        for name in sorted(found):
            if read_release(self.place, name).content not in self.allowed:
                self._complain(f"{name} names content that no undisturbed release has")
        newest = latest(self.place)
        if newest is None:
            if self._last:
                self._complain("latest.json was there and is gone")
            return
        if newest.folder < self._last:
            self._complain(f"latest.json went back from {self._last} to {newest.folder}")
        self._last = max(self._last, newest.folder)

    def _complain(self, trouble: str) -> None:
        if trouble not in self.wrongs:
            self.wrongs.append(trouble)


def _is_absence(error: Exception) -> bool:
    """Tell whether the store itself did not answer."""
    module = type(error).__module__.split(".")[0]
    return module in ("botocore", "urllib3") or isinstance(error, (ConnectionError, TimeoutError))


@dataclass
class Reuse(_Watcher):
    """Watch a re-run: how many of the receipts that it found it left as they were."""

    every: float = 0.25
    n_tasks: int = 0
    _found: dict[str, str] = field(default_factory=dict)
    _again: set[str] = field(default_factory=set)

    def start(self) -> None:
        self._found = self._receipts()
        if self._found:
            super().start()

    def _receipts(self) -> dict[str, str]:
        return {
            name: version
            for name, version in self.place.versions().items()
            if "/receipts/" in name and not any(f"/{stage}/" in name for stage in ALWAYS_AGAIN)
        }

    def look(self) -> None:
        try:
            now = self._receipts()
        except Exception:  # a store that is away for a moment: the next look tells
            return
        self._again |= {name for name, version in now.items() if self._found.get(name, version) != version}

    def lost(self) -> int:
        """Count receipts that were found and are others now: finished work that was done again."""
        return len(self._found.keys() & self._again)

    def share(self) -> float | None:
        """Compute the share of all tasks that the re-run did not have to do; None where it is unknown."""
        self.stop()
        return len(self._found.keys() - self._again) / self.n_tasks if self.n_tasks else None
