"""Components that only ever join: each record points towards the one that stands for its component."""

from __future__ import annotations

from microagg_core.arrays import Ints
from microagg_core.kernels.machine_code.jit import jit, uncounted


@uncounted
def component_of(components: Ints, record: int) -> int:
    """Find the record that stands for a record's component, and shorten the way there for the next time."""
    while components[record] != record:
        components[record] = components[components[record]]
        record = components[record]
    return record


@jit
def join(components: Ints, sizes: Ints, a: int, b: int) -> None:
    """Make one component of the two that a and b stand for; ``sizes`` is right at the one that then stands for it."""
    if sizes[a] < sizes[b]:
        a, b = b, a
    components[b] = a
    sizes[a] += sizes[b]
