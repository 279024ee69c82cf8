"""Names for the types of arrays, so that every module says them alike.

They name the kind of number alone: how many dimensions an array has, and what it holds, is said where it is used.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
#: Half the memory of :data:`Ints`, for numbers of records in the inner loops of searches.
ShortInts: TypeAlias = NDArray[np.int32]
UInt64s: TypeAlias = NDArray[np.uint64]
Bytes: TypeAlias = NDArray[np.uint8]
Bools: TypeAlias = NDArray[np.bool_]
#: Digests of 128 bits, one a row: an array of shape (n, 2).
Pairs: TypeAlias = NDArray[np.uint64]
