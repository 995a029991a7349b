"""From a report to the words of a message. Everything that a user can name is escaped."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from ml_metrics.alerts.message import Message, Occasion

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jinja2 import Environment

    from ml_metrics.alerts.message import Report

HEADLINES = {
    Occasion.BROKEN: "is not well",
    Occasion.WORSE: "got worse",
    Occasion.RECOVERED: "is well again",
}


def compose(report: Report, recipients: Sequence[str]) -> Message:
    """The message about a run."""
    headline = f"{report.test} {HEADLINES[report.occasion]}"
    words = {"report": report, "headline": headline}
    return Message(
        key=f"{report.run_key}-{report.occasion}",
        subject=one_line(f"[ML Metrics] {headline}{_first_reason(report)}"),
        text=_templates().get_template("message.txt").render(words),
        html=_templates().get_template("message.html").render(words),
        recipients=tuple(one_line(recipient) for recipient in recipients),
    )


def one_line(text: str, limit: int = 180) -> str:
    """Text for a header: no line break may end it early, and no reader wants more."""
    flat = re.sub(r"\s+", " ", re.sub(r"[\x00-\x1f\x7f\u2028\u2029]", " ", text)).strip()
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"


def _first_reason(report: Report) -> str:
    if not report.reasons:
        return ""
    more = f" (+{len(report.reasons) - 1} more)" if len(report.reasons) > 1 else ""
    return f": {report.reasons[0]}{more}"


@cache
def _templates() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

    return Environment(
        loader=PackageLoader("ml_metrics.alerts"),
        autoescape=select_autoescape(["html"]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
