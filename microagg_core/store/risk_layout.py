"""Names of what a run notes of disclosure risk, in its folder of the work area; see :mod:`.layout`."""

from __future__ import annotations

from dataclasses import dataclass

from microagg_core.store.layout import RunLayout, digits


@dataclass(frozen=True)
class RiskLayout:
    """Names of one run in the work area.

    >>> RiskLayout("3f9a").notes(2)
    'runs/3f9a/checks/part-00002-risk.json'
    """

    key: str

    @property
    def folder(self) -> str:
        """The folder of the run."""
        return RunLayout(self.key).folder

    def notes(self, part: int) -> str:
        """What measures noted of one candidate part."""
        return f"{self.folder}/checks/part-{digits(part)}-risk.json"

    def labels(self, part: int) -> str:
        """The same, label by label."""
        return f"{self.folder}/checks/part-{digits(part)}-risk.arrows"
