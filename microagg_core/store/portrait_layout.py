"""Names of what a run notes for the portrait of a release, in its folder of the work area; see :mod:`.layout`."""

from __future__ import annotations

from dataclasses import dataclass

from microagg_core.store.layout import RunLayout, digits


@dataclass(frozen=True)
class PortraitLayout:
    """Names of one run in the work area.

    >>> PortraitLayout("3f9a").drawn(2)
    'runs/3f9a/checks/part-00002-drawn.arrows'
    """

    key: str

    @property
    def folder(self) -> str:
        """The folder of the run."""
        return RunLayout(self.key).folder

    def drawn(self, part: int) -> str:
        """The drawn records of one candidate part, before and after."""
        return f"{self.folder}/checks/part-{digits(part)}-drawn.arrows"

    def sums(self, part: int) -> str:
        """Sums over all records of it, for the models that the spec names."""
        return f"{self.folder}/checks/part-{digits(part)}-portrait.json"
