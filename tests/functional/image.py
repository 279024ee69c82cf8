"""Builds the image of `deploy/image` and makes releases in it: python tests/functional/image.py

Asks for buildah, podman and runc, and for mmdebstrap where no --base is named: then the base is a Debian of its own,
and no registry of images is needed. pip finds packages in the build as it does here. All lies in a temporary folder.
"""

from __future__ import annotations

import argparse
import configparser
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
USER = "10001:10001"
NAME, BASE = "localhost/microagg", "localhost/microagg-base"
DEBIAN = ("bookworm", "python3,python3-venv,ca-certificates")


@dataclass(frozen=True)
class Workshop:
    """Where images are made: a storage of its own, and flags that a container within a container needs."""

    folder: Path

    @property
    def _storage(self) -> list[str]:
        return [f"--root={self.folder / 'images'}", f"--runroot={self.folder / 'run'}", "--storage-driver=overlay"]

    def buildah(self, *arguments: str) -> str:
        return _told(["buildah", *self._storage, *arguments], subprocess.PIPE)

    def podman_run(self, *arguments: str, user: str = USER) -> str:
        """A container without network, on a read-only root; its output, errors included."""
        engine = ["podman", *self._storage, "--runtime=runc", "--cgroup-manager=cgroupfs", "--events-backend=file"]
        rights = ["--network=none", "--cap-drop=all", "--security-opt=no-new-privileges", f"--user={user}"]
        limits = ["--ulimit=nofile=1024:1024", "--ulimit=nproc=1024:1024"]
        return _told([*engine, "run", "--rm", *rights, *limits, "--read-only", "--tmpfs=/tmp", *arguments])

    def debian(self) -> str:
        archive = self.folder / "base.tar"
        suite, packages = DEBIAN
        _told(["mmdebstrap", "--variant=minbase", f"--include={packages}", suite, str(archive)])
        container = self.buildah("from", "scratch").strip()
        self.buildah("add", container, str(archive), "/")
        self.buildah("commit", "--rm", container, BASE)
        return BASE

    def build(self, base: str) -> None:
        """The product's image, with this machine's index of packages, which stays out of it."""
        settings = _pip_settings()
        config = configparser.ConfigParser(interpolation=None)
        config["global"] = settings
        secret = self.folder / "pip.conf"
        with secret.open("w") as file:
            config.write(file)
        here = [f"--volume={path}:{path}:ro" for path in _paths(settings.values())]
        file = str(ROOT / "deploy" / "image" / "Containerfile")
        self.buildah(
            "build", "--isolation=chroot", "--network=host", f"--build-arg=BASE={base}",
            f"--secret=id=pip.conf,src={secret}", *here, f"--tag={NAME}", f"--file={file}", str(ROOT),
        )  # fmt: skip


def _told(command: Sequence[str], errors: int = subprocess.STDOUT) -> str:
    """What a program prints, what goes to standard error included unless that goes elsewhere; a failure is the end."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=errors, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stdout[-3000:]}{(done.stderr or '')[-3000:]}")
    return done.stdout


def _pip_settings() -> dict[str, str]:
    listed = subprocess.run([sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=True)
    lines = [re.fullmatch(r"(.+?)='(.*)'", line) for line in listed.stdout.splitlines()]
    return {line[1].rpartition(".")[2]: line[2] for line in lines if line}


def _paths(values: Iterable[str]) -> Iterator[str]:
    """Places of this machine that settings name."""
    for value in " ".join(values).split():
        # An index that is a folder has its files beside its pages.
        path = value.removeprefix("file://").removesuffix("/simple")
        if path.startswith("/") and Path(path).exists():
            yield path


def assert_released(workshop: Workshop, user: str) -> None:
    """The example, in a folder of the machine: as many records as are in it, and nothing compiled."""
    folder = workshop.folder / f"sme-{user.partition(':')[0]}"
    shutil.copytree(ROOT / "deploy" / "examples" / "sme", folder)
    for path in [folder, *folder.rglob("*")]:
        os.chown(path, *map(int, user.split(":")))
    told = workshop.podman_run(
        f"--volume={folder}:/srv/sme", NAME, "microagg", "run", "/srv/sme/release.yaml", user=user
    )
    assert re.search(r"^records +11$", told, re.MULTILINE), told
    assert "compil" not in told, told
    assert (folder / "release" / "latest.json").exists()


def assert_demo(workshop: Workshop) -> None:
    """The demo through Prefect and workers of the container's own, with the temporary folder as only place."""
    script = "microagg demo && ls .prefect | head -1; echo exit $?; find /tmp -name '*.code'"
    told = workshop.podman_run(NAME, "sh", "-c", script)
    assert told.endswith("exit 0\n") and "compil" not in told, told


def assert_closed(workshop: Workshop) -> None:
    """Nothing of the product can be written, and nothing is left of how it was built."""
    told = workshop.podman_run(
        NAME, "sh", "-c", "id -u; touch /opt/microagg/x /x; ls /etc/pip.conf /source; grep CapEff /proc/self/status"
    )
    assert told.startswith("10001\n") and told.count("Read-only file system") == 2, told
    assert told.count("No such file or directory") == 2 and "CapEff:\t0000000000000000" in told, told
    made = workshop.buildah("inspect", NAME)
    assert not [value for value in _pip_settings().values() if "/" in value and value in made]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", help="an image with Python, instead of a Debian that is made here")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="microagg-image-", ignore_cleanup_errors=True) as folder:
        workshop = Workshop(Path(folder))
        workshop.build(arguments.base or workshop.debian())
        assert_closed(workshop)
        print("built; no rights, nothing to write in, nothing left of the build")
        for user in (USER, "54321:0"):
            assert_released(workshop, user)
            print(f"the example is released by user {user}, nothing compiled")
        assert_demo(workshop)
        print("the demo is released through Prefect and a cluster, nothing compiled")


if __name__ == "__main__":
    main()
