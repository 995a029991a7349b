"""A look at the site in a browser: search works, nothing is reported, and no request leaves the machine."""

from __future__ import annotations

import shutil
import threading
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from release.tree import ReleaseError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser

PAGES = ("index.html", "semantics.html")
WIDTHS = (390, 1400)
SCHEMES = ("light", "dark")
SEARCHED = "goodput"
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update")


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
        looks = [(page, width, scheme) for page in PAGES for width in WIDTHS for scheme in SCHEMES]
        for page, width, scheme in looks:
            wrong += _look(browser, f"{address}/", f"{version}/{page}", width, scheme, pictures)
        wrong += _search(browser, f"{address}/{version}/index.html")
        wrong += _search(browser, (site / version / "index.html").absolute().as_uri())
        browser.close()
    if wrong:
        raise ReleaseError("\n- ".join(["the site is not right:", *wrong]))
    return f"{len(looks)} looks and 2 searches without an error"


def _look(browser: Browser, address: str, path: str, width: int, scheme: Any, pictures: Path | None) -> list[str]:
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page, where, wrong = context.new_page(), f"{path}, {width} px, {scheme}", []
    page.on("console", lambda message: wrong.append(f"{where}: {message.text}") if message.type == "error" else None)
    page.on("pageerror", lambda error: wrong.append(f"{where}: {error}"))
    page.on("request", lambda request: _note_other(request.url, address, where, wrong))
    page.goto(address + path, wait_until="networkidle")
    overflow = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    if overflow > 0:
        wrong.append(f"{where}: the page is {overflow} px too wide")
    if "indigo" not in (page.get_attribute("body", "data-md-color-primary") or ""):
        wrong.append(f"{where}: the theme is missing")
    dark = page.get_attribute("body", "data-md-color-scheme") == "slate"
    if dark != (scheme == "dark"):
        wrong.append(f"{where}: the colours are those of the other scheme")
    if page.locator(".md-version").count() != 1:
        wrong.append(f"{where}: there is no chooser of versions")
    if pictures:
        page.screenshot(path=str(pictures / f"{path.replace('/', '-')}-{width}-{scheme}.png"))
    context.close()
    return wrong


def _note_other(url: str, address: str, where: str, wrong: list[str]) -> None:
    if not url.startswith((address, "data:", "blob:")):
        wrong.append(f"{where}: asks for {url}")


def _search(browser: Browser, address: str) -> list[str]:
    from playwright.sync_api import Error

    page = browser.new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(address)
    page.locator(".md-search__input").fill(SEARCHED)
    try:
        page.locator(f".md-search-result__item a[href*='{SEARCHED}.html']").first.wait_for(timeout=30_000)
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
