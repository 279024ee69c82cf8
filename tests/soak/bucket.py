"""A real S3 server of the campaign's own, and the faulty proxy through which the command reaches it."""

from __future__ import annotations

import shutil
import tempfile
import uuid
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from servers.proxies import FaultyProxy
from servers.s3_server import ACCESS_KEY, REGION, SECRET_KEY, START_SECONDS, S3Server, is_ready, start_weed, stop_weed
from soak.places import Bucket
from soak.processes import wait_until
from soak.site import Site

_CREDENTIALS = {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY, "AWS_DEFAULT_REGION": REGION}


@dataclass
class FaultyBucket:
    """The server, its proxy, and the bucket of the case at hand."""

    folder: Path
    server: S3Server
    proxy: FaultyProxy
    name: str = ""
    is_alive: bool = True

    def serve(self, site: Site, undo: ExitStack) -> None:
        """Give a case output and work area in a fresh bucket."""
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
        lines = []
        for place in (Bucket(self.server.client(), self.name, prefix) for prefix in ("release", "work")):
            for name, version in place.versions().items():
                lines.append(f"{place.prefix}/{name} {version}")
                place.remove(name)
        (site.folder / "bucket.txt").write_text("\n".join([*lines, "struck:", *self.proxy.struck]) + "\n")

    def kill(self) -> None:
        assert self.server.process is not None
        self.server.process.kill()
        self.server.process.wait()
        self.proxy.break_connections()
        self.is_alive = False

    def restart(self) -> None:
        """Have the server be there again, with its data and on its ports; nothing where it never went."""
        if not self.is_alive:
            self.server = start_weed(self.folder, list(self.server.ports))
            self.wait_until_ready()
            self.is_alive = True

    def wait_until_ready(self) -> None:
        process = self.server.process
        if not wait_until(
            lambda: is_ready(self.server) or process is None or process.poll() is not None, START_SECONDS
        ):
            raise RuntimeError(f"SeaweedFS did not start: {(self.folder / 'weed.log').read_text()[-1500:]}")


def start_bucket(folder: Path, undo: ExitStack) -> FaultyBucket:
    """Start server and proxy; they go when the campaign goes."""
    folder.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=folder))
    undo.callback(shutil.rmtree, folder, ignore_errors=True)
    server = start_weed(folder)
    bucket = FaultyBucket(folder, server, FaultyProxy(int(server.endpoint.rpartition(":")[2]), undo))
    undo.callback(lambda: stop_weed(bucket.server))
    bucket.wait_until_ready()
    return bucket
