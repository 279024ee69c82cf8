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
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

from microagg_core.compare.trial import try_setting
from microagg_core.compiling import TABLES, compile_parts
from microagg_core.data.formats.reading import Place
from microagg_core.errors import DamagedWorkError, StorageError, TransientStorageError, sanitized
from microagg_core.kernels.tools.threads import PROCESS, cpu_seconds
from microagg_core.release.manifest import PartEntry
from microagg_core.release.publish import Upload, is_whole, upload_part
from microagg_core.release.steps.anonymizing import anonymize_partition
from microagg_core.release.steps.assembling import assemble_file
from microagg_core.release.steps.checking import check_file
from microagg_core.release.steps.cutting import Scan
from microagg_core.release.steps.drawn_rows import draw_rows
from microagg_core.release.steps.keys import merge_range
from microagg_core.release.steps.oversize import count_part, sample_part
from microagg_core.release.steps.scattering import scatter_part
from microagg_core.release.steps.survey import survey_part
from microagg_core.release.steps.units import check_units
from microagg_core.release.steps.work import Receipt, Task, load_receipt, save_receipt
from microagg_core.series.candidates import join_part
from microagg_core.series.matching import identify_part, mark_part, match_range
from microagg_core.series.survivors import carry_range, decide_range, recall_part
from microagg_core.series.traces import count_traces, trace_range
from microagg_core.store.objects import Store

#: What a worker does, by the step of a task.
STEPS: dict[str, Callable[[Task], Receipt]] = {
    "identify": identify_part,
    "match": match_range,
    "mark": mark_part,
    "fates": decide_range,
    "survey": survey_part,
    "units": check_units,
    "keys": merge_range,
    "sample": sample_part,
    "count": count_part,
    "draw-rows": draw_rows,
    "expect": try_setting,
    "scatter": scatter_part,
    "anonymize": anonymize_partition,
    "recall": recall_part,
    "carry": carry_range,
    "assemble": assemble_file,
    "check-files": check_file,
    "join": join_part,
    "trace": trace_range,
    "traces": count_traces,
}
#: The gate looks again at every run: it never trusts what it found before.
ALWAYS = ("check-files", "join", "trace", "traces")


@dataclass(frozen=True)
class Damage:
    """A task's answer where something that it reads is damaged: whose work it is, by step and number."""

    places: tuple[tuple[str, int], ...]


def run_task(task: Task) -> Receipt | Damage:
    """Do a task, or find its receipt.

    Raises:
        MicroaggError: always one of ours; see :func:`microagg_core.errors.sanitized`.
    """
    try:
        if task.step not in ALWAYS:
            done = load_receipt(task)
            if done is not None:
                return done
        compile_parts((TABLES,))
        _keep_what_is_loaded()
        start, cpu_start = time.perf_counter(), cpu_seconds()
        with PROCESS.running():
            receipt = STEPS[task.step](task)
        seconds, cpu = time.perf_counter() - start, cpu_seconds() - cpu_start
        peak = peak_memory()
        receipt = replace(receipt, seconds=seconds, cpu_seconds=cpu, peak_bytes=peak, task=task.digest())
        save_receipt(task, receipt)
        return receipt
    except DamagedWorkError as damage:
        task.run.forget(damage.places)
        return Damage(damage.places)
    except Exception as error:
        raise sanitized(error, f"step {task.step}, number {task.number}") from None


@lru_cache(maxsize=1)
def _keep_what_is_loaded() -> None:
    """Take what the process has loaded for there to stay: garbage is looked for in what tasks make.

    Libraries are 400,000 objects, and looking through all of them takes a tenth of a second each time.
    """
    gc.collect()
    gc.freeze()


def run_upload(upload: tuple[Store, Upload]) -> None:
    """Copy one checked file to the output.

    Raises:
        DamagedWorkError: what the gate checked is not there any more.
        MicroaggError: any other trouble.
    """
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
    """Whether a published file, named from the folder that is given, is there and as its manifest says."""
    folder, entry = part
    try:
        return is_whole(folder, entry.name, entry)
    except Exception as error:
        raise sanitized(error, "looking at a published file") from None


def run_scan(scan: Scan) -> Place:
    """Look where a stretch of the input may be cut.

    Raises:
        MicroaggError: it cannot be read.
    """
    try:
        return scan.look()
    except Exception as error:
        raise sanitized(error, "looking where the input may be cut") from None


def peak_memory() -> int:
    """The greatest resident memory of this process so far, in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
