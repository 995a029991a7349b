"""Mails in a real browser: on a phone, on a dark screen, with very long names; and the pictures in the docs."""

from __future__ import annotations

import os
import random
import struct
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ml_metrics.alerts.compose import compose
from ml_metrics.alerts.message import Fact, Message, Picture
from ml_metrics.charts import as_png, metric_chart
from ml_metrics.model import JobStatus, Outcome, StoredMetric
from unit.alerts.browser import Browser
from unit.alerts.hostile import HOSTILE
from unit.alerts.reports import LOSS, REPORT

IMAGES = Path(__file__).parents[3] / "docs" / "images"
PHONE = 390
SHOTS = {"alert-mail": (640, 1000, False), "alert-mail-phone-dark": (PHONE, 1060, True)}


@pytest.fixture
def browser(tmp_path: Path) -> Browser:
    return Browser(tmp_path)


@pytest.fixture(scope="module")
def chart() -> bytes:
    chance, bound = random.Random(1), 0.96
    values = [0.9 + chance.uniform(-0.03, 0.03) for _ in range(20)] + [1.79]
    points = [
        StoredMetric(
            f"run {day}",
            datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=day),
            "loss_final",
            value,
            JobStatus.SUCCESS,
            Outcome.PASS if value < bound else Outcome.FAIL,
            upper=bound,
        )
        for day, value in enumerate(values)
    ]
    return as_png(metric_chart("", points, width=560, height=180))


def mail(folder: Path, chart: bytes) -> Message:
    """Return a mail and write its picture to the folder from which the browser loads it."""
    (folder / "metric-1.png").write_bytes(chart)
    with_chart = replace(LOSS, picture=Picture("metric-1", chart, "loss_final in its last 21 runs"))
    return compose(replace(REPORT, problems=(with_chart, *REPORT.problems[1:])), ["vision-team@example.com"])


def page(message: Message) -> str:
    return message.html.replace('src="cid:', 'src="').replace('-1" width', '-1.png" width')


def test_a_mail_fits_a_phone_and_shows_its_chart(browser: Browser, tmp_path: Path, chart: bytes) -> None:
    width, _, background, pictures = browser.measure(page(mail(tmp_path, chart)), width=PHONE)
    assert (width, background, pictures) == (PHONE, "rgb(255, 255, 255)", 1)


def test_a_mail_is_dark_on_a_dark_screen(browser: Browser, tmp_path: Path, chart: bytes) -> None:
    _, _, background, _ = browser.measure(page(mail(tmp_path, chart)), width=PHONE, dark=True)
    assert background == "rgb(15, 23, 42)"


def test_long_names_do_not_make_a_mail_wider_than_the_screen(browser: Browser) -> None:
    names = [*HOSTILE, "W" * 400]
    problems = tuple(replace(LOSS, sentence=each, picture=None, facts=(Fact("value", each),)) for each in names)
    message = compose(replace(REPORT, test="x" * 200, problems=problems, warnings=tuple(names)), [])
    width, _, _, _ = browser.measure(message.html, width=PHONE)
    assert width == PHONE


@pytest.mark.parametrize("name", SHOTS)
def test_the_pictures_in_the_docs_show_this_mail(browser: Browser, tmp_path: Path, chart: bytes, name: str) -> None:
    width, height, dark = SHOTS[name]
    made, shown = tmp_path / f"{name}.png", IMAGES / f"{name}.png"
    browser.draw(page(mail(tmp_path, chart)), made, width=width, height=height, dark=dark)
    if os.environ.get("UPDATE_GOLDEN"):
        shown.write_bytes(made.read_bytes())
    # fonts differ between machines, so the pixels are not compared
    assert size(made) == size(shown)
    assert made.stat().st_size > 20_000, "a page with a chart is no blank page"


def size(picture: Path) -> tuple[int, int]:
    """Width and height, from the first chunk of a PNG."""
    width, height = struct.unpack(">II", picture.read_bytes()[16:24])
    return width, height
