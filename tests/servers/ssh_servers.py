"""ssh servers of a test's own: their host keys, ports and users' keys are made for it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import asyncssh
import pytest

from servers.process import free_port, listens, modules, process, wait_until


@dataclass(frozen=True)
class SshServers:
    """Servers on this machine, and what a client needs to get in."""

    ports: tuple[int, ...]
    key_file: str
    known_hosts: str
    folder: Path

    @property
    def hosts(self) -> list[str]:
        return [f"127.0.0.1:{port}" for port in self.ports]


def _sshd() -> str:
    found = shutil.which("sshd") or shutil.which("sshd", path="/usr/sbin")
    if found is None or os.geteuid() != 0:
        pytest.skip("ssh servers need sshd (Debian: openssh-server) and root")
    return found


def _key(path: Path) -> str:
    key = asyncssh.generate_private_key("ssh-ed25519")
    path.write_bytes(key.export_private_key())
    path.chmod(0o600)
    return key.export_public_key().decode().strip()


def _configuration(folder: Path, port: int, environment: dict[str, str]) -> Path:
    variables = " ".join(f'"{name}={value}"' for name, value in environment.items())
    lines = [
        f"Port {port}", "ListenAddress 127.0.0.1", f"HostKey {folder / 'host_key'}", "PidFile none", "UsePAM no",
        f"AuthorizedKeysFile {folder.parent / 'authorized_keys'}", "StrictModes no", "PasswordAuthentication no",
        "PermitRootLogin prohibit-password", f"SetEnv {variables}",
    ]  # fmt: skip
    (folder / "sshd_config").write_text("\n".join(lines) + "\n")
    return folder / "sshd_config"


@contextmanager
def running_ssh_servers(folder: Path, n: int = 2) -> Iterator[SshServers]:
    """So many ssh servers, while the block lasts; commands find Python's modules as this process does."""
    sshd = _sshd()
    Path("/run/sshd").mkdir(exist_ok=True)  # without it no sshd starts
    kept = {name: os.environ[name] for name in ("MICROAGG_CACHE_DIR",) if name in os.environ}
    (folder / "authorized_keys").write_text(_key(folder / "user_key") + "\n")
    known, ports = [], []
    with ExitStack() as running:
        for number in range(n):
            (own := folder / f"server-{number}").mkdir()
            ports.append(port := free_port())
            known.append(f"[127.0.0.1]:{port} {_key(own / 'host_key')}")
            command = [sshd, "-D", "-e", "-f", str(_configuration(own, port, {**modules(), **kept}))]
            running.enter_context(process(command, os.environ, own / "sshd.log"))
        (folder / "known_hosts").write_text("\n".join(known) + "\n")
        wait_until(lambda: all(map(listens, ports)), "sshd", 30, folder / "server-0" / "sshd.log")
        yield SshServers(tuple(ports), str(folder / "user_key"), str(folder / "known_hosts"), folder)
