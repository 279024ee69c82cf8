"""The commands that `deploy/kubernetes` gives to its pods, as processes of this machine: a release by them, by TLS."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
import yaml

from inputs.people import people
from microagg_core.spec.release import ReleaseSpec
from releasing.runs import write_release
from servers.certificates import write_certificates
from servers.process import free_port, process

pytestmark = [pytest.mark.server, pytest.mark.slow("a scheduler, a worker and a release are started, one by one")]

FOLDER = Path(__file__).resolve().parents[2] / "deploy" / "kubernetes"
CLUSTER = yaml.safe_load((FOLDER / "cluster.yaml").read_text(encoding="utf-8"))["spec"]
JOB = yaml.safe_load((FOLDER / "nightly.yaml").read_text(encoding="utf-8"))["spec"]["jobTemplate"]["spec"]


def _here(text: str, places: dict[str, str]) -> str:
    for there, here in places.items():
        text = text.replace(there, here)
    return text


def _started(
    container: dict[str, Any], places: dict[str, str], more: list[str], folder: Path
) -> AbstractContextManager[subprocess.Popen[bytes]]:
    program, *arguments = [_here(word, places) for word in (*container["command"], *container["args"])]
    variables = {one["name"]: _here(one["value"], places) for one in container.get("env", [])}
    command = [str(Path(sys.executable).with_name(program)), *arguments, *more]
    return process(command, {**os.environ, **variables}, folder / f"{container['name']}.log", cwd=folder)


def test_a_release_by_the_commands_of_the_pods(tmp_path: Path) -> None:
    certificates = write_certificates(tmp_path / "tls")
    port = free_port()
    places = {
        "=/tmp": f"={tmp_path}",  # before what is in there
        "/tls/ca.crt": certificates["ca"], "/tls/tls.crt": certificates["cert"], "/tls/tls.key": certificates["key"],
        "microagg-scheduler:8786": f"127.0.0.1:{port}", "$(DASK_WORKER_NAME)": "one",
        "=9000": f"={free_port()}", "=9001": f"={free_port()}", "/release/": f"{tmp_path}/",
    }  # fmt: skip
    nightly = yaml.safe_load((FOLDER / "release.yaml").read_text(encoding="utf-8"))
    cluster = yaml.safe_load(_here(yaml.safe_dump(nightly["cluster"]), places))
    assert ReleaseSpec.model_validate({**nightly, "cluster": cluster})
    write_release(tmp_path, [people(500)], id="one", cluster=cluster)
    (scheduler,), (worker,) = (CLUSTER[name]["spec"]["containers"] for name in ("scheduler", "worker"))
    (release,) = JOB["template"]["spec"]["containers"]
    loopback = ["--host=127.0.0.1", f"--port={port}", f"--dashboard-address=127.0.0.1:{free_port()}"]
    with (
        _started(scheduler, places, loopback, tmp_path),
        _started(worker, places, ["--host=127.0.0.1"], tmp_path),
        _started(release, places, [], tmp_path) as done,
    ):
        assert done.wait(200) == 0, "\n".join(path.read_text()[-2000:] for path in tmp_path.glob("*.log"))
    assert (tmp_path / "output" / "one" / "r0001" / "manifest.json").exists()
    assert "tls://127.0.0.1" in (tmp_path / "worker.log").read_text()
