"""A running Dask cluster as processes: a scheduler on a port that stays the same, workers of any sort."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from soak import processes
from soak.loop_thread import LoopThread, reset
from soak.service import Services, free_port
from soak.site import Site

_SECONDS = 90.0
_WORKERS_WITHIN_SECONDS = 45
#: Where the packages lie in a checkout.
_PACKAGES = {"microagg_core": "microagg_core", "microagg_flows": "flows/microagg_flows"}


@dataclass
class Cluster:
    """Scheduler and workers of one case."""

    site: Site
    port: int = field(default_factory=free_port)
    services: Services = field(init=False)
    _workers: int = 0

    def __post_init__(self) -> None:
        self.services = Services(self.site)
        self.use(self.address)

    def use(self, address: str) -> None:
        """Have the spec name a scheduler, and wait for workers no longer than anybody here should."""
        self.site.spec["cluster"] = {"address": address, "wait": _WORKERS_WITHIN_SECONDS}
        self.site.write_spec()

    @property
    def address(self) -> str:
        """What the spec names."""
        return f"tcp://127.0.0.1:{self.port}"

    def start_scheduler(self) -> None:
        """Start the scheduler, or start it again; returns when it listens."""
        name = "scheduler"
        before = len(self._said(name))
        options = ["--host", "127.0.0.1", "--port", str(self.port), "--no-dashboard"]
        self.services.start(name, [sys.executable, "-m", "dask", "scheduler", *options])
        if not processes.wait_until(lambda: "Scheduler at" in self._said(name)[before:], _SECONDS):
            raise RuntimeError(f"the scheduler did not start: {self._said(name)[-1000:]}")

    def start_worker(
        self,
        *options: str,
        address: str | None = None,
        memory: str = "1GiB",
        settings: Mapping[str, str] | None = None,
        wrapped_in: Sequence[str] = (),
        waits: bool = True,
    ) -> str:
        """Start a worker with its nanny; returns its name when it is registered."""
        self._workers += 1
        name = f"worker-{self._workers}"
        folder = self.site.folder / "scratch" / name
        fixed = ["--nthreads", "1", "--memory-limit", memory, "--no-dashboard", "--local-directory", str(folder)]
        command = [sys.executable, "-m", "dask", "worker", address or self.address, *fixed, "--name", name, *options]
        self.services.start(name, command, settings, wrapped_in)
        if waits:
            processes.wait_until(lambda: "Registered to" in self._said(name), _SECONDS)
        return name

    def start_all(self, n: int = 2) -> list[str]:
        """A scheduler and so many workers."""
        self.start_scheduler()
        names = [self.start_worker(waits=False) for _ in range(n)]
        for name in names:
            processes.wait_until(lambda name=name: "Registered to" in self._said(name), _SECONDS)
        return names

    def make_well(self) -> None:
        """Everything ended, and a healthy cluster at the same address."""
        for name in self.services.started:
            self.services.signal_group(name, signal.SIGCONT)
            self.services.kill(name)
        self.start_all()

    def nanny_and_worker(self, name: str) -> list[int]:
        """The process ids of a worker's nanny and of the worker itself."""
        nanny = self.services.process(name)
        children = [p for p in nanny.children(recursive=True) if "spawn_main" in processes.command_line(p)]
        return [nanny.pid, *(child.pid for child in children)]

    def _said(self, name: str) -> str:
        path = self.services.log(name)
        return path.read_text(errors="replace") if path.exists() else ""


def without_package(folder: Path) -> dict[str, str]:
    """Settings of a worker whose Python has Dask and not this package."""
    folder.mkdir(parents=True)
    (folder / "sitecustomize.py").write_text(
        "import sys\n\n\nclass Absent:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name.split('.')[0] in {tuple(_PACKAGES)!r}:\n"
        "            raise ModuleNotFoundError(f'No module named {name!r}', name=name)\n\n\n"
        "sys.meta_path.insert(0, Absent())\n"
    )
    return {"PYTHONPATH": str(folder)}


def other_version(folder: Path) -> dict[str, str]:
    """Settings of a worker whose package is another one: a line more in one of its modules."""
    import microagg_core

    root = Path(microagg_core.__file__).parents[1]
    for package, place in _PACKAGES.items():
        shutil.copytree(root / place, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    with (folder / "microagg_core" / "software.py").open("a") as module:
        module.write("\n# Another version.\n")
    return {"PYTHONPATH": str(folder)}


@dataclass
class Link:
    """A connection from port to port that can stand still, or be cut."""

    thread: LoopThread
    target: int
    port: int = 0
    _open: set[asyncio.StreamWriter] = field(default_factory=set)
    _flows: asyncio.Event = field(default_factory=asyncio.Event)
    _server: asyncio.Server | None = None
    _cut: bool = False

    def start(self, undo: ExitStack) -> None:
        """Listen."""
        self.thread.run(self._start())
        undo.callback(self.cut)

    async def _start(self) -> None:
        self._flows.set()
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, back = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            reset(writer)
            return
        self._open |= {writer, back}
        await asyncio.gather(self._pump(reader, back), self._pump(there, writer), return_exceptions=True)
        self._open -= {writer, back}

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(2**16):
                await self._flows.wait()
                sink.write(data)
                await sink.drain()
        sink.close()

    def stand_still(self, still: bool = True) -> None:
        """Nothing passes any more, and nobody is told; or all goes on."""
        self.thread.loop.call_soon_threadsafe(self._flows.clear if still else self._flows.set)

    def cut(self) -> None:
        """Every connection is reset, and no new one is taken."""

        async def now() -> None:
            if self._server is not None:
                self._server.close()
            for writer in list(self._open):
                reset(writer)

        self.thread.run(now())
