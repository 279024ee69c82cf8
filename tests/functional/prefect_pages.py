"""Prefect's pages of real runs, looked at with a real browser: pictures for the eye, and what a program can see.

    python tests/functional/prefect_pages.py FOLDER

A server with its pages, a worker and four deployments: a release, a refusal, a failure and a night left out. Each
page is opened in Chromium at two widths and kept as a picture in the folder. Exit code 1 where a page has a number that
nobody reads, a text that is cut off, or nothing of ours. Chromium is the system's, the package ``chromium``.
"""

from __future__ import annotations

import argparse
import base64
import datetime
import json
import os
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from websockets.sync.client import ClientConnection
from websockets.sync.client import connect as connect_socket

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from releasing.runs import AGAIN
from releasing.under_prefect import COMMAND, some_people, spec_of, with_an_infinity
from servers.prefect_server import PrefectServer, prefect_server, prefect_worker
from servers.process import process, wait_until

#: How wide the window is: of a laptop, and of half a screen.
WIDTHS = (1440, 900)
_HEIGHT = 1800
#: How long a page may take until it says what it is about, and a browser until it answers.
_PAGE_SECONDS, _ANSWER_SECONDS = 20.0, 10.0
#: A number as it was measured, which no person reads; ids of Prefect's own have letters among their digits.
LONG_NUMBER = re.compile(r"(?<![\w-])\d+\.\d{8,}|(?<![\w.-])\d{9,}(?![\w-])")
_BROWSER = [
    "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--remote-debugging-port=0",
    "--hide-scrollbars", "--disable-dev-shm-usage",
]  # fmt: skip
#: Texts that do not fit where they stand: what they are in hides a part of what they say.
_CUT_OFF = """
[...document.querySelectorAll('table td, table th, h1, h2, h3, p, a, li, span, code, strong')].filter(e => {
  if (!e.offsetParent || !e.innerText || !e.innerText.trim()) return false;
  const range = document.createRange();
  range.selectNodeContents(e);
  const right = range.getBoundingClientRect().right;
  for (let place = e; place && place !== document.body; place = place.parentElement) {
    const box = place.getBoundingClientRect();
    if (box.width < 2) return false;  // for ears alone
    if (getComputedStyle(place).overflowX !== 'visible' && right > box.right + 1) return true;
  }
  return right > innerWidth + 1;
}).map(e => e.innerText)
"""

_CLICK = "[...document.querySelectorAll('.p-tab')].find(e => e.innerText.trim() === 'TITLE').click()"


