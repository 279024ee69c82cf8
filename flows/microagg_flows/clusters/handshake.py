"""Greeting workers before they are given work: who they are, and whether they can do it.

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

from microagg_core.errors import ClusterError, TransientClusterError, of_kind
from microagg_core.software import deviations, software
from microagg_core.spec.release import ReleaseSpec

_ANSWER_SECONDS = 60
#: Packages of which both sides must have the same version: they speak with each other.
_SPEAKING = ("dask", "distributed", "cloudpickle")


def greet(client: Client, spec: ReleaseSpec, addresses: Sequence[str], n_before: int) -> list[str]:
    """Ask workers what they are and what they can reach; those that answered.

    Args:
        client: connected to their scheduler.
        spec: names the places that they must reach.
        addresses: the workers to ask.
        n_before: how many were greeted before, to go on numbering.

    Raises:
        ClusterError: one of them is not fit for the work, with its number and why; or none answered.
        MicroaggError: one of them does not reach what it needs; of the kind that it met.
    """
    scheduler: Any = client.scheduler
    versions = _asked(
        client, scheduler.broadcast, msg={"op": "versions", "packages": []}, workers=list(addresses), on_error="ignore"
    )
    for number, address in enumerate(addresses, start=n_before + 1):
        if address in versions:
            _refuse_versions(f"worker {number} ({address})", versions[address])
    answers = _asked(
        client, client.run, introduce, spec.model_dump(mode="json"), workers=list(addresses), on_error="return"
    )
    # One that left meanwhile, with the connection to it, has nothing to say.
    present = [address for address in addresses if not isinstance(answers.get(address), OSError | None)]
    for number, address in enumerate(present, start=n_before + 1):
        _refuse(f"worker {number} ({address})", answers[address])
    return present


def greet_scheduler(client: Client) -> None:
    """Ask the scheduler what it is: it unpacks every task before it passes it on.

    Raises:
        ClusterError: it has other versions, or lacks the package.
    """
    scheduler: Any = client.scheduler
    _refuse_versions("the scheduler", _asked(client, scheduler.versions, packages=[]))
    _refuse("the scheduler", _asked(client, client.run_on_scheduler, introduce, None))


def _asked(client: Client, question: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """An answer within a minute; functions of this module travel as code.

    Raises:
        TransientClusterError: there is none.
    """
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    try:
        return client.sync(question, *args, callback_timeout=_ANSWER_SECONDS, **kwargs)  # type: ignore[no-untyped-call]
    except (OSError, TimeoutError):
        raise TransientClusterError(
            f"not all of the cluster answered within {_ANSWER_SECONDS} s, or it went away; look at its scheduler and "
            "workers, and start the release again"
        ) from None
    finally:
        cloudpickle.unregister_pickle_by_value(sys.modules[__name__])


def introduce(spec: dict[str, Any] | None) -> dict[str, Any]:
    """What a worker says of itself; runs there, sent as code, so nothing of ours may be taken for granted."""
    try:
        from microagg_core.software import software as own_software
        from microagg_core.steps.access import access_problem, kernels_problem
    except ImportError as error:
        return {"lacks": error.name}
    problem = (access_problem(spec) or kernels_problem(spec)) if spec else None
    return {"software": own_software(), "problem": problem}


def _refuse_versions(who: str, theirs: Mapping[str, Any]) -> None:
    ours: Mapping[str, Any] = get_versions()
    differing = [
        f"{name} {their} instead of {our}"
        for name, our, their in [
            ("Python", _python(ours), _python(theirs)),
            *((name, ours["packages"].get(name), theirs["packages"].get(name)) for name in _SPEAKING),
        ]
        if our != their
    ]
    if differing:
        raise ClusterError(
            f"{who} has {' and '.join(differing)}; install the same versions on the whole cluster and where the "
            "release is started"
        )


def _python(versions: Mapping[str, Any]) -> str:
    """Major and minor version, within which code can be sent."""
    return ".".join(str(versions["host"]["python"]).split(".")[:2])


def _refuse(who: str, answer: Any) -> None:
    """Stop where somebody cannot be given work, and say why."""
    if isinstance(answer, BaseException) or not isinstance(answer, dict):
        raise ClusterError(
            f"{who} could not say what it is ({type(answer).__name__}); install microagg there as it is here"
        )
    if "lacks" in answer:
        raise ClusterError(f"{who} lacks the package {answer['lacks']}; install microagg there as it is here")
    if differing := deviations(answer["software"], software()):
        raise ClusterError(
            f"{who} has {', '.join(differing)}, and would make another release; install the same versions everywhere"
        )
    if answer["problem"]:
        kind, sentence = answer["problem"]
        raise of_kind(kind, f"{who} cannot do the work: {sentence}")
