"""A running Dask cluster as processes: a scheduler on a port that stays the same, workers of any sort."""

from __future__ import annotations

import shutil
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from servers.process import free_port
from soak.processes import command_line, wait_until
from soak.site import Services, Site

_SECONDS = 90.0
_WORKERS_WITHIN_SECONDS = 45
#: Where the packages lie in a checkout.
_PACKAGES = {"microagg_core": "microagg_core", "microagg_flows": "flows/microagg_flows"}


class Cluster:
    """Scheduler and workers of one case."""

    def __init__(self, site: Site) -> None:
        self.site, self.port, self.services, self.n_workers = site, free_port(), Services(site), 0
        self.address = f"tcp://127.0.0.1:{self.port}"
        self.use(self.address)

    def use(self, address: str) -> None:
        """Have the spec name a scheduler, and wait for workers no longer than anybody here should."""
        self.site.use_cluster({"address": address, "wait": _WORKERS_WITHIN_SECONDS})

    def start_scheduler(self) -> None:
        """Start the scheduler, or start it again; returns when it listens."""
        before = len(self.services.said("scheduler"))
        options = ["--host", "127.0.0.1", "--port", str(self.port), "--no-dashboard"]
        self.services.start("scheduler", [sys.executable, "-m", "dask", "scheduler", *options])
        if not wait_until(lambda: "Scheduler at" in self.services.said("scheduler")[before:], _SECONDS):
            raise RuntimeError(f"the scheduler did not start: {self.services.said('scheduler')[-1000:]}")

    def start_worker(
        self,
        *options: str,
        address: str | None = None,
        memory: str = "1GiB",
        settings: Mapping[str, str] | None = None,
        wrapped_in: Sequence[str] = (),
    ) -> str:
        """Start a worker with its nanny; returns its name when it is registered."""
        self.n_workers += 1
        name = f"worker-{self.n_workers}"
        folder = self.site.folder / "scratch" / name
        fixed = ["--nthreads", "1", "--memory-limit", memory, "--no-dashboard", "--local-directory", str(folder)]
        command = [sys.executable, "-m", "dask", "worker", address or self.address, *fixed, "--name", name, *options]
        self.services.start(name, command, settings, wrapped_in)
        wait_until(lambda: "Registered to" in self.services.said(name), _SECONDS)
        return name

    def start_all(self, n: int = 2) -> list[str]:
        self.start_scheduler()
        return [self.start_worker() for _ in range(n)]

    def make_well(self) -> None:
        """End everything, and start a healthy cluster at the same address."""
        for name in self.services.started:
            self.services.signal_group(name, signal.SIGCONT)
            self.services.kill(name)
        self.start_all()

    def worker_pids(self, name: str) -> list[int]:
        """Find the process of a worker, below its nanny."""
        children = self.services.process(name).children(recursive=True)
        return [child.pid for child in children if "spawn_main" in command_line(child)]


def other_version(folder: Path) -> dict[str, str]:
    """Make settings of a worker whose package is another one: a line more in one of its modules."""
    import microagg_core

    root = Path(microagg_core.__file__).parents[1]
    for package, place in _PACKAGES.items():
        shutil.copytree(root / place, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    with (folder / "microagg_core" / "software.py").open("a") as module:
        module.write("\n# Another version.\n")
    return {"PYTHONPATH": str(folder)}
