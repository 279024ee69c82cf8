"""A stand-in for Kubernetes with Dask's operator: enough of the API for one DaskCluster, and real processes behind it.

What is made of a DaskCluster's parts is what the operator's documentation says: a scheduler, its service, and a group
of workers, each by the command of its container. It shows what is asked of Kubernetes, and that what was asked for
works; not what a real cluster would say to it.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml

from servers.process import modules

#: What there is, as far as it is asked for.
_ABOUT: dict[str, dict[str, Any]] = {
    "/version": {"gitVersion": "v1.33.0", "major": "1", "minor": "33"},
    "/api": {"versions": ["v1"]},
    "/api/v1": {"resources": [{"name": "pods", "kind": "Pod", "singularName": "pod", "namespaced": True}]},
    "/apis": {"groups": []},
}
_OBJECT = re.compile(r"/(?:api/v1|apis/kubernetes.dask.org/v1)/namespaces/([^/]+)/(\w+)(?:/([^/?]+))?")


@dataclass
class KubernetesServer:
    """What was asked for, and the processes that came of it."""

    folder: Path
    takes: bool = True
    objects: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    asked: list[tuple[str, str]] = field(default_factory=list)
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    lock: threading.RLock = field(default_factory=threading.RLock)
    address: str = ""

    def create(self, plural: str, thing: dict[str, Any]) -> None:
        """Keep an object, and do what the operator does."""
        name = thing["metadata"]["name"]
        self.objects[plural, name] = thing
        if plural == "daskclusters":
            self._start_cluster(name, thing)
        elif plural == "daskautoscalers":
            self._scale(thing["spec"]["cluster"], thing["spec"]["maximum"])

    def patch(self, plural: str, name: str, change: dict[str, Any]) -> None:
        if plural == "daskworkergroups":
            self._scale(name.removesuffix("-default"), change["spec"]["worker"]["replicas"])

    def delete(self, plural: str, name: str) -> None:
        """Forget an object, and what came of a cluster."""
        del self.objects[plural, name]
        if plural == "daskclusters":
            self.end()
            self.objects.clear()

    def end(self) -> None:
        for process in self.processes.values():
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self.processes.clear()

    def _start_cluster(self, name: str, cluster: dict[str, Any]) -> None:
        file = self.folder / "scheduler.json"
        container = cluster["spec"]["scheduler"]["spec"]["containers"][0]
        command = ["127.0.0.1" if word == "0.0.0.0" else word for word in container["command"]]
        self._run("scheduler", [*command, "--port", "0", "--no-dashboard", "--scheduler-file", str(file)], {})
        while not (file.exists() and file.read_text().endswith("}")):
            threading.Event().wait(0.05)
        self.address = json.loads(file.read_text())["address"]
        port = urlsplit(self.address).port
        labels = {"dask.org/component": "scheduler", "dask.org/cluster-name": name}
        ports = [{"name": n, "port": port, "protocol": "TCP"} for n in ("tcp-comm", "http-dashboard")]
        self.objects["services", f"{name}-scheduler"] = {
            "metadata": {"name": f"{name}-scheduler"},
            "spec": {"type": "LoadBalancer", "ports": ports, "clusterIP": "127.0.0.1", "selector": labels},
            "status": {"loadBalancer": {"ingress": [{"ip": "127.0.0.1"}]}},
        }
        ready = [{"type": kind, "status": "True"} for kind in ("Ready", "ContainersReady")]
        self.objects["pods", f"{name}-scheduler"] = {
            "metadata": {"name": f"{name}-scheduler", "labels": labels},
            "status": {"phase": "Running", "conditions": ready, "containerStatuses": []},
        }
        group = {"cluster": name, "worker": cluster["spec"]["worker"]}
        self.objects["daskworkergroups", f"{name}-default"] = {"metadata": {"name": f"{name}-default"}, "spec": group}
        cluster["status"] = {"phase": "Running"}
        self._scale(name, cluster["spec"]["worker"]["replicas"])

    def _scale(self, name: str, replicas: int) -> None:
        worker = self.objects["daskworkergroups", f"{name}-default"]["spec"]["worker"]
        worker["replicas"] = replicas
        container = worker["spec"]["containers"][0]
        variables = {item["name"]: item["value"] for item in container["env"]}
        for number in range(replicas):
            if (called := f"worker-{number}") not in self.processes:
                command = [word.replace("$(DASK_WORKER_NAME)", called) for word in container["command"]]
                self._run(called, command, {**variables, "DASK_SCHEDULER_ADDRESS": self.address})

    def _run(self, name: str, command: list[str], variables: dict[str, str]) -> None:
        with (self.folder / f"{name}.log").open("wb") as log:
            self.processes[name] = subprocess.Popen(
                [sys.executable, "-m", *command],
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **modules(), **variables},
                start_new_session=True,
            )


def _handler(server: KubernetesServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        """Answers for one server."""

        def log_message(self, *_: Any) -> None:
            """Nothing."""

        def answer(self, code: int, body: dict[str, Any]) -> None:
            data = json.dumps(body).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def read(self) -> dict[str, Any]:
            return json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")  # type: ignore[no-any-return]

        def serve(self) -> None:
            url = urlsplit(self.path)
            with server.lock:
                self._serve(url.path.rstrip("/"), parse_qs(url.query))

        def _serve(self, path: str, query: dict[str, list[str]]) -> None:
            server.asked.append((self.command, path))
            found = _OBJECT.fullmatch(path)
            if path in _ABOUT:
                self.answer(200, _ABOUT[path])
            elif found is None:
                self.answer(404, {"message": "not found"})
            elif not server.takes and self.command != "GET":
                self.answer(403, {"message": "forbidden"})
            else:
                self._serve_object(found[2], found[3], query)

        def _serve_object(self, plural: str, name: str | None, query: dict[str, list[str]]) -> None:
            body = self.read() if self.command != "GET" else {}
            selected = re.search(r"metadata.name=([\w.-]+)", query.get("fieldSelector", [""])[0])
            name, one = name or (selected and selected[1]), bool(name)
            thing = server.objects.get((plural, name)) if name else None
            if self.command == "POST":
                server.create(plural, body)
                self.answer(201, body)
            elif not one:
                every = [found for (kind, _), found in server.objects.items() if kind == plural]
                self.answer(200, {"kind": "List", "items": ([thing] if thing else []) if name else every})
            elif thing is None:
                self.answer(404, {"message": "not found"})
            else:
                if self.command == "PATCH":
                    server.patch(plural, name, body)
                elif self.command == "DELETE":
                    server.delete(plural, name)
                self.answer(200, thing)

    for method in ("GET", "POST", "PATCH", "DELETE"):
        setattr(Handler, f"do_{method}", Handler.serve)
    return Handler


@contextmanager
def running_kubernetes(folder: Path, takes: bool = True) -> Iterator[KubernetesServer]:
    """The stand-in, while the block lasts; ``KUBECONFIG`` of this process leads there.

    Args:
        folder: for what processes say.
        takes: whether it lets anybody change anything.
    """
    server = KubernetesServer(folder, takes)
    http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(server))
    thread = threading.Thread(target=http.serve_forever, daemon=True)
    thread.start()
    configuration = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "clusters": [{"name": "here", "cluster": {"server": f"http://127.0.0.1:{http.server_address[1]}"}}],
        "users": [{"name": "here", "user": {"token": "nothing"}}],
        "contexts": [{"name": "here", "context": {"cluster": "here", "user": "here", "namespace": "stats"}}],
    }
    (folder / "kubeconfig").write_text(yaml.safe_dump(configuration), encoding="utf-8")
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("KUBECONFIG", str(folder / "kubeconfig"))
            yield server
    finally:
        http.shutdown()
        thread.join()
        server.end()
