"""Several hosts without a shared file system: scheduler, workers and the command reach each other by TLS, and S3."""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow.parquet as pq
import pytest
import yaml

from inputs.people import people
from releasing.runs import ROLES, data_digests, run_stages, start, write_release
from servers.certificates import write_certificates
from servers.network_hosts import NetworkHosts, network_hosts
from servers.process import modules
from servers.proxies import Link
from servers.s3_server import S3Server

pytestmark = [pytest.mark.server, pytest.mark.soak("a cluster on four hosts")]

COMMAND = "import sys; from microagg_flows.command import main; sys.argv[0] = 'microagg'; main()"
CHANGES: dict[str, Any] = {"blocks": {"max_records": 400}}


def certified(hosts: NetworkHosts, name: str, files: dict[str, str]) -> dict[str, str]:
    copies = {}
    for part, file in files.items():
        copies[part] = str(hosts.folder_of(name) / f"{part}.pem")
        Path(copies[part]).write_bytes(Path(file).read_bytes())
    return copies


def tls_options(hosts: NetworkHosts, name: str, files: dict[str, str]) -> list[str]:
    """As Dask's commands take them."""
    own = certified(hosts, name, files)
    return ["--tls-ca-file", own["ca"], "--tls-cert", own["cert"], "--tls-key", own["key"], "--no-dashboard"]


def start_scheduler(hosts: NetworkHosts, files: dict[str, str]) -> str:
    address = f"tls://{hosts.address('scheduler')}:8786"
    options = ["--protocol", "tls", "--host", hosts.address("scheduler"), *tls_options(hosts, "scheduler", files)]
    command = [sys.executable, "-m", "dask", "scheduler", "--port", "8786", *options]
    hosts.start("scheduler", "scheduler.log", *command, **modules())
    return address


def start_worker(hosts: NetworkHosts, name: str, address: str, files: dict[str, str]) -> None:
    size = ["--nthreads", "1", "--memory-limit", "1GiB", "--local-directory", str(hosts.folder_of(name))]
    options = ["--protocol", "tls", "--host", hosts.address(name), *size, *tls_options(hosts, name, files)]
    hosts.start(name, f"{name}.log", sys.executable, "-m", "dask", "worker", address, *options, **modules())


def written_spec(hosts: NetworkHosts, bucket: str, endpoint: str, cluster: dict[str, Any]) -> str:
    places = {
        place: {"url": f"{bucket}/{url}", "storage_options": {"client_kwargs": {"endpoint_url": endpoint}}}
        for place, url in (("input", "input/*.parquet"), ("output", "output"), ("work", "work"))
    }
    spec = {"name": "test", "k": 3, **places, "roles": ROLES, "id": "2026-11-18", "cluster": cluster, **CHANGES}
    path = hosts.folder_of("flow") / "release.yaml"
    path.write_text(yaml.safe_dump(spec), encoding="utf-8")
    return str(path)


def downloaded(s3: S3Server, bucket: str, folder: Path) -> Path:
    client = s3.client()
    for item in client.list_objects_v2(Bucket=bucket, Prefix="output/").get("Contents", []):
        path = folder / item["Key"]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(client.get_object(Bucket=bucket, Key=item["Key"])["Body"].read())
    return folder / "output"


def test_hosts_that_share_nothing_but_a_bucket_make_the_release_that_one_makes(
    s3_server: S3Server, tmp_path: Path
) -> None:
    tables = [people(2000, first=i * 2000) for i in range(3)]
    alone = write_release(tmp_path / "alone", tables, **CHANGES)
    run_stages(start(alone))
    bucket = s3_server.new_bucket().url.removeprefix("s3://")
    for number in range(3):
        part = tmp_path / "alone" / "input" / f"part-{number}.parquet"
        assert pq.read_metadata(part).num_rows == 2000
        s3_server.client().put_object(Bucket=bucket, Key=f"input/part-{number}.parquet", Body=part.read_bytes())
    files, wrong = write_certificates(tmp_path / "right"), write_certificates(tmp_path / "wrong")
    port = urlsplit(s3_server.endpoint).port or 0
    (tmp_path / "hosts").mkdir()
    names = ["flow", "scheduler", "one", "two", "stranger"]
    with network_hosts(tmp_path / "hosts", names) as hosts, ExitStack() as undo:
        undo.callback(Link(port, hosts.address(), port).cut)
        address = start_scheduler(hosts, files)
        for name in ("one", "two"):
            start_worker(hosts, name, address, files)
        start_worker(hosts, "stranger", address, wrong)
        cluster = {"address": address, "tls": certified(hosts, "flow", files), "wait": 60}
        spec = written_spec(hosts, f"s3://{bucket}", f"http://{hosts.address()}:{port}", cluster)
        command = [sys.executable, "-c", COMMAND, "run", spec, "--direct", "--json"]
        code = hosts.start("flow", "flow.log", *command, **modules()).wait(200)
        said = (tmp_path / "hosts" / "flow.log").read_text()
        assert code == 0, said
        assert json.loads(said[said.index("\n{") :])["id"] == "2026-11-18"
        logs = {name: (tmp_path / "hosts" / f"{name}.log").read_text() for name in ("one", "two", "stranger")}
        assert all("Registered to" in logs[name] for name in ("one", "two"))
        assert "Registered to" not in logs["stranger"]
        left = {name: [p.name for p in hosts.folder_of(name).iterdir()] for name in ("one", "two")}
    assert all(not any(file.endswith(".parquet") for file in names) for names in left.values())
    released = data_digests(downloaded(s3_server, bucket, tmp_path / "down"))
    expected = data_digests(tmp_path / "alone" / "output")
    assert list(released.values()) == list(expected.values()) and released
