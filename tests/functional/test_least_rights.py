"""What `deploy/storage` grants is enough for all that is done with a series, and nothing of it can be left out."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml
from command_line import Ended, call_command

from covering import share
from releasing.small_series import ROLES, atoms, people
from servers.s3_server import S3Server, running_weed

pytestmark = [pytest.mark.server, pytest.mark.slow("several nights of a series in buckets of a server")]

STORAGE = Path(__file__).resolve().parents[2] / "deploy" / "storage"
INPUT, WORK, OUTPUT = "registry-microdata", "registry-private", "registry-releases"
Statement = dict[str, Any]


def _statements(name: str) -> list[Statement]:
    return list(json.loads((STORAGE / name).read_text(encoding="utf-8"))["Statement"])


POLICY, VERSIONS = _statements("policy.json"), _statements("versions.json")
SEAWEED = json.loads((STORAGE / "seaweedfs.json").read_text(encoding="utf-8"))
#: What no release needs that goes well, and what this server grants to all who may read.
SPARE = {"GiveUpLargeTransfers", "TellMissingFromForbidden"}
NEEDED = [(one["Sid"], action) for one in POLICY if one["Sid"] not in SPARE for action in one["Action"]]
NEEDED_VERSIONS = [(one["Sid"], action) for one in VERSIONS for action in one["Action"]]


def _without(statements: list[Statement], sid: str, action: str) -> list[Statement]:
    less = [
        {**one, "Action": [name for name in one["Action"] if (one["Sid"], name) != (sid, action)]} for one in statements
    ]
    return [one for one in less if one["Action"]]


@dataclass(frozen=True)
class Grant:
    """An identity of its own with a prefix of its own."""

    name: str
    statements: list[Statement]
    versioned: bool = False

    def of(self, text: str) -> str:
        buckets = "kept-" if self.versioned else ""
        return text.replace("registry-", f"{buckets}registry-").replace("people", self.name)

    def identity(self) -> dict[str, Any]:
        credentials = [{"accessKey": f"key-{self.name}", "secretKey": f"secret-{self.name}"}]
        return {"name": self.name, "credentials": credentials, "policyNames": [self.name]}

    def policy(self) -> dict[str, Any]:
        document = {"Version": "2012-10-17", "Statement": self.statements}
        return {"name": self.name, "document": json.loads(self.of(json.dumps(document)))}


WHOLE = Grant("whole", POLICY)
SEAWEED_ITSELF = Grant("itself", SEAWEED["policies"][0]["document"]["Statement"])
LESS = {pair: Grant(f"less{i}", _without(POLICY, *pair)) for i, pair in enumerate(NEEDED)}
KEPT = Grant("kept", [*POLICY, *VERSIONS], versioned=True)
LESS_KEPT = {
    pair: Grant(f"lesskept{i}", [*POLICY, *_without(VERSIONS, *pair)], versioned=True)
    for i, pair in enumerate(NEEDED_VERSIONS)
}
GRANTS = [WHOLE, SEAWEED_ITSELF, *LESS.values(), KEPT, *LESS_KEPT.values()]


@pytest.fixture(scope="module")
def server(s3_environment: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    others = {"identities": [grant.identity() for grant in GRANTS], "policies": [grant.policy() for grant in GRANTS]}
    with running_weed(tmp_path_factory.mktemp("seaweedfs"), others) as running:
        for bucket in (INPUT, WORK, OUTPUT):
            running.client().create_bucket(Bucket=bucket)
            running.client().create_bucket(Bucket=f"kept-{bucket}")
            if bucket != INPUT:
                status = {"Status": "Enabled"}
                running.client().put_bucket_versioning(Bucket=f"kept-{bucket}", VersioningConfiguration=status)
        yield running


@pytest.fixture
def credentials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of profiles, one for each identity; no key in the environment goes before it."""
    lines = [f"[{g.name}]\naws_access_key_id=key-{g.name}\naws_secret_access_key=secret-{g.name}\n" for g in GRANTS]
    (path := tmp_path / "credentials").write_text("".join(lines))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(path))
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    return path


