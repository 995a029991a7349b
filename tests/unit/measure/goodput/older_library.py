"""ml-goodput-measurement itself, reading entries from memory in place of Cloud Logging."""

from __future__ import annotations

import datetime as dt
import tempfile
from dataclasses import dataclass
from typing import Any
from unittest import mock

from ml_goodput_measurement.src import goodput as older

Moment = dt.datetime


class MemoryLogger:
    """A replacement for the cloud logger of the older library's recorder and calculator."""

    def __init__(self, entries: list[dict[str, Any]] | None = None) -> None:
        self.entries = entries if entries is not None else []

    def write_cloud_logging_entry(self, entry: dict[str, Any]) -> None:
        self.entries.append(entry)

    def flush(self) -> None:
        pass

    def read_cloud_logging_entries(
        self, start_time: Moment | None = None, end_time: Moment | None = None, last_entry_info: Any = None
    ) -> tuple[list[dict[str, Any]], tuple[Moment, str]]:
        del last_entry_info
        found = self.entries
        if start_time is not None and end_time is not None:
            moments = [(older.get_timestamp_from_log_entry(one), one) for one in found]
            found = [one for moment, one in moments if moment is not None and start_time < moment <= end_time]
        return found, (dt.datetime.now(dt.UTC), "last")


@dataclass(frozen=True)
class OlderFigures:
    """The older library's figures of a log, in seconds."""

    goodput: float
    productive: float
    total: float
    badput: dict[str, float]
    custom: dict[str, float]
    max_step: int
    disruptions: int
    percent: dict[str, Any]


def figures_of(entries: list[dict[str, Any]], now: float) -> OlderFigures:
    """Return all figures of a job. Raises ValueError if the older library does."""
    with calculator(entries, now) as one:
        goodput, percent, max_step = one.get_job_goodput(include_badput_breakdown=True)
        details = one.get_job_goodput_details()
    badput = {kind.name.lower(): value for kind, value in details["badput_time"].items()}
    custom = badput.pop("custom_badput_events", {})
    return OlderFigures(
        goodput,
        details["goodput_time"][older.GoodputType.TOTAL],
        details["total_elapsed_time"],
        badput,
        custom,
        max_step,
        details["disruption_count"],
        {kind.name.lower(): value for kind, value in percent.items()},
    )


class calculator:  # noqa: N801  (used as a function)
    """The older calculator for entries in memory, at a fixed time, with its own cache."""

    def __init__(self, entries: list[dict[str, Any]], now: float) -> None:
        self.entries, self.now = entries, now

    def __enter__(self) -> older.GoodputCalculator:
        self.folder = tempfile.TemporaryDirectory()
        clock = mock.Mock(wraps=dt.datetime)
        clock.now.side_effect = lambda zone=None: dt.datetime.fromtimestamp(self.now, zone)
        self.patch = mock.patch.object(older.datetime, "datetime", clock)
        one = older.GoodputCalculator("job", "log", MemoryLogger(self.entries), cache_dir=self.folder.name)
        self.patch.__enter__()
        return one

    def __exit__(self, *error: object) -> None:
        self.patch.__exit__(None, None, None)
        self.folder.cleanup()
