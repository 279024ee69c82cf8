"""``cluster: none``: the process that was called does the work, one task after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import psutil

from microagg_core.errors import of_kind
from microagg_core.release.surroundings import Surroundings, access_problem, kernels_problem, surroundings
from microagg_core.software import software
from microagg_core.spec.clusters import NoCluster
from microagg_core.spec.release import ReleaseSpec
from microagg_flows.clusters import WorkerRecord
from microagg_flows.executors import InProcess
from microagg_flows.progress import Progress


@contextmanager
def hired(_cluster: NoCluster, _progress: Progress) -> Iterator[ThisProcess]:
    yield ThisProcess()


class ThisProcess:
    def surroundings(self, spec: ReleaseSpec, addresses: Sequence[str]) -> dict[str, Surroundings]:
        return {address: surroundings(spec.model_dump(mode="json")) for address in addresses}

    def executor(self, _spec: ReleaseSpec, progress: Progress) -> InProcess:
        return InProcess(progress)

    def records(self, spec: ReleaseSpec) -> list[WorkerRecord]:
        parts = spec.model_dump(mode="json")
        access, kernels = access_problem(parts), kernels_problem(parts)
        problem = access or kernels
        here = software()
        record = WorkerRecord(
            number=1,
            address="",
            versions={"python": here["python"]},
            software=here,
            threads=1,
            memory_limit=0,
            memory=psutil.Process().memory_info().rss,
            access=access[1] if access else "",
            kernels=kernels[1] if kernels else "",
            unfit=of_kind(problem[0], f"this process cannot do the work: {problem[1]}") if problem else None,
        )
        return [record]
