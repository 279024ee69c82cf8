"""Compiling kernels once a machine, in a process of its own, before anything needs them.

Compiling takes half a minute of a processor and half a GiB of memory that is never given back. A worker's memory is
for rows, so no worker compiles: whoever finds something missing starts one child process that compiles it to the
cache of :mod:`microagg_core.kernels.machine_code.code_cache`, and waits; others that come meanwhile wait for it too.

``is_compiled``, ``ensure_compiled`` and ``start_compiling`` are what the rest of the project calls. All take an
algorithm's name, the effort of refinement, and k; without k, what any k needs.
"""

from __future__ import annotations

from microagg_core.compiling.compilation import (
    PROTECTION,
    TABLES,
    Compiling,
    all_parts,
    compile_parts,
    ensure_compiled,
    grouping_parts,
    is_compiled,
    missing_parts,
    needed_parts,
    start_compiling,
)

__all__ = [
    "PROTECTION",
    "TABLES",
    "Compiling",
    "all_parts",
    "compile_parts",
    "ensure_compiled",
    "grouping_parts",
    "is_compiled",
    "missing_parts",
    "needed_parts",
    "start_compiling",
]
