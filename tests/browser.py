"""Debian's Chromium, headless and without network access."""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from playwright.sync_api import expect, sync_playwright

from missing import missing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, BrowserContext, Locator, Page

FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip
EXPECT_MILLISECONDS = 30_000
"""How long an expected element may take on a machine that runs other tests, too."""
PAGE_MILLISECONDS = 120_000
"""How long a page may take: the first one waits for what the server imports."""


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start the browser. If it is not installed, the test is skipped, or fails where everything must be tested."""
    path = shutil.which("chromium")
    if path is None:
        missing("there is no chromium: apt-get install chromium")
    expect.set_options(timeout=EXPECT_MILLISECONDS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        yield browser
        browser.close()


class Watched:
    """A page that records scripts that ran, requests to other servers, and errors."""

    def __init__(self, context: BrowserContext, url: str) -> None:
        self.url = url
        self.ran: list[str] = []
        self.errors: list[str] = []
        self.other_requests: list[str] = []
        context.expose_function("xss", lambda: self.ran.append("xss"))
        self.page: Page = context.new_page()
        self.page.set_default_navigation_timeout(PAGE_MILLISECONDS)
        self.page.on("dialog", lambda dialog: (self.ran.append(dialog.message), dialog.dismiss()))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", lambda message: message.type == "error" and self.errors.append(message.text))
        self.page.on("request", self._record_request)

    def _record_request(self, request: Any) -> None:
        if not request.url.startswith((self.url, "data:", "blob:", "about:", "file:")):
            self.other_requests.append(request.url)

    def go(self, path: str) -> Page:
        """Open one of our pages, without Airflow's frame."""
        self.page.goto(f"{self.url}/ml-metrics/{path}")
        return self.page

    def wait_for_chart(self) -> None:
        """Wait until a chart is drawn."""
        self.page.locator("[data-drawn]").first.wait_for()


def press_until(page: Page, key: str, wanted: Locator) -> None:
    page.wait_for_load_state()  # keys act once the page's script has run
    for _ in range(40):
        page.keyboard.press(key)
        if wanted.evaluate("one => one === document.activeElement"):
            return
    raise AssertionError(f"{key} does not reach {wanted}")


def check_look(page: Page, name: str) -> None:
    """No violation of accessibility, and nothing that is wider than the screen."""
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page).response["violations"]
    assert [(one["id"], [node["html"][:200] for node in one["nodes"][:3]]) for one in found] == [], name
    assert page.viewport_size is not None
    assert page.evaluate("document.documentElement.scrollWidth") <= page.viewport_size["width"], name


def logged_in(browser: Browser, url: str, token: str, **more: Any) -> BrowserContext:
    """Return a context with Airflow's cookie."""
    context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **more})
    context.add_cookies([{"name": "_token", "value": token, "url": url}])
    return context
