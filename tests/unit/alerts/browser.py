"""A real Chromium, without a window, that draws pages and measures them."""

from __future__ import annotations

import re
import shutil
import subprocess
from html import escape
from pathlib import Path

from missing import missing

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
QUIET = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)
"""No window, and no talk with anybody: the page is a file, and so are its pictures."""
MEASURE = """
const page = frames[0].document, body = frames[0].getComputedStyle(page.body);
document.title = [page.documentElement.scrollWidth, page.documentElement.scrollHeight, body.backgroundColor,
  [...page.images].filter(image => image.naturalWidth > 0).length].join("|");
"""


class Browser:
    """Chromium with a profile of its own, in a folder that also holds the page and its pictures."""

    def __init__(self, folder: Path) -> None:
        if CHROMIUM is None:
            missing("NOT CHECKED: no Chromium to draw mails with; `apt-get install chromium`")
        self.folder, self.program = folder, CHROMIUM

    def draw(self, page: str, picture: Path, *, width: int, height: int, dark: bool = False) -> None:
        """Draw a mail as a screen of this size would show it."""
        self._run(self._framed(page, width, height), f"--screenshot={picture}", width=width, height=height, dark=dark)

    def measure(self, page: str, *, width: int, dark: bool = False) -> tuple[int, int, str, int]:
        """How wide and how high a mail is on a screen of this width, its background, and how many pictures it shows."""
        output = self._run(self._framed(page, width, 800), "--dump-dom", width=width, height=800, dark=dark)
        found = re.search(r"<title>(\d+)\|(\d+)\|(.*?)\|(\d+)</title>", output)
        assert found, output[:2000]
        return int(found[1]), int(found[2]), found[3], int(found[4])

    def _framed(self, page: str, width: int, height: int) -> Path:
        """The mail in a frame as wide as the screen: Chromium's own window cannot be as narrow as a phone."""
        path = self.folder / "page.html"
        frame = f'<iframe srcdoc="{escape(page)}" width="{width}" height="{height}" style="border: 0"></iframe>'
        script = f"<script>onload = () => {{{MEASURE}}}</script>"
        head = '<!doctype html><html><head><meta name="color-scheme" content="light dark"><title></title></head>'
        path.write_text(f'{head}<body style="margin: 0">{frame}{script}</body></html>', errors="replace")
        return path

    def _run(self, page: Path, task: str, *, width: int, height: int, dark: bool) -> str:
        scheme = ["--blink-settings=preferredColorScheme=0"] if dark else []
        profile, size = f"--user-data-dir={self.folder / 'profile'}", f"--window-size={width},{height}"
        command = [self.program, *QUIET, *scheme, profile, size, task, page.as_uri()]
        done = subprocess.run(command, check=True, capture_output=True, timeout=120)
        return done.stdout.decode(errors="replace")
