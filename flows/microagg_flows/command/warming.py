"""``microagg warm``: what a machine compiles once, compiled before it is needed."""

from __future__ import annotations

import os
from pathlib import Path

from microagg_core.errors import SpecError, StorageError
from microagg_core.group.algorithms import algorithms as registry
from microagg_core.group.costs import EFFORTS
from microagg_flows.progress import shown, terminal_progress


def warm_kernels(names: list[str], refine: str, k: int | None, everything: bool, into: Path | None, quiet: bool) -> str:
    """Compile what releases by these algorithms need, and keep it, if a folder is named, there; what to tell of it.

    Raises:
        SpecError: there is no such algorithm or refinement.
        StorageError: the code cannot be kept.
        ClusterError: the process that compiles died.
    """
    _refuse_unknown(names, refine)
    if into is not None:
        os.environ["MICROAGG_CACHE_DIR"] = str(into)
    from microagg_core.compiling import all_parts, compile_parts, missing_parts, needed_parts
    from microagg_core.kernels.machine_code.code_cache import code_folders

    wanted = all_parts() if everything else tuple(part for name in names for part in needed_parts(name, refine, k))
    parts, where = missing_parts(wanted), code_folders().write
    if into is not None and (where is None or where.parent != into.absolute()):
        raise StorageError(f"--into: {into} cannot be written, or others can write to it too; name another folder")
    said: list[str] = []
    if parts:
        progress = terminal_progress(quiet)
        with shown(progress, "compile", len(parts)):
            kept = compile_parts(parts, say=said.append, done=lambda _part: progress.advance())
        if not kept:
            raise StorageError(said[-1])
    already, where = "" if parts else " already", where or code_folders().read[0]
    return f"kernels are compiled{already}, once for this machine: {where}"


def _refuse_unknown(names: list[str], refine: str) -> None:
    unknown = [name for name in names if name not in registry()]
    if unknown:
        raise SpecError(f"--algorithm: there is no {unknown[0]!r}; 'microagg algorithms' lists them")
    if refine not in ("off", *EFFORTS):
        raise SpecError(f"--refine: must be off, {' or '.join(EFFORTS)} (got {refine!r})")
