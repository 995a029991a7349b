"""A page before it has a format: the same content becomes HTML, JSON or CSV."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from ml_metrics.alerts import short_name, templates_of
from ml_metrics.core.errors import MlMetricsError
from ml_metrics.core.model import StoredMetric
from ml_metrics.core.text import counted, logger_of
from ml_metrics.core.units import change, duration, exact, interval, readable
from ml_metrics.core.values import short_digests
from ml_metrics.store.run_folder import without_non_finite
from ml_metrics.ui.dashboard.links import Links
from ml_metrics.warehouse import KnownState, QuarantineRow, SendersState, TestStatus, Warehouse

if TYPE_CHECKING:
    from jinja2 import Environment


UNSEEN = r"[\s\"\x00-\x1f\x7f-\x9f\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]{0,20}"
SIGNS = "=+\\-@\uff1d\uff0b\uff0d\uff20\ufe66\ufe62\ufe63\ufe6b"
"""What begins a formula, also in full width and in small forms."""
FORMULA = re.compile(rf"^(?=[\t\r\n])|(?:^|(?<=[;\t\r\n]))(?={UNSEEN}[{SIGNS}])")
"""Where a spreadsheet may find a formula: at the start of a cell, also after spaces and characters that are not shown,
and after what separates cells in other countries."""


def as_csv(rows: Iterable[Sequence[Any]]) -> str:
    """Safe to open in a spreadsheet."""
    out = io.StringIO()
    csv.writer(out).writerows(map(_cell, row) for row in rows)
    return out.getvalue()


def _cell(value: Any) -> Any:
    if isinstance(value, str):
        return FORMULA.sub("'", value)
    return value.isoformat() if isinstance(value, datetime) else value


class Columns:
    """`run=run_key test at=timestamp`: the names of columns, each with its attribute where that has another name."""

    def __init__(self, names: str) -> None:
        pairs = [name.split("=") for name in names.split()]
        self.names = tuple(pair[0] for pair in pairs)
        self.values: Callable[[object], tuple[Any, ...]] = attrgetter(*(pair[-1] for pair in pairs))

    def table(self, things: Iterable[object]) -> Iterator[Sequence[Any]]:
        """The names, then a row for each thing."""
        yield self.names
        yield from map(self.values, things)

    def documents(self, things: Iterable[object]) -> list[dict[str, Any]]:
        return list(map(self.document, things))

    def document(self, thing: object | None) -> dict[str, Any]:
        """Of nothing, each value is None."""
        return dict(zip(self.names, self.values(thing), strict=True)) if thing else dict.fromkeys(self.names)


def as_json(content: Any, **options: Any) -> str:
    """NaN and infinities become null.

    Replacing them takes longer than writing the document and is rarely needed, so it is tried without first.
    """
    try:
        return json.dumps(content, allow_nan=False, default=_as_text, **options)
    except ValueError:
        return json.dumps(without_non_finite(content), allow_nan=False, default=_as_text, **options)


def as_script_json(content: Any) -> str:
    """For a `script` element, which no `<` in a name can end early."""
    text = as_json(content, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _as_text(value: Any) -> str:
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def number_text(value: float | None, unit: str = "") -> str:
    """`3.09 GB`, `12 min`, `1,234,567`; `-` for None."""
    return exact([value], unit)[0]


def interval_text(ends: tuple[float, float] | None) -> str:
    """Where a change in percent is: `+2.9 to +3.4 %`; `-` for None."""
    return f"{change(ends[0]).removesuffix(' %')} to {change(ends[1])}" if ends else "-"


def age_text(seconds: float) -> str:
    """`3 h`: how long ago something was, where a glance must do."""
    return " ".join(duration(seconds).split()[:2])


def value_text(metric: StoredMetric) -> str:
    return number_text(metric.value, metric.unit)


def bounds_text(metric: StoredMetric) -> str:
    """`-` if there are none."""
    return interval(metric.lower, metric.upper, metric.unit, exact, inclusive=metric.inclusive)


def halves(name: str) -> tuple[str, str]:
    """A name in two parts: the first is cut where there is no room, the second begins with a word if possible."""
    words = (length for length in range(4, min(13, len(name))) if name[-length] in "-_/. ")
    length = min(words, key=lambda length: abs(length - 10), default=10)
    return name[:-length], name[-length:]


def shown_of(metric: StoredMetric, **more: str) -> dict[str, str]:
    """What a page shows of a metric, for the documents that have its numbers."""
    verdict = metric.verdict_text.replace("_", " ")
    return {"value": value_text(metric), "bounds": bounds_text(metric), **more, "verdict": verdict}


@dataclass(frozen=True, slots=True)
class Page:
    """The content of a page. Nothing in it is escaped yet."""

    template: str
    variables: dict[str, Any]
    document: Callable[[], Any]
    table: Callable[[], Iterable[Sequence[Any]]]
    """Returns the content as rows, the first of them the header."""

    def html(self, links: Links, **more: Any) -> Iterator[str]:
        stream = templates().get_template(self.template).stream(**self.variables, links=links, **more)
        stream.enable_buffering(200)  # pieces of the template are sent together
        return stream


class NotFoundError(LookupError):
    """There is no such page, test or run."""


@cache
def templates() -> Environment:
    environment = templates_of("ml_metrics.ui.dashboard")
    environment.filters.update(number=number_text, duration=duration, value=value_text, bounds=bounds_text)
    environment.filters.update(age=age_text, change=change, interval=interval_text, short=short_digests)
    environment.filters.update(headline=lambda value: readable([value])[0], halves=halves)
    return environment


OTHER = re.compile(r" of test (?P<test>.*?)(?= of deployment |, or off by less than |$)", re.DOTALL)
"""The test that a condition compares with, in its text."""
FOLDERS = re.compile(r"(?<![\w/.:-])/(?:[^\s/'\"`:,;()]+/)+")


def without_unreadable(
    rows: Sequence[StoredMetric], readable: Callable[[Iterable[str]], frozenset[str]]
) -> tuple[list[StoredMetric], set[str]]:
    """Metrics without bounds and baselines that are from tests which the reader may not see, and their names.

    A test's DAG is named like the test.
    """
    others = {row.rule: match["test"] for row in rows if row.rule and (match := OTHER.search(row.rule))}
    if not others:
        return list(rows), set()
    seen = readable(set(others.values()))
    hidden = {rule for rule, test in others.items() if test not in seen}
    nothing: dict[str, Any] = dict.fromkeys(("lower", "upper", "reference", "spread", "baseline_points"))
    return (
        [replace(row, **nothing) if row.rule in hidden else row for row in rows],
        {row.metric for row in rows if row.rule in hidden},
    )


def without_folders(text: str) -> str:
    """Of absolute paths, only the last names stay: the folders are none of a reader's business."""
    return FOLDERS.sub("…/", text)


