"""64-bit hashes of column buffers: arrays in, arrays out.

The mixing step is the finalizer of SplitMix64: a bijection on 64 bits in which every input bit moves about
half of the output bits. The hashes find changed, swapped, lost and repeated rows; they are not signatures.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from microagg_core.arrays import Bools, Bytes, Ints, UInt64s
from microagg_core.kernels.machine_code.jit import jit

Value = TypeVar("Value", bound=np.generic)

_K1 = np.uint64(0x9E3779B97F4A7C15)
_K2 = np.uint64(0xBF58476D1CE4E5B9)
_K3 = np.uint64(0x94D049BB133111EB)
_NULL = np.uint64(0xD6E8FEB86659FD93)


@jit
def mix(x: np.uint64) -> np.uint64:
    """Spread the bits of one word."""
    x = (x ^ (x >> np.uint64(30))) * _K2
    x = (x ^ (x >> np.uint64(27))) * _K3
    return x ^ (x >> np.uint64(31))


def _read_only(array: NDArray[Value]) -> NDArray[Value]:
    """Make the view read-only, as numba would compile for both what can be written and what cannot."""
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view


def fold_words(hashes: UInt64s, words: UInt64s, valid: Bools, salt: np.uint64) -> None:
    """Fold a column of 64-bit words into the rows' hashes, in place; ``salt`` tells columns apart.

    Where ``valid`` is empty, all are.
    """
    _fold_words(hashes, _read_only(words), _read_only(valid), salt)


@jit
def _fold_words(hashes: UInt64s, words: UInt64s, valid: Bools, salt: np.uint64) -> None:
    if valid.shape[0] == 0:  # most columns: the loop has no branch
        for i in range(hashes.shape[0]):
            hashes[i] = mix(mix(hashes[i] + salt + _K1) ^ mix(words[i] + _K1))
        return
    for i in range(hashes.shape[0]):
        word = words[i] if valid[i] else _NULL
        tag = np.uint64(1) if valid[i] else np.uint64(2)
        hashes[i] = mix(mix(hashes[i] + salt + tag * _K1) ^ mix(word + _K1))


def fold_bytes(hashes: UInt64s, offsets: Ints, data: Bytes, valid: Bools, salt: np.uint64) -> None:
    """Fold a column of byte strings (Arrow offsets and data) into the rows' hashes, in place; as :func:`fold_words`."""
    _fold_bytes(hashes, _read_only(offsets), _read_only(data), _read_only(valid), salt)


@jit
def _fold_bytes(hashes: UInt64s, offsets: Ints, data: Bytes, valid: Bools, salt: np.uint64) -> None:
    all_valid, eight = valid.shape[0] == 0, np.uint64(8)
    for i in range(hashes.shape[0]):
        if not (all_valid or valid[i]):
            hashes[i] = mix(mix(hashes[i] + salt + np.uint64(2) * _K1) ^ mix(_NULL + _K1))
            continue
        j, end = np.uint64(offsets[i]), np.uint64(offsets[i + 1])
        h = mix(hashes[i] + salt + _K1) ^ (end - j)
        while j + eight <= end:
            word = np.uint64(0)
            for b in range(8):  # eight, whatever comes: one load
                word |= np.uint64(data[j + np.uint64(b)]) << np.uint64(8 * b)
            h = mix(h ^ mix(word + _K1)) + _K3
            j += eight
        word, shift = np.uint64(0), np.uint64(0)
        while j < end:
            word |= np.uint64(data[j]) << shift
            shift += eight
            j += np.uint64(1)
        hashes[i] = mix(h ^ mix(word + _K2))


def mix_words(words: UInt64s) -> UInt64s:
    """Mix every word; equal words give equal results."""
    # Compiled code makes a type of its own for what it returns, with which NumPy adds up forty times as slowly.
    return _mix_words(_read_only(words)).view(np.uint64)


@jit
def _mix_words(words: UInt64s) -> UInt64s:
    mixed = np.empty_like(words)
    for i in range(words.shape[0]):
        mixed[i] = mix(words[i])
    return mixed
