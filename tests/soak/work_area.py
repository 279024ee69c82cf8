"""The work area as an outsider sees it: which tasks have left a receipt, and which of them a re-run did again."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from soak.places import Place

#: Stages whose receipts are no saving: the gate looks at everything again, whatever was found before.
_ALWAYS_AGAIN = ("check-files",)


def runs(names: dict[str, str]) -> list[str]:
    """Objects of runs that have not been cleared away."""
    return sorted(name for name in names if name.startswith("runs/"))


def receipts(versions: dict[str, str]) -> dict[str, str]:
    """Receipts of tasks that need not be done again, with their versions."""
    return {
        name: version
        for name, version in versions.items()
        if "/receipts/" in name and not any(f"/{stage}/" in name for stage in _ALWAYS_AGAIN)
    }


@dataclass
class Reuse:
    """Watches a re-run: how many of the receipts that it found it left as they were."""

    place: Place
    n_tasks: int
    _found: dict[str, str] = field(default_factory=dict)
    _again: set[str] = field(default_factory=set)
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Remember what is there, and look now and then what becomes of it."""
        self._found = receipts(self.place.versions())
        if self._found:
            self._thread = threading.Thread(target=self._watch, daemon=True)
            self._thread.start()

    def _watch(self) -> None:
        while not self._stop.wait(0.25):
            try:
                now = receipts(self.place.versions())
            except Exception:  # a store that is away for a moment: the next look tells
                continue
            self._again |= {name for name, version in now.items() if self._found.get(name, version) != version}

    def lost(self) -> int:
        """Count receipts that were found and are others now: finished work that was done again."""
        return len(self._found.keys() & self._again)

    def share(self) -> float | None:
        """The share of all tasks of the release that the re-run did not have to do; None where it is unknown."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(30)
        return len(self._found.keys() - self._again) / self.n_tasks if self.n_tasks else None
