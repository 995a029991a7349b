"""Mails of every kind in a real browser: on a phone and a desk, light and dark; and the pictures in the docs."""

from __future__ import annotations

import os
import re
import struct
from base64 import b64encode
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from browser import chromium
from unit.alerts.samples import samples

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page

    from ml_metrics.alerts.message import Message

IMAGES = Path(__file__).parents[3] / "docs" / "images"
PHONE, DESK = 375, 800
SHOTS = {
    "alert-mail": ("metric", 640, 690, "light"),
    "alert-mail-phone-dark": ("crash", PHONE, 600, "dark"),
    "alert-mail-recovered": ("recovered", 640, 420, "light"),
}
"""The pictures in the docs: which mail, how wide, how high, in which theme."""
KINDS = (
    "metric", "crash", "memory", "both", "worse", "warning", "recovered", "many", "hostile", "digest", "heartbeat",
    "incident",
)  # fmt: skip
MEASURE = """() => {
  const numbers = colour => (colour.match(/[\\d.]+/g) || []).map(Number);
  const light = colour => {
    const [r, g, b] = numbers(colour).slice(0, 3).map(one => one / 255)
      .map(one => one <= 0.04045 ? one / 12.92 : Math.pow((one + 0.055) / 1.055, 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = element => {
    for (let at = element; at; at = at.parentElement) {
      const colour = getComputedStyle(at).backgroundColor, parts = numbers(colour);
      if (parts.length < 4 || parts[3] > 0) return colour;
    }
    return 'rgb(255, 255, 255)';
  };
  const contrasts = {}, texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement;
    if (!texts.currentNode.textContent.trim() || element.closest('style, script')) continue;
    const [high, low] = [light(getComputedStyle(element).color), light(behind(element))].sort((a, b) => b - a);
    contrasts[texts.currentNode.textContent.trim().slice(0, 60)] = (high + 0.05) / (low + 0.05);
  }
  const small = [...document.links].map(link => [link.textContent, link.getBoundingClientRect()])
    .filter(([_, box]) => box.height < 44 || box.width < 44)
    .map(([text, box]) => `${text}: ${box.width}x${box.height}`);
  return {
    width: document.documentElement.scrollWidth,
    background: getComputedStyle(document.body).backgroundColor,
    pictures: [...document.images].filter(image => image.naturalWidth > 0).length,
    scripts: document.scripts.length,
    contrasts, small,
  };
}"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


@pytest.fixture(scope="module")
def mails() -> dict[str, Message]:
    made = samples()
    assert tuple(made) == KINDS
    return made


def page_of(message: Message) -> str:
    """Return the HTML of a mail with its pictures inside, as a mail program shows it."""
    pictures = {picture.name: b64encode(picture.png).decode() for picture in message.pictures}
    return re.sub(
        r'src="cid:([a-z0-9-]+)"', lambda found: f'src="data:image/png;base64,{pictures[found[1]]}"', message.html
    )


@pytest.fixture(scope="module", params=["light", "dark"])
def screen(browser: Browser, request: pytest.FixtureRequest) -> Iterator[tuple[Page, str]]:
    """A page in one theme, and the theme."""
    context = browser.new_context(color_scheme=request.param)
    yield context.new_page(), request.param
    context.close()


@pytest.mark.parametrize("width", [320, PHONE, DESK])
@pytest.mark.parametrize("kind", KINDS)
def test_a_mail_fits_its_screen_and_can_be_read_and_tapped(
    screen: tuple[Page, str], mails: dict[str, Message], kind: str, width: int
) -> None:
    page, theme = screen
    page.set_viewport_size({"width": width, "height": 800})
    page.set_content(page_of(mails[kind]))
    found = page.evaluate(MEASURE)
    assert found["width"] == width, "no scrolling sideways"
    assert {text: ratio for text, ratio in found["contrasts"].items() if ratio < 4.5} == {}
    assert found["small"] == []
    assert found["background"] == ("rgb(255, 255, 255)" if theme == "light" else "rgb(15, 23, 42)")
    assert (found["pictures"], found["scripts"]) == (len(mails[kind].pictures), 0)


@pytest.mark.parametrize("name", SHOTS)
def test_the_pictures_in_the_docs_show_these_mails(
    browser: Browser, mails: dict[str, Message], tmp_path: Path, name: str
) -> None:
    kind, width, height, theme = SHOTS[name]
    made, shown = tmp_path / f"{name}.png", IMAGES / f"{name}.png"
    scheme: Any = theme
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
    page = context.new_page()
    page.set_content(page_of(mails[kind]))
    page.screenshot(path=made)
    context.close()
    if os.environ.get("UPDATE_GOLDEN"):
        shown.write_bytes(made.read_bytes())
    # fonts differ between machines, so the pixels are not compared
    assert size(made) == size(shown)
    assert made.stat().st_size > 10_000, "a page with text is no blank page"


def size(picture: Path) -> tuple[int, int]:
    """Return width and height, from the first chunk of a PNG."""
    width, height = struct.unpack(">II", picture.read_bytes()[16:24])
    return width, height
