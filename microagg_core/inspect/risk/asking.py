"""Which records are asked, and what an intruder errs by: drawn from record numbers, whoever does the work."""

from __future__ import annotations

import numpy as np

from microagg_core.arrays import Bools, Floats, Ints, UInt64s
from microagg_core.kernels.tools.hashing import mix_words
from microagg_core.spec.release import RiskEffort

#: Records that are asked of a sampled release: a share of them is off by half a percent at most, mostly.
ASKED = 10_000
#: And never fewer than these, ...
LEAST_ASKED = 2_000
#: ... however many quasi-identifiers there are: a question costs what they are many.
_ASKED_VALUES = 80_000
#: Words that tell the draws of samples and of noise from each other, and from others of the same seed.
_SAMPLE, _NOISE = 0x5A3D, 0x7015E
_BITS = 53


def asking_share(effort: RiskEffort, records: int, p: int) -> float:
    """The share of records that are asked.

    >>> asking_share("full", 10**9, 4), asking_share("sampled", 5_000, 4), asking_share("sampled", 10**6, 4)
    (1.0, 1.0, 0.01)
    """
    if effort == "full" or not records:
        return 1.0
    return min(1.0, max(LEAST_ASKED, min(ASKED, _ASKED_VALUES // max(p, 1))) / records)


def is_asked(records: Ints, asking: float, seed: int) -> Bools:
    """Which records are asked, so that about this share of all are.

    >>> int(is_asked(np.arange(10_000), 0.25, 7).sum())
    2419
    """
    return np.asarray(_uniform(records, seed, _SAMPLE) < asking, dtype=np.bool_)


def noise(records: Ints, p: int, seed: int) -> Floats:
    """What an intruder errs by: for each record and attribute a normal number of mean 0 and deviation 1.

    >>> errors = noise(np.arange(20_000), 2, 0)
    >>> errors.shape, abs(float(errors.mean())) < 0.01, round(float(errors.std()), 2)
    ((20000, 2), True, 1.0)
    """
    from scipy.special import ndtri

    columns = [ndtri(_uniform(records, seed, _NOISE + j)) for j in range(p)]
    return np.column_stack(columns) if columns else np.zeros((len(records), 0))


def _uniform(records: Ints, seed: int, what: int) -> Floats:
    """A number between 0 and 1, neither of them, for each record."""
    start: UInt64s = mix_words(np.array([seed % 2**64, what], dtype=np.uint64))
    words = mix_words(mix_words(records.astype(np.uint64) ^ start[0]) ^ start[1])
    return ((words >> np.uint64(64 - _BITS)).astype(np.float64) + 0.5) * 2.0**-_BITS