@dataclass(frozen=True)
class Nights:
    """A series that an identity makes."""

    grant: Grant
    server: S3Server
    folder: Path

    def prepare(self) -> None:
        for day, ids in (("2026-11-17", range(40)), ("2026-11-18", range(10, 60))):
            pq.write_table(people(ids), buffer := io.BytesIO())
            key = f"{self.grant.name}/{day}/part.parquet"
            self.server.client().put_object(Bucket=self.grant.of(INPUT), Key=key, Body=buffer.getvalue())
        (self.folder / "key").write_text("a key of the series for tests")
        (self.folder / "key").chmod(0o600)
        (self.folder / "units.csv").write_text("id\n7\n12\n")
        options = {"profile": self.grant.name, "client_kwargs": {"endpoint_url": self.server.endpoint}}
        places = {
            "input": f"s3://{INPUT}/people/{{date}}/*.parquet",
            "output": f"s3://{OUTPUT}/people",
            "work": f"s3://{WORK}/microagg/people",
        }
        located = {name: {"url": self.grant.of(url), "storage_options": options} for name, url in places.items()}
        spec = {"name": "series", "id": "date", "k": 3, "roles": ROLES, "unit": ["id"], "cluster": "none", **located}
        spec["series"] = {**atoms(leavers="decoys"), "key_file": "key"}
        spec["acknowledge"] = {"nearly_unique": ["tag"]}
        (self.folder / "release.yaml").write_text(yaml.safe_dump(spec))

    def calls(self) -> Iterator[Ended]:
        """All that is done with a series, one after the other, as long as it goes well."""
        leftover = f"microagg/{self.grant.name}/runs/dead/scatter/rows"
        for words in (
            ("run", "--direct", "--id", "2026-11-17", "release.yaml"),
            ("run", "--direct", "--id", "2026-11-18", "release.yaml"),
            ("clean", "--all", "release.yaml"),
            ("forget", "--units", "units.csv", "--yes", "release.yaml"),
            ("series", "verify", "release.yaml"),
        ):
            if words[0] == "clean":
                self.server.client().put_object(Bucket=self.grant.of(WORK), Key=leftover, Body=b"rows")
            ended = call_command(*words, cwd=self.folder)
            yield ended
            if ended.code:
                return

    def versions(self, bucket: str, prefix: str) -> Iterator[tuple[str, bool]]:
        """All that a bucket holds below a prefix: names, and whether a listing hides it."""
        pages = self.server.client().get_paginator("list_object_versions")
        for page in pages.paginate(Bucket=self.grant.of(bucket), Prefix=self.grant.of(prefix)):
            for version in page.get("Versions", []):
                yield version["Key"].removeprefix(self.grant.of(prefix)), not version["IsLatest"]
            for mark in page.get("DeleteMarkers", []):
                yield mark["Key"].removeprefix(self.grant.of(prefix)), True


@pytest.mark.parametrize("grant", [WHOLE, SEAWEED_ITSELF, KEPT], ids=["policy", "seaweedfs", "versioned"])
def test_what_is_granted_is_enough(grant: Grant, server: S3Server, credentials: Path, tmp_path: Path) -> None:
    nights = Nights(grant, server, tmp_path)
    nights.prepare()
    ended = list(nights.calls())
    assert [one.code for one in ended] == [0] * 5, ended[-1].err
    assert ended[2].out.startswith("removed ") and not any("access was denied" in one.err for one in ended)
    work, output = (list(nights.versions(*place)) for place in ((WORK, "microagg/people/"), (OUTPUT, "people/")))
    assert {name.partition("/")[0] for name, _ in work} == {"audit", "series"}
    # Who was forgotten is not there as a version either, in the ledger or in a release.
    hidden = {name for name, is_hidden in [*work, *output] if is_hidden}
    # A page says what the manifest says, which stays; a notice is in its place.
    pages = {name for name in hidden if name.startswith("2026-11-17/") and name.count("/") == 2}
    assert all(name == "latest.json" or name.startswith("audit/") for name in hidden - pages), hidden
    withdrawn = [name for name, _ in output if name.startswith("2026-11-17/")]
    assert withdrawn and not [name for name in withdrawn if "/data/" in name or "/pages/" in name]


@pytest.mark.parametrize("grant", [WHOLE, KEPT], ids=["policy", "versioned"])
def test_the_doctor_needs_no_more(grant: Grant, server: S3Server, credentials: Path, tmp_path: Path) -> None:
    nights = Nights(grant, server, tmp_path)
    nights.prepare()
    url = grant.of(f"s3://{INPUT}/people/2026-11-18/*.parquet")
    looked = call_command("doctor", "--id", "2026-11-19", "--set", f"input.url={url}", "release.yaml", cwd=tmp_path)
    assert looked.code == 0, looked.out
    assert "access was denied" not in looked.out + looked.err


@pytest.mark.parametrize("pair", share(NEEDED, 5), ids="-".join)
def test_nothing_of_it_can_be_left_out(
    pair: tuple[str, str], server: S3Server, credentials: Path, tmp_path: Path
) -> None:
    nights = Nights(LESS[pair], server, tmp_path)
    nights.prepare()
    *_, last = nights.calls()
    last.assert_refused(5, "access was denied", pair[1])
    assert len(last.sentences()) == 1


@pytest.mark.parametrize("pair", share(NEEDED_VERSIONS, 1), ids="-".join)
def test_versions_that_could_not_be_removed_are_not_made(
    pair: tuple[str, str], server: S3Server, credentials: Path, tmp_path: Path
) -> None:
    nights = Nights(LESS_KEPT[pair], server, tmp_path)
    nights.prepare()
    *_, last = nights.calls()
    last.assert_refused(5, "this bucket keeps versions of what is removed", pair[1])
    assert len(last.sentences()) == 1


def test_the_lifecycle_is_one(server: S3Server) -> None:
    rules = json.loads((STORAGE / "lifecycle.json").read_text(encoding="utf-8"))
    bucket = server.new_bucket("Enabled").url.removeprefix("s3://")
    server.client().put_bucket_lifecycle_configuration(Bucket=bucket, LifecycleConfiguration=rules)
    kept = server.client().get_bucket_lifecycle_configuration(Bucket=bucket)["Rules"]
    assert {one["ID"] for one in kept} == {one["ID"] for one in rules["Rules"]}


def test_the_identity_of_seaweedfs_has_the_same_rights() -> None:
    (policy,) = SEAWEED["policies"]
    assert [one for one in POLICY if one["Sid"] != "TellMissingFromForbidden"] == policy["document"]["Statement"]
    assert SEAWEED["identities"][0]["policyNames"] == [policy["name"]] and "actions" not in SEAWEED["identities"][0]
