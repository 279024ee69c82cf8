"""The one place that owns numba's options, and what is compiled of a kernel.

``nogil`` because Dask runs tasks in threads; ``parallel`` off because Dask owns the cores; ``fastmath`` off
because the order of additions decides ties, and the same input must give the same groups on every machine.
Machine code is kept between processes by :mod:`microagg_core.kernels.machine_code.code_cache`.

Compiling takes numba a tenth of a second for each function and each set of types, so there are to be few. A kernel that
others call is compiled once for whole numbers, be they constants, results or read from short arrays; and without what
Python would call it by, which is made for those alone that Python does call.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeVar

from microagg_core.kernels.machine_code.code_cache import keep_compiled_code

# The inner modules of numba carry no types.
_types: Any = import_module("numba.core.types")
_CPUDispatcher: Any = import_module("numba.core.registry").CPUDispatcher
_Compiler: Any = import_module("numba.core.compiler").Compiler
_Library: Any = import_module("numba.core.codegen").JITCodeLibrary

Function = TypeVar("Function", bound=Callable[..., Any])

_OPTIONS: dict[str, Any] = {
    "nopython": True, "nogil": True, "parallel": False, "fastmath": False, "error_model": "numpy",
    "no_cfunc_wrapper": True,
}  # fmt: skip


def _widened(kind: Any) -> Any:
    """Widen the type of an argument: a constant's value and a number's width need no code of their own."""
    kind = _types.unliteral(kind)
    is_short = isinstance(kind, _types.Integer) and kind.signed and kind.bitwidth < _types.int64.bitwidth
    return _types.int64 if is_short else kind


class _WithoutEnvironments:
    """Numba's code generator, for code that runs only within other code, and has no environment of its own."""

    def __init__(self, codegen: Any) -> None:
        self._codegen = codegen

    def set_env(self, env_name: str, env: Any) -> None:
        """Set nothing."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._codegen, name)


class _LinkedLibrary(_Library):  # type: ignore[misc]
    """Code that is only linked into other code, and there optimized and made machine code of, once and not twice."""

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """Return 0: there is no machine code."""
        return 0

    @property
    def codegen(self) -> Any:
        return _WithoutEnvironments(self._codegen)


class _InnerCompiler(_Compiler):  # type: ignore[misc]
    """Numba's compiler, up to where there is code to link."""

    def define_pipelines(self) -> Any:
        """Define the usual passes, with a library of another kind."""
        codegen = self.state.targetctx.codegen()
        self.state.library = _LinkedLibrary(codegen, self.state.func_id.func_qualname)
        return super().define_pipelines()


class _Inner(_CPUDispatcher):  # type: ignore[misc]
    """Kernel as other kernels call it."""

    def __init__(self, function: Any, options: dict[str, Any]) -> None:
        inner = {**options, "no_cpython_wrapper": True}
        super().__init__(function, targetoptions=inner, pipeline_class=_InnerCompiler)

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Compile for the widened types; numba converts what is passed."""
        return super().get_call_template(tuple(map(_widened, args)), {name: _widened(kws[name]) for name in kws})


class _Kernel(_CPUDispatcher):  # type: ignore[misc]
    """Kernel as Python calls it; numba, compiling another kernel that calls it, finds the inner one."""

    def __init__(self, function: Any, options: dict[str, Any]) -> None:
        super().__init__(function, targetoptions=options)
        keep_compiled_code(self)
        self.inner = _Inner(function, options)
        self.get_call_template, self.get_overload = self.inner.get_call_template, self.inner.get_overload


def _compiled(function: Function, options: dict[str, Any]) -> Function:
    kernel: Any = _Kernel(function, {**_OPTIONS, **options})
    typed: Function = kernel
    return typed


def jit(function: Function) -> Function:
    """Compile a function at its first call, with the project's options; a call looks as it did.

    >>> @jit
    ... def double(x):
    ...     return 2 * x
    >>> double(4)
    8
    """
    return _compiled(function, {})


def uncounted(function: Function) -> Function:
    """Compile a function that allocates nothing, and have it count no references.

    Numba counts the references to every array that passes through a function, with an atomic instruction each
    time; in searches of a microsecond that would be most of the time. A function that makes no arrays but
    views need not count: whoever calls it holds what it is given. All that it calls is of its kind.
    """
    return _compiled(function, {"_nrt": False})


def inlined(function: Function) -> Function:
    """Compile a small function that allocates nothing into whatever calls it."""
    return _compiled(function, {"_nrt": False, "forceinline": True})
