"""``microagg warm``, ``clean`` and ``forget``: compiled kernels, what runs left, units that are to be erased."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from microagg_core.errors import SpecError, StorageError
from microagg_flows.command.call import JsonOption, QuietOption, SetOption, SpecArgument, command
from microagg_flows.process import claim_limits, scratch

if TYPE_CHECKING:
    from microagg_flows.record import RunRecord


@command("warm", recorded=False)
def warm(
    algorithms: Annotated[
        list[str] | None, typer.Option("--algorithm", help="An algorithm, by name; may be given again.")
    ] = None,
    refine: Annotated[str, typer.Option(help="The refinement: off, fast or thorough.")] = "fast",
    k: Annotated[int | None, typer.Option(min=2, help="Only what this k needs; default: any.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="All algorithms and refinements.")] = False,
    into: Annotated[
        Path | None, typer.Option("--into", help="Keep them below this folder, to be copied or packed from there.")
    ] = None,
    quiet: QuietOption = False,
) -> None:
    """Compile the kernels and keep them, once for this machine: for images, and before the first release."""
    from microagg_core.group.algorithms import algorithms as known
    from microagg_core.group.costs import EFFORTS

    names = algorithms or ["mdav"]
    if unknown := [name for name in names if name not in known()]:
        raise SpecError(f"--algorithm: there is no {unknown[0]!r}; 'microagg algorithms' lists them")
    if refine not in ("off", *EFFORTS):
        raise SpecError(f"--refine: must be off, {' or '.join(EFFORTS)} (got {refine!r})")
    if into is not None:
        os.environ["MICROAGG_CACHE_DIR"] = str(into)
    from microagg_core.compiling import all_parts, compile_parts, missing_parts, needed_parts
    from microagg_core.kernels.machine_code.code_cache import code_folders
    from microagg_flows.progress import shown, terminal_progress

    wanted = all_parts() if everything else tuple(part for name in names for part in needed_parts(name, refine, k))
    parts, folder = missing_parts(wanted), code_folders().write
    if into is not None and (folder is None or folder.parent != into.absolute()):
        raise StorageError(f"--into: {into} cannot be written, or others can write to it too; name another folder")
    troubles: list[str] = []
    if parts:
        progress = terminal_progress(quiet)
        with shown(progress, "compile", len(parts)):
            kept = compile_parts(parts, say=troubles.append, done=lambda _part: progress.advance())
        if not kept:
            raise StorageError(troubles[-1])
    already, folder = "" if parts else " already", folder or code_folders().read[0]
    typer.echo(f"kernels are compiled{already}, once for this machine: {folder}")


@command("clean", "interrupted; what was removed is gone, and the same command removes the rest", recorded=False)
def clean(
    spec: SpecArgument,
    everything: Annotated[bool, typer.Option("--all", help="Also what is not due yet.")] = False,
    settings: SetOption = None,
) -> None:
    """Remove rows of runs that died, or that failed and whose time is up, and what they left at the output."""
    from microagg_core.release.audit import prune_audit
    from microagg_core.release.cleaning import clean_work, remove_abandoned
    from microagg_core.series.publications import clean_output
    from microagg_core.spec.loading import load_spec

    place = load_spec(spec, settings or ())
    removed, kept = clean_work(place, everything)
    typer.echo(f"removed {removed} failed runs, kept {kept} that are not due yet")
    if files := remove_abandoned(place, everything):
        typer.echo(f"removed {files} files that were never completed")
    if files := clean_output(place, everything):
        typer.echo(f"removed {files} files of runs that died from the output, which no manifest named")
    if pruned := prune_audit(place):
        typer.echo(f"removed {pruned} files of the audit, as their time was up")


@command("forget", "interrupted; with --yes the same command goes on from there")
def forget(
    record: RunRecord,
    spec: SpecArgument,
    units: Annotated[str, typer.Option("--units", help="CSV or Parquet file with the columns of the unit.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do it; without, only tell what it takes.")] = False,
    settings: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Erase units from a series: the releases that hold them are withdrawn, the newest is published without them."""
    from microagg_core.series.eraser import forget as forget_units
    from microagg_core.spec.loading import load_spec
    from microagg_flows.releasing import now

    claim_limits()
    loaded = load_spec(spec, settings or ())
    if yes:
        record.begin(loaded)
    else:
        record.about(loaded)
    with scratch():
        report = forget_units(spec, units, yes, now(), settings or ())
    typer.echo(json.dumps(report.document(), indent=1) if as_json else "\n".join(report.sentences()))
