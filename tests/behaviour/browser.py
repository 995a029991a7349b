"""Debian's Chromium, without a screen and without a network."""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from playwright.sync_api import sync_playwright

from missing import missing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, BrowserContext, Page

FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip


@contextmanager
def chromium() -> Iterator[Browser]:
    """The browser. A laptop without one skips, loudly; where everything has to be tested that is a failure."""
    path = shutil.which("chromium")
    if path is None:
        missing("there is no chromium: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        yield browser
        browser.close()


class Watched:
    """A page whose every misdeed is remembered: scripts that ran, requests to others, errors."""

    def __init__(self, context: BrowserContext, url: str) -> None:
        self.url = url
        self.ran: list[str] = []
        self.errors: list[str] = []
        self.elsewhere: list[str] = []
        context.expose_function("xss", lambda: self.ran.append("xss"))
        self.page: Page = context.new_page()
        self.page.on("dialog", lambda dialog: (self.ran.append(dialog.message), dialog.dismiss()))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", lambda said: said.type == "error" and self.errors.append(said.text))
        self.page.on("request", self._asked)

    def _asked(self, request: Any) -> None:
        if not request.url.startswith((self.url, "data:", "blob:", "about:", "file:")):
            self.elsewhere.append(request.url)

    def go(self, path: str) -> Page:
        """Open one of our pages, without Airflow around it."""
        self.page.goto(f"{self.url}/ml-metrics/{path}")
        return self.page

    def drawn(self) -> None:
        """Wait for a chart."""
        self.page.locator("[data-drawn]").first.wait_for()


def logged_in(browser: Browser, url: str, token: str, **more: Any) -> BrowserContext:
    """A context with Airflow's own cookie."""
    context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **more})
    context.add_cookies([{"name": "_token", "value": token, "url": url}])
    return context


def screenshot(page: Page, name: str, project: Path) -> None:
    """A picture for the docs. They are made anew only if asked for: their bytes differ from machine to machine."""
    if os.environ.get("UPDATE_SCREENSHOTS"):
        page.screenshot(path=project / "docs" / "images" / f"dashboard-{name}.png")