@dataclass(frozen=True, slots=True)
class Reader:
    """Who requests a page, when, and how its links are written."""

    now: datetime
    links: Links
    readable: Callable[[Iterable[str]], frozenset[str]] = frozenset
    """Returns those of some DAGs that the reader may read; all of them for a report's reader."""

    def shown(self, rows: Sequence[StoredMetric]) -> list[StoredMetric]:
        """Without the bounds that are from tests which the reader may not see."""
        return without_unreadable(rows, self.readable)[0]

    def held(self, warehouse: Warehouse) -> dict[str, QuarantineRow]:
        return {test: one for test, one in warehouse.quarantines.newest().items() if one.holds(self.now)}

    def tests(self, warehouse: Warehouse) -> dict[str, TestStatus]:
        """Those that the reader may read."""
        statuses = warehouse.runs.tests()
        dags = self.readable({one.newest.dag_id for one in statuses})
        return {one.newest.test: one for one in statuses if one.newest.dag_id in dags}


log = logger_of(__name__)


def banners_of(warehouse: Warehouse, now: datetime) -> list[str]:
    """The problems with sending messages, since when, and what to do. It takes one query."""
    try:
        state = warehouse.senders.state(now)
    except MlMetricsError as error:
        log.warning("it is unknown whether messages are sent: %s", error)
        return ["It is unknown whether messages are sent; the log of the API server has the reason."]
    return problems_of_senders(state, now)


def problems_of_senders(state: SendersState, now: datetime) -> list[str]:
    problems, since = [], state.silent_since(now)
    if since is not None:
        pending = f"{counted(state.pending, 'message')} {'is' if state.pending == 1 else 'are'} pending"
        problems.append(
            f"No sender of messages has run since {since:%Y-%m-%d %H:%M} UTC, and {pending}. Unpause the DAG "
            "ml_messages and check that Airflow's scheduler runs; `ml-metrics messages --send` sends at once."
        )
    if state.dead:
        problems.append(
            f"{counted(state.dead, 'message')} of the last 7 days could not be sent on every channel within five days. "
            "`ml-metrics messages` shows the reasons; the texts are in the outbox folder."
        )
    return problems


def problems_by_test(known: KnownState) -> dict[str, dict[str, str]]:
    """What the last pass found: the sentences about each test that does not run, by problem."""
    return {name: test.problems for name, test in sorted(known.tests.items()) if test.problems}


def not_running(problems: Mapping[str, Iterable[str]]) -> list[str]:
    """A line for each problem, the most frequent first, with some of the tests that have it."""
    tests: dict[str, list[str]] = {}
    for test, own in problems.items():
        for name in own:
            tests.setdefault(name, []).append(test)
    lines = []
    for name, found in sorted(tests.items(), key=lambda each: -len(each[1])):
        more = f" and {len(found) - 3} more" if len(found) > 3 else ""
        verb, named = "does" if len(found) == 1 else "do", ", ".join(found[:3])
        lines.append(f"{counted(len(found), 'test')} {verb} not run as defined, {short_name(name)}: {named}{more}")
    return lines
