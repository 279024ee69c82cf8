"""Hosts of a test's own on this machine: network namespaces on a bridge, each with a folder that no other one sees."""

from __future__ import annotations

import os
import shutil
import subprocess
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from servers.process import process

#: Addresses of a private range, which only these namespaces and this machine's end of the bridge have.
_NETWORK = "10.213.{net}.{host}"


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, timeout=30)


@dataclass
class NetworkHosts:
    """Hosts by name; this process is at the bridge's own address."""

    folder: Path
    mark: str = field(default_factory=lambda: uuid.uuid4().hex[:6])
    names: list[str] = field(default_factory=list)
    running: ExitStack = field(default_factory=ExitStack)

    @property
    def _net(self) -> int:
        return int(self.mark, 16) % 200 + 20

    def address(self, name: str = "") -> str:
        return _NETWORK.format(net=self._net, host=self.names.index(name) + 2 if name else 1)

    def folder_of(self, name: str) -> Path:
        return self.folder / name

    def set_up(self, names: Sequence[str], undo: ExitStack) -> None:
        """A bridge, and a namespace for each name with one end of a cable that leads there."""
        bridge = f"mb{self.mark}"
        _ip("link", "add", bridge, "type", "bridge")
        undo.callback(_ip, "link", "del", bridge)
        _ip("addr", "add", f"{self.address()}/24", "dev", bridge)
        _ip("link", "set", bridge, "up")
        for name in names:
            self.names.append(name)
            self.folder_of(name).mkdir()
            space, here = f"mh{self.mark}-{name}", f"mv{self.mark}{len(self.names)}"
            _ip("netns", "add", space)
            undo.callback(_ip, "netns", "del", space)
            _ip("link", "add", here, "type", "veth", "peer", "name", "eth0", "netns", space)
            _ip("link", "set", here, "master", bridge, "up")
            for words in (f"addr add {self.address(name)}/24 dev eth0", "link set eth0 up", "link set lo up"):
                _ip("-n", space, *words.split())

    def start(self, name: str, log: str, *command: str, **environment: str) -> subprocess.Popen[bytes]:
        """A process of a host, in its folder; those of the others are empty to it."""
        hidden = [f"mount -t tmpfs tmpfs {self.folder_of(other)}" for other in self.names if other != name]
        # A mount that hides a folder is gone with the process and its children.
        script = " && ".join([*hidden, f"cd {self.folder_of(name)}", 'exec "$@"'])
        inside = ["ip", "netns", "exec", f"mh{self.mark}-{name}", "unshare", "--mount", "sh", "-c", script, "host"]
        places = {**os.environ, "TMPDIR": str(self.folder_of(name)), **environment}
        return self.running.enter_context(process([*inside, *command], places, self.folder / log))


@contextmanager
def network_hosts(folder: Path, names: Sequence[str]) -> Iterator[NetworkHosts]:
    """Hosts with these names, while the block lasts; skips the test where this machine does not let it."""
    if os.geteuid() != 0 or shutil.which("ip") is None or shutil.which("unshare") is None:
        pytest.skip("hosts as network namespaces need root, ip (Debian: iproute2) and unshare (util-linux)")
    hosts = NetworkHosts(folder)
    with ExitStack() as undo:
        try:
            hosts.set_up(names, undo)
        except subprocess.CalledProcessError:
            pytest.skip("this machine lets nobody make network namespaces")
        undo.enter_context(hosts.running)
        yield hosts
