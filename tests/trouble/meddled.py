"""A store beside which a rival does something at the worst moment."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from microagg_core.store.layout import MANIFEST
from microagg_core.store.objects import Store


@dataclass(frozen=True)
class Meddled(Store):
    """A real store, beside which something happens at a chosen moment."""

    after_create: Callable[[], object] | None = None
    after_listing: Callable[[], object] | None = None

    def create(self, name: str, data: bytes) -> bool:
        created = super().create(name, data)
        if self.after_create and name.endswith(MANIFEST):
            self.after_create()
        return created

    def folders(self, prefix: str = "") -> list[str]:
        found = super().folders(prefix)
        if self.after_listing and prefix == "":
            self.after_listing()
        return found
