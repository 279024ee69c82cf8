"""The one place that owns numba's options.

``nogil`` because Dask runs tasks in threads; ``parallel`` off because Dask owns the cores; ``fastmath`` off
because the order of additions decides ties, and the same input must give the same groups on every machine.
Machine code is kept between processes by :mod:`microagg_core.kernels.code_cache`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba

from microagg_core.kernels.code_cache import keep_compiled_code

Function = TypeVar("Function", bound=Callable[..., Any])

_OPTIONS: dict[str, Any] = {"nogil": True, "parallel": False, "fastmath": False, "error_model": "numpy"}


def _compiled(function: Function, options: dict[str, Any]) -> Function:
    compiled: Any = numba.njit(**options)(function)
    keep_compiled_code(compiled)
    typed: Function = compiled
    return typed


def jit(function: Function) -> Function:
    """Compile a function at its first call, with the project's options; a call looks as it did.

    >>> @jit
    ... def double(x):
    ...     return 2 * x
    >>> double(4)
    8
    """
    return _compiled(function, _OPTIONS)


def uncounted(function: Function) -> Function:
    """Compile a function that allocates nothing, and have it count no references.

    Numba counts the references to every array that passes through a function, with an atomic instruction each
    time; in searches of a microsecond that would be most of the time. A function that makes no arrays but
    views need not count: whoever calls it holds what it is given. All that it calls is of its kind.
    """
    return _compiled(function, {**_OPTIONS, "_nrt": False})


def inlined(function: Function) -> Function:
    """Compile a small function that allocates nothing into whatever calls it."""
    return _compiled(function, {**_OPTIONS, "_nrt": False, "forceinline": True})
