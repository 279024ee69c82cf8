"""Ask workers, before they are given work, what they are and whether they can do it.

A worker of another version would make other bytes, one without the package dies of its first task, one that cannot
reach the input fails late. So each is asked first, and refused with its number and the cause. The question is sent as
code, not by name, because a worker may have no package of ours; and only to workers of the same Python.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import cloudpickle
from distributed import Client
from distributed.versions import get_versions

from microagg_core.blocks.memory import WORKER_BASE_BYTES, holds_a_worker
from microagg_core.errors import (
    ClusterError,
    InputMissingError,
    MicroaggError,
    StorageError,
    TransientClusterError,
    of_kind,
)
from microagg_core.release.surroundings import Surroundings, access_problem, surroundings, work_probe
from microagg_core.software import software, version_differences
from microagg_core.spec.release import ReleaseSpec
from microagg_flows.clusters import WorkerRecord
from microagg_flows.clusters.scheduler import pause_share
from microagg_flows.clusters.watch import WorkerState

_ANSWER_SECONDS, _DASHBOARD_SECONDS = 60, 10
#: Packages of which both sides must have the same version: they speak with each other.
_SPEAKING = ("dask", "distributed", "cloudpickle")


def records_of(
    client: Client, spec: ReleaseSpec, workers: Sequence[WorkerState], n_before: int = 0
) -> list[WorkerRecord]:
    """Ask workers what they are, and judge each; one that left meanwhile says nothing."""
    scheduler: Any = client.scheduler
    addresses = [worker.address for worker in workers]
    versions = _asked(
        client, scheduler.broadcast, msg={"op": "versions", "packages": []}, workers=addresses, on_error="ignore"
    )
    # Code of ours cannot be read by another Python, and need not be: its worker is refused for that.
    alike = [address for address in addresses if not _versions_problem(versions.get(address))]
    parts = spec.model_dump(mode="json")
    answers: Mapping[str, Any] = {}
    if alike:
        with work_probe(spec) as probe:
            answers = _asked(client, client.run, introduce, parts, probe, workers=alike, on_error="return")
    # One that left meanwhile, with the connection to it, has nothing to say.
    present = [w for w in workers if not isinstance(answers.get(w.address), OSError | None) or w.address not in alike]
    return [
        _record(number, worker, versions.get(worker.address), answers.get(worker.address), spec)
        for number, worker in enumerate(present, start=n_before + 1)
    ]


def surroundings_of(client: Client, spec: ReleaseSpec, addresses: Sequence[str]) -> dict[str, Surroundings]:
    """Ask workers that are fit for the work what they find around them; one that left meanwhile finds nothing."""
    if not addresses:
        return {}
    parts = spec.model_dump(mode="json")
    answers = _asked(client, client.run, surroundings, parts, workers=list(addresses), on_error="return")
    return {address: answer for address, answer in answers.items() if isinstance(answer, Surroundings)}


def greet_scheduler(client: Client) -> None:
    """Refuse a scheduler that is not as this process is: it unpacks every task before it passes it on."""
    scheduler: Any = client.scheduler
    problem = _versions_problem(_asked(client, scheduler.versions, packages=[]))
    unfit = problem or _unfit(_asked(client, client.run_on_scheduler, introduce, None, None))
    if unfit is not None:
        raise of_kind(unfit.kind, f"the scheduler {unfit.message}")


def _asked(
    client: Client, question: Callable[..., Any], *args: Any, seconds: int = _ANSWER_SECONDS, **kwargs: Any
) -> Any:
    """Wait for an answer; functions of this module travel as code."""
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    try:
        return client.sync(question, *args, callback_timeout=seconds, **kwargs)  # type: ignore[no-untyped-call]
    except (OSError, TimeoutError):
        raise TransientClusterError(
            f"not all of the cluster answered within {seconds} s, or it went away; look at its scheduler and "
            "workers, and start the release again"
        ) from None
    finally:
        cloudpickle.unregister_pickle_by_value(sys.modules[__name__])


def introduce(spec: dict[str, Any] | None, probe: str | None) -> dict[str, Any]:
    """Describe a worker; runs there, sent as code, so nothing of ours may be taken for granted."""
    try:
        from microagg_core.release.surroundings import access_problem as problem_of_access
        from microagg_core.release.surroundings import kernels_problem
        from microagg_core.software import software as own_software
    except ImportError as error:
        return {"lacks": error.name}
    return {
        "software": own_software(),
        "access": problem_of_access(spec, probe) if spec else None,
        "kernels": kernels_problem(spec) if spec else None,
    }


def _record(
    number: int, worker: WorkerState, versions: Mapping[str, Any] | None, answer: Any, spec: ReleaseSpec
) -> WorkerRecord:
    facts = answer if isinstance(answer, dict) else {}
    unfit = _versions_problem(versions) or _memory_problem(worker) or _unfit(answer, spec)
    who = f"worker {number} ({worker.address})"
    return WorkerRecord(
        number=number,
        address=worker.address,
        versions={name.lower(): value for name, value in _spoken(versions).items()} if versions else {},
        software=facts.get("software", {}),
        threads=worker.threads,
        memory_limit=worker.memory_limit,
        memory=worker.memory,
        access=(facts.get("access") or ("", ""))[1],
        kernels=(facts.get("kernels") or ("", ""))[1],
        unfit=None if unfit is None else of_kind(unfit.kind, f"{who} {unfit.message}"),
    )


def _versions_problem(theirs: Mapping[str, Any] | None) -> MicroaggError | None:
    """Refuse other versions than ours; the sentence goes on after a name."""
    if theirs is None or not (differing := version_differences(_spoken(theirs), _spoken(get_versions()))):
        return None
    return ClusterError(
        f"has {' and '.join(differing)}; install the same versions on the whole cluster and where the release is "
        "started"
    )


def _memory_problem(worker: WorkerState) -> MicroaggError | None:
    """Refuse a worker that Dask would pause before it has any rows; the sentence goes on after a name."""
    pause = pause_share()
    if not worker.memory_limit or holds_a_worker(worker.memory_limit, pause):
        return None
    return ClusterError(
        f"has {worker.memory_limit // 2**20} MiB, and Dask pauses it at {pause:.0%} of that, while it needs "
        f"{WORKER_BASE_BYTES // 2**20} MiB before it has any rows; give it more memory"
    )


def _spoken(versions: Mapping[str, Any]) -> dict[str, str]:
    python = ".".join(str(versions["host"]["python"]).split(".")[:2])
    return {"Python": python, **{name: str(versions["packages"].get(name)) for name in _SPEAKING}}


def _unfit(answer: Any, spec: ReleaseSpec | None = None) -> MicroaggError | None:
    """Refuse a worker by its answer; the sentence goes on after a name."""
    if isinstance(answer, BaseException) or not isinstance(answer, dict):
        return ClusterError(f"could not say what it is ({type(answer).__name__}); install microagg there as it is here")
    if "lacks" in answer:
        return ClusterError(f"lacks the package {answer['lacks']}; install microagg there as it is here")
    if differing := version_differences(answer["software"], software()):
        return ClusterError(
            f"has {', '.join(differing)}, and would make another release; install the same versions everywhere"
        )
    if problem := answer["access"] or answer["kernels"]:
        kind, sentence = problem
        if spec and kind == InputMissingError.kind:
            here = access_problem(spec.model_dump(mode="json"))
            if here is None or here[0] != kind:  # the input is here: to wait for it does not bring it to that worker
                kind = StorageError.kind
        return of_kind(kind, f"cannot do the work: {sentence}")
    return None


def dashboard_link(client: Client) -> str:
    """Ask for the address of the scheduler's dashboard; empty where it has none, or does not say."""
    try:
        has_pages = _asked(client, client.run_on_scheduler, _has_pages, seconds=_DASHBOARD_SECONDS)
        return str(client.dashboard_link or "") if has_pages else ""
    except Exception:  # whatever a scheduler of others answers, its dashboard decides nothing
        return ""


def _has_pages(dask_scheduler: Any) -> bool:
    """Runs in the scheduler: without the package for pages its server has metrics alone."""
    pages = "distributed.dashboard"
    return any(type(app).__module__.startswith(pages) for app in dask_scheduler.http_application.applications)
