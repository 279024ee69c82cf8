"""Random numbers for kernels, the same on every machine: integers and additions only.

The generator is xorshift64*, of period 2**64 - 1; its state is one word that is not zero.
"""

from __future__ import annotations

import numpy as np

from microagg_core.arrays import Floats, UInt64s
from microagg_core.kernels.machine_code.jit import jit
from microagg_core.kernels.tools.hashing import mix_words


def random_state(seed: int) -> UInt64s:
    return random_states(np.array([seed % 2**64], dtype=np.uint64))


def random_states(seeds: UInt64s) -> UInt64s:
    """Make the state of a generator from each seed."""
    states: UInt64s = np.maximum(mix_words(seeds + np.uint64(0x9E3779B97F4A7C15)), np.uint64(1))
    return states


@jit
def draw(state: UInt64s, count: int) -> int:
    """Draw a whole number below ``count``, which is at most 2**31."""
    x = state[0]
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    state[0] = x
    high = np.int64((x * np.uint64(2685821657736338717)) >> np.uint64(33))
    return int((high * np.int64(count)) >> np.int64(31))


def exponential_quantiles(count: int) -> Floats:
    """Cut the exponential distribution (mean 1) into so many equally likely values, the least of them 0.

    They are the expected order statistics, sums of reciprocals, so that no logarithm is needed, whose last
    bits differ between machines.

    >>> exponential_quantiles(3).tolist()
    [0.0, 0.3333333333333333, 0.8333333333333333]
    """
    steps = 1.0 / np.arange(count, 1, -1)
    return np.concatenate([[0.0], np.add.accumulate(steps)])
