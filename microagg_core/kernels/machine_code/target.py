"""The processor that machine code is made for, and everything else that it depends on.

Numba would compile for the very processor that it runs on. Then nothing compiled could be used on another machine, and
it would not even be faster: the wide vectors of the newest processors slow short loops down. So code is made
for a level that all processors of the last ten years have, and one cache serves them all. Which of the levels it is
changes no result: the order of operations is fixed, and none are fused.
"""

from __future__ import annotations

import hashlib
import importlib.util
import sysconfig
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numba
import numba.core.config
import numpy as np

# The inner modules of numba and llvmlite carry no types.
_llvmlite: Any = import_module("llvmlite")
_llvm: Any = import_module("llvmlite.binding")
_config: Any = numba.core.config
_cpu: Any = import_module("numba.core.registry").cpu_target

_KERNELS = Path(__file__).parents[1]
_PACKAGE = _KERNELS.parent
_LEVEL = "x86-64-v3"
#: What LLVM assumes of a processor of that level, beyond what every 64-bit x86 has.
_OF_THE_LEVEL = (
    "cx16", "popcnt", "sahf", "sse3", "ssse3", "sse4.1", "sse4.2",
    "avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave",
)  # fmt: skip
#: Numba's settings that change the code it makes; its own cache looks at none of them.
_SETTINGS = (
    "OPT", "LOOP_VECTORIZE", "SLP_VECTORIZE", "BOUNDSCHECK", "DEBUGINFO_DEFAULT", "ENABLE_PROFILING", "NRT_STATS",
    "DEBUG_NRT", "DISABLE_INTEL_SVML", "USING_SVML",
    "LLVM_REFPRUNE_PASS", "LLVM_REFPRUNE_FLAGS", "EXTEND_VARIABLE_LIFETIMES",
)  # fmt: skip


def _has_the_level() -> bool:
    """Say whether this machine's processor, as the system lets it be used, is of the level."""
    try:
        features = _llvm.get_host_cpu_features()
    except RuntimeError:  # LLVM does not know this processor
        return False
    return bool(_config.ENABLE_AVX) and all(features.get(name, False) for name in _OF_THE_LEVEL)


@cache
def _pinned() -> str | None:
    """Decide once for which processor to compile; None where somebody else chose."""
    if _config.CPU_NAME is not None or "_toplevel_target_context" in vars(_cpu):
        return None
    return _LEVEL if _has_the_level() else "generic"


def pin_target() -> None:
    """Have numba compile for the level, or for any processor of this kind where this one is below it.

    Who names a processor in ``NUMBA_CPU_NAME`` gets code for that one. And where somebody else's functions were
    compiled in this process already, numba's code generator is made; then kernels are compiled as it does.

    Numba forgets the name when any of its variables changes in the process's environment; so it is said again before
    each look at it.
    """
    if (name := _pinned()) is not None:
        _config.CPU_NAME = name
        _config.CPU_FEATURES = ""


def kernel_sources() -> list[Path]:
    """List all modules of the package that hold kernels, wherever they lie, and those beside them."""
    return sorted(
        path
        for path in _PACKAGE.rglob("*.py")
        if path.is_relative_to(_KERNELS) or b"microagg_core.kernels.machine_code.jit import" in path.read_bytes()
    )


@cache
def fingerprint() -> str:
    """Name everything that compiled kernels depend on, and nothing else: no path, no date, no user, no machine.

    That is the target that numba compiles for, as its code generator has it; the versions of Python, numba, its
    compiler and numpy; numba's settings; and the sources of all kernels.
    """
    pin_target()
    digest = hashlib.sha256()
    for fact in (
        *_cpu.target_context.codegen().magic_tuple(),
        importlib.util.MAGIC_NUMBER.hex(),
        sysconfig.get_config_var("SOABI"),
        numba.__version__,
        _llvmlite.__version__,
        _llvm.llvm_version_info,
        np.__version__,
        *(getattr(_config, name, None) for name in _SETTINGS),
    ):
        digest.update(repr(fact).encode() + b"\0")
    for source in kernel_sources():
        name = source.relative_to(_PACKAGE).as_posix()
        digest.update(name.encode() + b"\0" + source.read_bytes() + b"\0")
    return digest.hexdigest()[:16]
