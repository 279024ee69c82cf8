"""Pages of releases, looked at with a real browser: pictures for the eye, and what a program can see.

    python tests/functional/report_pages.py FOLDER PAGE.html [PAGE.html ...]

Each page is opened from disk in Chromium at three widths and in the dark, and printed. Pictures and prints are kept in
the folder. Exit code 1 where a page asks anybody for anything, complains, is wider than its window, hides or overlays a
text, is too large or takes too long. Chromium is the system's, the package ``chromium``.
"""

from __future__ import annotations

import argparse
import base64
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from prefect_pages import Browser, Tab, browser
from websockets.sync.client import connect as connect_socket

#: How wide the window is: of a phone, of a tablet, of a laptop.
WIDTHS = (360, 800, 1440)
_HEIGHT = 1000
#: A4 between its margins, as a browser counts.
PAPER = 680
#: A page that somebody sends to a colleague, and does not wait for.
MOST_BYTES, MOST_SECONDS = 3_000_000, 1.0
#: No picture of a page is higher: the browser gives up beyond.
_MOST_PIXELS = 16_000
_ANSWER_SECONDS = 60.0

#: What a reader would not like, in words.
_TROUBLES = """
(() => {
  const troubles = [], width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth > width) troubles.push('is wider than its window');
  const scrolls = e => e.closest('.scroll, pre') !== null;
  const hidden = e => e.closest('.skip') !== null || e.closest('details:not([open]) > :not(summary)') !== null;
  for (const e of document.querySelectorAll('h1, h2, h3, p, li, a, summary, th, td, caption, figcaption')) {
    if (hidden(e) || scrolls(e) || !e.innerText || !e.innerText.trim()) continue;
    const range = document.createRange();
    range.selectNodeContents(e);
    const box = range.getBoundingClientRect();
    if (box.width > 1 && (box.right > width + 1 || box.left < -1)) troubles.push('cuts off: ' + e.innerText);
  }
  for (const svg of document.querySelectorAll('svg:not([aria-hidden="true"])')) {
    const frame = svg.getBoundingClientRect();
    const texts = [...svg.querySelectorAll('text')].map(t => [t.textContent, t.getBoundingClientRect()]);
    texts.forEach(([words, box], i) => {
      if (!box.width) return;
      if (box.left < frame.left - 2 || box.right > frame.right + 2) troubles.push('a chart cuts off: ' + words);
      if (box.top < frame.top - 3 || box.bottom > frame.bottom + 3)
        troubles.push('a chart cuts off: ' + words);
      for (const [others, other] of texts.slice(i + 1))
        if (box.left < other.right - 1 && other.left < box.right - 1 &&
            box.top < other.bottom - 4 && other.top < box.bottom - 4)
          troubles.push('a chart has over each other: ' + words + ' and ' + others);
    });
  }
  let before = 0;
  for (const h of document.querySelectorAll('h1, h2, h3, h4')) {
    const level = Number(h.tagName[1]);
    if (level > before + 1) troubles.push('leaves out a level of headings before: ' + h.innerText);
    before = level;
  }
  if (!document.documentElement.lang) troubles.push('does not say its language');
  if (document.scripts.length) troubles.push('has a script');
  const ids = [...document.querySelectorAll('[id]')].map(e => e.id);
  if (new Set(ids).size < ids.length) troubles.push('has an id twice');
  for (const a of document.querySelectorAll('a[href^="#"]'))
    if (!document.getElementById(a.getAttribute('href').slice(1))) troubles.push('leads nowhere: ' + a.innerText);
  for (const svg of document.querySelectorAll('svg:not([aria-hidden="true"])'))
    if (!svg.getAttribute('aria-label')) troubles.push('has a chart without words');
  return troubles;
})()
"""
_LOADED = "(() => { const n = performance.getEntriesByType('navigation')[0]; return n && n.loadEventEnd / 1000; })()"


class ListeningTab(Tab):
    """A page of a browser that is asked for what it was told besides answers."""

    def loaded(self) -> float:
        """How long the page took until it was there, in seconds."""
        deadline = time.monotonic() + _ANSWER_SECONDS
        while time.monotonic() < deadline:
            if seconds := self.value(_LOADED):
                return float(seconds)
            time.sleep(0.1)
        return _ANSWER_SECONDS

    def complaints(self, url: str) -> list[str]:
        """Requests but that for the page itself, and what its console says."""
        told = []
        for event in self.events:
            parameters = event.get("params", {})
            if event.get("method") == "Network.requestWillBeSent":
                asked = parameters["request"]["url"]
                if asked.partition("#")[0] != url and not asked.startswith("data:"):
                    told.append(f"asks for {asked}")
            elif event.get("method") == "Log.entryAdded":
                told.append(f"complains: {parameters['entry']['text']}")
            elif event.get("method") in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown"):
                told.append("says something on its console")
        return told


