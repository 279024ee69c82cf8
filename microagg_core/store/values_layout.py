"""Names of what a run counts of confidential values, in its folder of the work area; see :mod:`.layout`."""

from __future__ import annotations

from dataclasses import dataclass

from microagg_core.store.layout import RunLayout, digits


@dataclass(frozen=True)
class ValuesLayout:
    """Names of one run in the work area.

    >>> ValuesLayout("3f9a").value_counts(2)
    'runs/3f9a/scatter/part-00002-values.arrows'
    """

    key: str

    @property
    def folder(self) -> str:
        """The folder of the run."""
        return RunLayout(self.key).folder

    def value_counts(self, part: int) -> str:
        """Counted confidential values of the records of one input part that are released."""
        return f"{self.folder}/scatter/part-{digits(part)}-values.arrows"

    def distributions(self) -> str:
        """How confidential values are distributed over all records that are released."""
        return f"{self.folder}/plan/distributions.arrows"

    def checked_values(self, part: int) -> str:
        """Confidential values as the gate counted them in one candidate part."""
        return f"{self.folder}/checks/part-{digits(part)}-values.arrows"

    def protection(self, part: int) -> str:
        """What one candidate part shows of all that is demanded besides k."""
        return f"{self.folder}/checks/part-{digits(part)}-protection.json"

    def protection_figures(self) -> str:
        """What all of them show."""
        return f"{self.folder}/checks/protection.json"
