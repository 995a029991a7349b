"""Verdicts and alerts as lines for a terminal of 80 columns."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from ml_metrics.cli.table import WIDTH, printable
from ml_metrics.model import Outcome, Severity

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ml_metrics.judge import Alert
    from ml_metrics.model import Verdict


def verdict_lines(verdicts: Sequence[Verdict]) -> Iterator[str]:
    """Yield two or more lines for each verdict: the numbers, then the rule and the reason."""
    if not verdicts:
        yield "No condition covers any metric of this run: nothing was judged."
    for verdict in verdicts:
        severity = " (warn)" if verdict.severity is Severity.WARN and verdict.outcome is not Outcome.PASS else ""
        value = "-" if verdict.value is None else f"{verdict.value:.6g}"
        bounds = "" if verdict.bounds is None else f"  bounds {verdict.bounds}"
        yield f"{verdict.outcome.replace('_', ' ') + severity:<18} {printable(verdict.metric)}"
        yield from _indented(f"value {value}{bounds}")
        why = "; ".join(part for part in (verdict.rule, verdict.reason) if part)
        yield from _indented(f"{why} [{verdict.baseline_points} runs]" if verdict.baseline_points else why)


def alert_lines(alerts: Iterable[Alert], indent: str = "") -> Iterator[str]:
    """Yield the messages of the alerts, wrapped."""
    for alert in alerts:
        message = printable(f"{alert.message} ({alert.reason})" if alert.reason else alert.message)
        yield from textwrap.wrap(
            f"alert: {message}",
            WIDTH,
            initial_indent=indent,
            subsequent_indent=f"{indent}  ",
            break_long_words=False,
            break_on_hyphens=False,
        )


def _indented(text: str) -> list[str]:
    indent = " " * 4
    return textwrap.wrap(
        printable(text), WIDTH, initial_indent=indent, subsequent_indent=indent, break_long_words=False
    )
