"""What is sent to workers: one function for every task, safe to repeat, safe to fail.

A task whose receipt is there is not done again. Where what it reads is damaged, the receipts of those who made that are
discarded, and the answer says so: damage is no failure, and other tasks go on and may find more of it. Whatever else
goes wrong comes back as one of our errors, without the message of the library that raised it, because that may quote a
record.
"""

from __future__ import annotations

import gc
import resource
import sys
import time
from dataclasses import dataclass, replace
from functools import cache, lru_cache

from microagg_core.compiling import TABLES, compile_parts
from microagg_core.data.formats.reading import Place, input_format
from microagg_core.errors import DamagedWorkError, StorageError, TransientStorageError, sanitized
from microagg_core.kernels.tools.threads import PROCESS, cpu_seconds
from microagg_core.registry import members
from microagg_core.release.context import Scan
from microagg_core.release.manifest import PartEntry
from microagg_core.release.publish import Upload, is_whole, upload_part
from microagg_core.release.step import STAGES, CompanionStep, Receipt, Step, Task, Work, load_receipt
from microagg_core.store.objects import Store

#: The folders of modules that declare steps.
STEP_PACKAGES = ("microagg_core.release.steps", "microagg_core.series", "microagg_core.compare")


@cache
def steps() -> dict[str, Step]:
    """Find all declared steps, each behind those whose objects it reads."""
    found = sorted((step for package in STEP_PACKAGES for step in members(package, Step)), key=lambda step: step.name)
    left = sorted(found, key=lambda step: STAGES.index(step.stage))
    ordered: list[Step] = []
    while left:
        makers = {name for step in left for name in _written(step)}
        step = next((step for step in left if not makers & _read(step) - _written(step)), left[0])
        left.remove(step)
        ordered.append(step)
    return {step.name: step for step in ordered}


def _written(step: Step) -> set[str]:
    besides = [output for one in companions(step.name) for output in (*one.writes, *one.sends)]
    return {output.name for output in (*step.writes, *step.sends, *besides)}


def _read(step: Step) -> set[str]:
    return {output.name for output in (*step.same, *step.all, *step.receives)}


@cache
def companions(step: str) -> tuple[CompanionStep, ...]:
    declared = (one for package in STEP_PACKAGES for one in members(package, CompanionStep))
    return tuple(one for one in declared if one.step == step)


def steps_table() -> str:
    """Show the steps in their order, as a table in Markdown; ``flows/README.md`` has it.

    >>> steps_table().splitlines()[0]
    '| stage | step | a task for each | reads | writes |'
    """
    lines = ["| stage | step | a task for each | reads | writes |", "| --- | --- | --- | --- | --- |"]
    stage = ""
    for step in steps().values():
        besides = companions(step.name)
        read = [*(["input"] if step.reads_input else []), *(output.name for output in (*step.receives, *step.same))]
        read += [output.name for output in step.all] + [f"*{o.name}*" for one in besides for o in one.same]
        written = [f"**{output.name}**" for output in step.sends] + [output.name for output in step.writes]
        written += [f"*{output.name}*" for one in besides for output in (*one.sends, *one.writes)]
        name = "" if step.stage == stage else step.stage
        stage = step.stage
        lines.append(f"| {name} | {step.name} | {step.per} | {', '.join(read)} | {', '.join(written)} |")
    return "\n".join(lines)


@dataclass(frozen=True)
class Damage:
    """A task's answer where something that it reads is damaged: whose work it is, by step and number."""

    places: tuple[tuple[str, int], ...]


def run_task(task: Task) -> Receipt | Damage:
    """Do a task, or find its receipt."""
    try:
        step = steps()[task.step]
        if not step.is_gate:
            done = load_receipt(task)
            if done is not None:
                return done
        compile_parts((TABLES,))
        _keep_what_is_loaded()
        start, cpu_start = time.perf_counter(), cpu_seconds()
        work = Work(task, companions(task.step))
        with PROCESS.running():
            receipt = work.receipt(step.does(work))
        seconds, cpu = time.perf_counter() - start, cpu_seconds() - cpu_start
        peak = peak_memory()
        receipt = replace(receipt, seconds=seconds, cpu_seconds=cpu, peak_bytes=peak, task=task.digest())
        receipt.save(task.run)
        return receipt
    except DamagedWorkError as damage:
        task.run.forget(damage.places)
        return Damage(damage.places)
    except Exception as error:
        raise sanitized(error, f"step {task.step}, number {task.number}") from None


@lru_cache(maxsize=1)
def _keep_what_is_loaded() -> None:
    """Take what the process has loaded for there to stay: garbage is looked for in what tasks make.

    Libraries are 400,000 objects, of which some tens are garbage, and looking through all of them takes a tenth of a
    second each time.
    """
    gc.freeze()


def run_upload(upload: tuple[Store, Upload]) -> None:
    """Copy one checked file to the output."""
    output, what = upload
    try:
        upload_part(output, what)
    except TransientStorageError:  # a store that does not answer is not asked again
        raise
    except StorageError:
        if is_whole(what.part.source, what.part.name, what.entry):
            raise
        raise DamagedWorkError from None
    except Exception as error:
        raise sanitized(error, f"uploading {what.target.rsplit('/', 1)[-1]}") from None


def run_look(part: tuple[Store, PartEntry]) -> bool:
    """Check that a published file, named from the folder that is given, is there and as its manifest says."""
    folder, entry = part
    try:
        return is_whole(folder, entry.name, entry)
    except Exception as error:
        raise sanitized(error, "looking at a published file") from None


def run_scan(scan: Scan) -> Place:
    """Find where a stretch of an input file may be cut into parts."""
    source, stretch = scan
    try:
        return input_format(source).scan(stretch, source)
    except Exception as error:
        raise sanitized(error, "looking where the input may be cut") from None


def peak_memory() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
