"""A look at the site in a browser: search works, nothing is reported, and no request leaves the machine."""

from __future__ import annotations

import shutil
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Literal

from release.tree import ReleaseError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser

PAGES = ("index.html", "conditions.html")
WIDTHS = (390, 1400)
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
SEARCHED = "goodput"
PATIENCE = 120_000
"""Milliseconds until a search must have found something."""
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update")


@dataclass(frozen=True, slots=True)
class Look:
    """One page, as one reader sees it."""

    address: str
    page: str
    width: int
    scheme: Literal["light", "dark"]

    def __str__(self) -> str:
        return f"{self.page}, {self.width} px, {self.scheme}"


def check(site: Path, version: str, pictures: Path | None = None) -> str:
    """Look at pages on a phone and a desk, in light and dark, and search; return what was looked at.

    Raises:
        ReleaseError: what is wrong, on which page.
    """
    program = shutil.which("chromium")
    if program is None:
        return "not looked at: there is no chromium"
    from playwright.sync_api import sync_playwright

    wrong: list[str] = []
    with _served(site) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=list(FLAGS))
        shown = [f"{version}/{page}" for page in PAGES]
        looks = [Look(address, page, width, scheme) for page in shown for width in WIDTHS for scheme in SCHEMES]
        for look in looks:
            wrong += _look(browser, look, pictures)
        wrong += _search(browser, f"{address}/{version}/index.html")
        wrong += _search(browser, (site / version / "index.html").absolute().as_uri())
        browser.close()
    if wrong:
        raise ReleaseError("\n- ".join(["the site is not right:", *wrong]))
    return f"{len(looks)} looks and 2 searches without an error"


def _look(browser: Browser, look: Look, pictures: Path | None) -> list[str]:
    context = browser.new_context(viewport={"width": look.width, "height": 900}, color_scheme=look.scheme)
    page, wrong = context.new_page(), []
    page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("request", lambda request: _note_other(request.url, look.address, wrong))
    page.goto(f"{look.address}/{look.page}", wait_until="networkidle")
    overflow = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    if overflow > 0:
        wrong.append(f"the page is {overflow} px too wide")
    dark = page.get_attribute("body", "data-md-color-scheme") == "slate"
    if dark != (look.scheme == "dark"):
        wrong.append("the colours are those of the other scheme, or none")
    if page.locator(".md-version").count() != 1:
        wrong.append("there is no chooser of versions")
    if pictures:
        page.screenshot(path=str(pictures / f"{look}.png".replace("/", "-")))
    context.close()
    return [f"{look}: {each}" for each in wrong]


def _note_other(url: str, address: str, wrong: list[str]) -> None:
    if not url.startswith((f"{address}/", "data:", "blob:")):
        wrong.append(f"asks for {url}")


def _search(browser: Browser, address: str) -> list[str]:
    from playwright.sync_api import Error

    page = browser.new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(address)
    page.locator(".md-search__input").press_sequentially(SEARCHED)  # it listens to keys
    try:
        page.locator(f".md-search-result__item a[href*='{SEARCHED}.html']").first.wait_for(timeout=PATIENCE)
        found = []
    except Error:
        found = [f"{address}: a search for {SEARCHED!r} finds nothing"]
    others = [url for url in asked if url.partition(":")[0] not in {"file", "data", "blob"} and "127.0.0.1" not in url]
    page.close()
    return [*found, *(f"{address}: the search asks for {url}" for url in others)]


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Log nothing."""


@contextmanager
def _served(site: Path) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