@contextmanager
def opened(chromium: Browser, url: str, width: int, medium: str = "") -> Iterator[ListeningTab]:
    """A page in a window of a width, listened to from the start, closed at the end."""
    fresh = chromium._tell("PUT", "new?about:blank")
    with connect_socket(fresh["webSocketDebuggerUrl"], max_size=None) as socket:
        tab = ListeningTab(socket, _ANSWER_SECONDS)
        for what in ("Network", "Log", "Runtime", "Page"):
            tab.ask(f"{what}.enable")
        size = {"width": width, "height": _HEIGHT, "deviceScaleFactor": 1, "mobile": False}
        tab.ask("Emulation.setDeviceMetricsOverride", **size)
        if medium == "dark":
            tab.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
        elif medium:
            tab.ask("Emulation.setEmulatedMedia", media=medium)
        tab.events.clear()
        tab.ask("Page.navigate", url=url)
        yield tab
    chromium._tell("GET", f"close/{fresh['id']}")


@dataclass(frozen=True)
class Look:
    """How a page looked in one window."""

    seconds: float
    troubles: list[str]


def look_at(chromium: Browser, page: Path, width: int, picture: Path | None = None, medium: str = "") -> Look:
    """Open a page, dark or as on paper where that is asked for, keep a picture of it, and tell what is wrong."""
    url = page.absolute().as_uri()
    with opened(chromium, url, width, medium) as tab:
        seconds = tab.loaded()
        troubles = [*(tab.value(_TROUBLES) or []), *tab.complaints(url)]
        if picture is not None:
            _keep_picture(tab, width, picture)
    return Look(seconds, troubles)


def _keep_picture(tab: Tab, width: int, picture: Path) -> None:
    height = min(int(tab.value("document.documentElement.scrollHeight")), _MOST_PIXELS)
    clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
    taken = tab.ask("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
    picture.write_bytes(base64.b64decode(taken["data"]))


def print_page(chromium: Browser, page: Path, to: Path) -> None:
    with opened(chromium, page.absolute().as_uri(), 800) as tab:
        tab.loaded()
        printed = tab.ask("Page.printToPDF", preferCSSPageSize=True, printBackground=False)
        to.write_bytes(base64.b64decode(printed["data"]))


def look_everywhere(chromium: Browser, page: Path, folder: Path, name: str) -> Iterator[str]:
    """All that is wrong with a page, at every width, in the dark and printed."""
    n_bytes = page.stat().st_size
    slowest = 0.0
    for width in WIDTHS:
        look = look_at(chromium, page, width, folder / f"{name}-{width}.png")
        slowest = max(slowest, look.seconds)
        yield from (f"{name} at {width} {trouble}" for trouble in look.troubles)
    for medium, width in (("dark", 800), ("print", PAPER)):
        look = look_at(chromium, page, width, folder / f"{name}-{medium}.png", medium)
        yield from (f"{name}, {medium}, {trouble}" for trouble in look.troubles)
    print_page(chromium, page, folder / f"{name}.pdf")
    print(f"{name}: {n_bytes / 1000:,.0f} kB, there after {slowest:.2f} s at most")
    if n_bytes > MOST_BYTES:
        yield f"{name} has {n_bytes:,} bytes"
    if slowest > MOST_SECONDS:
        yield f"{name} takes {slowest:.2f} s to open"


def main() -> int:
    """Make the pictures, and say what is wrong with the pages."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where pictures and prints go; made if it is not there")
    parser.add_argument("pages", type=Path, nargs="+", help="files of HTML, of the operator or public")
    chosen = parser.parse_args()
    folder: Path = chosen.folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    wrong = 0
    with TemporaryDirectory() as own, browser(Path(own)) as chromium:
        for number, page in enumerate(chosen.pages):
            for trouble in look_everywhere(chromium, page, folder, f"{number}-{page.stem}"):
                print(trouble)
                wrong += 1
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
