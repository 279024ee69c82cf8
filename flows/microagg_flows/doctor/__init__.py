"""A look at a place before the night: what a run would meet, found without making one.

A check is a module here whose ``look`` yields findings, and a line in ``CHECKS``, in the order in which a run meets it.
Nothing is written but probes in the work area, which are removed again.
"""

from __future__ import annotations

from collections.abc import Iterator

from microagg_core.store.failures import impatient
from microagg_flows.doctor import credentials, nights, release, storage, workers
from microagg_flows.doctor.findings import Finding
from microagg_flows.doctor.patient import Patient
from microagg_flows.progress import Progress
from microagg_flows.releasing import Order, Settled, now

CHECKS = (release.look, storage.look, workers.look, credentials.look, nights.look)


def examine(order: Order, progress: Progress) -> Iterator[Finding]:
    """Look at all that a run of this order would meet.

    Raises:
        SpecError: the spec is none, so there is no place to look at.
    """
    moment = now()
    tonight = Settled.of(order, moment)
    patient = Patient(tonight.spec, tonight.id, moment, progress)
    for look in CHECKS:
        with impatient():  # a store that does not answer is a finding
            findings = list(look(patient))
        yield from findings