@dataclass
class Tab:
    """A page of a browser, spoken to over the browser's own protocol."""

    socket: ClientConnection
    patience: float = _ANSWER_SECONDS
    #: What it is told besides answers.
    events: list[dict[str, Any]] = field(default_factory=list)
    _number: int = 0

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Have the page do something; what it answers."""
        self._number += 1
        self.socket.send(json.dumps({"id": self._number, "method": method, "params": parameters}))
        while True:
            message: dict[str, Any] = json.loads(self.socket.recv(timeout=self.patience))
            if message.get("id") == self._number:
                return dict(message["result"])
            self.events.append(message)

    def value(self, expression: str) -> Any:
        return self.ask("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    def says(self, text: str) -> str:
        """All that the page says, once it says this, or does not for long."""
        deadline, said = time.monotonic() + _PAGE_SECONDS, ""
        while text not in said and time.monotonic() < deadline:
            time.sleep(0.3)
            said = str(self.value("document.body ? document.body.innerText : ''"))
        time.sleep(1.0)  # what moves comes to rest
        return str(self.value("document.body.innerText"))


@dataclass(frozen=True)
class Browser:
    """A browser, by the port at which it is told what to do."""

    port: int

    @contextmanager
    def tab(self, url: str, width: int) -> Iterator[Tab]:
        opened = self._tell("PUT", "new?about:blank")
        with connect_socket(opened["webSocketDebuggerUrl"], max_size=None) as socket:
            tab = Tab(socket)
            size = {"width": width, "height": _HEIGHT, "deviceScaleFactor": 1, "mobile": False}
            tab.ask("Emulation.setDeviceMetricsOverride", **size)
            tab.ask("Page.navigate", url=url)
            yield tab
        self._tell("GET", f"close/{opened['id']}")

    def _tell(self, method: str, what: str) -> Any:
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/json/{what}", method=method)
        with urllib.request.urlopen(request, timeout=_ANSWER_SECONDS) as answer:
            text = answer.read()
        return json.loads(text) if text.startswith(b"{") else None


@contextmanager
def browser(folder: Path) -> Iterator[Browser]:
    """A real Chromium without a window, ended at the end."""
    user, environment = folder / "browser", {"HOME": str(folder), "PATH": os.environ["PATH"]}
    with process([*_BROWSER, f"--user-data-dir={user}"], environment, folder / "browser.log"):
        told = user / "DevToolsActivePort"
        wait_until(lambda: told.exists() and "\n" in told.read_text(), "the browser", 60)
        yield Browser(int(told.read_text().split()[0]))


@dataclass(frozen=True)
class Page:
    """A page that is looked at: its name, where it is, and what it says once it is there."""

    name: str
    url: str
    says: str
    #: Which of its tabs is looked at, by its title; the first where none is named.
    tab: str = ""

    def look(self, chromium: Browser, width: int, picture: Path) -> list[str]:
        """Keep a picture of it; what a program sees in it that a person would not like."""
        for _ in range(3):  # a busy machine's browser loses a page now and then
            with suppress(TimeoutError), chromium.tab(self.url, width) as tab:
                said = tab.says(self.says)
                if self.tab:
                    tab.value(_CLICK.replace("TITLE", self.tab))
                    said = tab.says(self.says)
                taken = tab.ask("Page.captureScreenshot", format="png", captureBeyondViewport=True)
                picture.write_bytes(base64.b64decode(taken["data"]))
                return troubles_of(said, self.says, tab.value(_CUT_OFF) or [])
        return ["does not open"]


def specs_in(folder: Path) -> None:
    """Write specs of four series: one is released, one refused, one fails, and one comes too late."""
    tables = some_people()
    common: dict[str, Any] = {"schedule": {"cron": "30 2 * * *", "timezone": "UTC"}, **AGAIN}
    spec_of(folder / "people", tables, name="people", **common)
    spec_of(folder / "households-north", with_an_infinity(tables), name="households-north", **common)
    spec_of(folder / "absent", tables, name="absent", input={"url": "input-{date}/*.parquet"}, **common)
    spec_of(folder / "late", tables, name="late", **common)


def run_all(server: PrefectServer, specs: Path) -> dict[str, dict[str, Any]]:
    deploy = [COMMAND, "deploy", str(specs)]
    for _ in range(3):  # a busy server does not take everything at once, and the same command deploys the rest
        if subprocess.run(deploy, env=server.environment(), timeout=120).returncode == 0:
            break
    started = {}
    for name in (path.name for path in sorted(specs.iterdir())):
        deployment = server.get(f"deployments/name/microagg-release/{name}")
        late = (datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=3)).isoformat()
        state = {"type": "SCHEDULED", "state_details": {"scheduled_time": late}} if name == "late" else None
        started[name] = server.post(f"deployments/{deployment['id']}/create_flow_run", state=state)["id"]
    return {name: server.ended(run) for name, run in started.items()}


def pages_of(server: PrefectServer, runs: dict[str, dict[str, Any]]) -> Iterator[Page]:
    site = server.url.removesuffix("/api")
    yield Page("runs", f"{site}/runs", runs["people"]["name"])
    yield Page("deployments", f"{site}/deployments", "people")
    yield Page("artifacts", f"{site}/artifacts", "microagg-people")
    for name, run in runs.items():
        place = f"{site}/runs/flow-run/{run['id']}"
        yield Page(f"run-{name}", place, run["name"])
        yield Page(f"run-{name}-artifacts", place, run["name"], tab="Artifacts")
        yield Page(f"run-{name}-details", place, run["name"], tab="Details")
        for artifact in server.artifacts(run["id"]):
            if key := artifact["key"]:
                yield Page(f"artifact-{key}", f"{site}/artifacts/artifact/{artifact['id']}", key)


def troubles_of(text: str, says: str, cut_off: list[str]) -> list[str]:
    """What a program sees in a page that a person would not like."""
    absent = [] if says in text else [f"does not say {says!r}"]
    numbers = [f"has the number {number}" for number in LONG_NUMBER.findall(text)]
    return absent + numbers + [f"cuts off {one!r}" for one in cut_off]


def main() -> int:
    """Make the pictures, and say what is wrong with the pages."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where the pictures go; made if it is not there")
    folder: Path = parser.parse_args().folder.absolute()
    (folder / "specs").mkdir(parents=True)
    specs_in(folder / "specs")
    wrong = 0
    with prefect_server(folder, pages=True) as server:
        server.prefect("work-pool", "create", "microagg", "--type", "process")
        with prefect_worker(server, "microagg", {}), browser(folder) as chromium:
            for page in pages_of(server, run_all(server, folder / "specs")):
                for width in WIDTHS:
                    for trouble in page.look(chromium, width, folder / f"{page.name}-{width}.png"):
                        print(f"{page.name} at {width}: {trouble}")
                        wrong += 1
    print(f"{len(list(folder.glob('*.png')))} pictures in {folder}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
