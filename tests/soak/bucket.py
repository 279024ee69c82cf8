"""A real S3 server of the campaign's own, and the faulty proxy through which the command reaches it."""

from __future__ import annotations

import shutil
import tempfile
import time
import uuid
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from servers.s3_server import ACCESS_KEY, REGION, SECRET_KEY, START_SECONDS, S3Server, is_ready, start_weed, stop_weed
from soak.loop_thread import LoopThread
from soak.places import Bucket
from soak.s3_proxy import FaultyProxy
from soak.site import Site

_CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": ACCESS_KEY,
    "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
    "AWS_DEFAULT_REGION": REGION,
}


@dataclass
class FaultyBucket:
    """The server, its proxy, and the bucket of the case at hand."""

    folder: Path
    server: S3Server
    proxy: FaultyProxy
    name: str = ""
    _alive: bool = field(default=True)

    def serve(self, site: Site, undo: ExitStack) -> None:
        """A fresh bucket with output and work area for a case."""
        self.proxy.fault, self.proxy.struck, self.proxy.requests = None, [], 0
        self.restart()
        self.name = f"case-{uuid.uuid4().hex[:20]}"
        client = self.server.client()
        client.create_bucket(Bucket=self.name)
        site.output, site.work = Bucket(client, self.name, "release"), Bucket(client, self.name, "work")
        options = {"client_kwargs": {"endpoint_url": f"http://127.0.0.1:{self.proxy.port}"}}
        site.spec["output"] = {**site.spec["output"], "url": f"s3://{self.name}/release", "storage_options": options}
        site.spec["work"] = {"url": f"s3://{self.name}/work", "storage_options": options}
        site.settings |= _CREDENTIALS
        site.write_spec()
        undo.callback(self._put_away, site)

    def _put_away(self, site: Site) -> None:
        """Forget the fault, note what is in the bucket, and empty it."""
        self.proxy.fault = None
        self.restart()
        everything = Bucket(self.server.client(), self.name, "")
        found = {place.prefix: place.versions() for place in (site.output, site.work) if isinstance(place, Bucket)}
        lines = [f"{prefix}/{name} {version}" for prefix, names in found.items() for name, version in names.items()]
        (site.folder / "bucket.txt").write_text("\n".join([*lines, "struck:", *self.proxy.struck]) + "\n")
        for prefix, names in found.items():
            for name in names:
                everything.client.delete_object(Bucket=self.name, Key=f"{prefix}/{name}")

    def kill(self) -> None:
        """The server dies."""
        assert self.server.process is not None
        self.server.process.kill()
        self.server.process.wait()
        self.proxy.break_connections()
        self._alive = False

    def restart(self) -> None:
        """The server is there again, with its data and on its ports; nothing where it never went."""
        if self._alive:
            return
        self.server = start_weed(self.folder, list(self.server.ports))
        _wait_until_ready(self.server, self.folder)
        self._alive = True

    def stop(self) -> None:
        """The end of the campaign."""
        self.proxy.stop()
        stop_weed(self.server)


def start_bucket(folder: Path, undo: ExitStack) -> FaultyBucket:
    """Start server and proxy; they go when the campaign goes."""
    folder.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=folder))
    server = start_weed(folder)
    undo.callback(shutil.rmtree, folder, ignore_errors=True)
    undo.callback(stop_weed, server)
    _wait_until_ready(server, folder)
    proxy = FaultyProxy(LoopThread(undo), ("127.0.0.1", int(server.endpoint.rpartition(":")[2])))
    proxy.start()
    bucket = FaultyBucket(folder, server, proxy)
    undo.callback(bucket.stop)
    return bucket


def _wait_until_ready(server: S3Server, folder: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not is_ready(server):
        if time.monotonic() > deadline or server.process is None or server.process.poll() is not None:
            raise RuntimeError(f"SeaweedFS did not start: {(folder / 'weed.log').read_text()[-1500:]}")
        time.sleep(0.2)
