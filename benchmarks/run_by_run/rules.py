"""The rules that are compared. Each returns, for each series, which runs fail; higher values are worse.

Each answer depends on the values up to its run only.
"""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from ml_metrics.config.conditions import RegressionTestConfig
from ml_metrics.core.model import JobStatus, Outcome, StoredMetric
from ml_metrics.judge import replay
from older_rule import older_alerts

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from run_by_run.noise import Values
    from run_by_run.stories import Flags

START = datetime(2026, 1, 1, tzinfo=UTC)
TOGETHER = 100
"""How many metrics are judged in one replay."""
OTAVA_PYTHON = Path(os.environ.get("OTAVA_PYTHON", Path(__file__).parents[2] / ".venv-otava/bin/python"))
"""An interpreter with apache-otava, which needs older versions of pinned packages."""
SERVE_OTAVA = Path(__file__).parent / "serve_otava.py"
PERFHERDER = {"runs": 12, "t": 7.0, "percent": 2.0}


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule, and how it fails runs."""

    name: str
    fails: Callable[[Sequence[Values]], list[Flags]]


def rules() -> list[Rule]:
    """Return the rules that can run here."""
    wait = {"wait_for_n_points_of_history": 10}
    mads = {"success_threshold": {"mads_from_median": 5.0}, "min_change": {"percent": 3.0}, **wait}
    best = {"success_threshold": {"percent_difference": 5.0}, "against": "best", **wait}
    found = [
        Rule("`change_point: {}`", one_by_one(fails_by_levels)),
        Rule("`stddevs_from_mean: 4`, wait 10", replayed({"success_threshold": {"stddevs_from_mean": 4.0}, **wait})),
        Rule("`mads_from_median: 5`, `min_change: {percent: 3}`", replayed(mads)),
        Rule("`percent_difference: 5`, `against: best`", replayed(best)),
        Rule("the older handler, 4 sd, wait 10", one_by_one(fails_by_older_handler)),
        Rule("12 runs against 12, t > 7, 2 % (as Perfherder)", one_by_one(fails_by_t_test)),
    ]
    if OTAVA_PYTHON.exists():
        found.append(Rule("apache-otava 0.8, at least 5 %", fails_by_otava(min_magnitude=0.05)))
    return found


def fails_by_levels(values: Values) -> Flags:
    """Judge by `change_point`."""
    from ml_metrics.judge.level import LevelRule, follow

    return np.asarray(follow(values, LevelRule(worse=1)).failing, dtype=np.bool_)


def fails_by_older_handler(values: Values) -> Flags:
    """Judge by mean and deviation, with the run itself among the values."""
    failing = np.zeros(len(values), dtype=np.bool_)
    failing[older_alerts(values.tolist(), stddevs=4.0, wait=10, second=False)] = True
    return failing


def fails_by_t_test(values: Values) -> Flags:
    """Fail while the newest 12 values are significantly and noticeably worse than the 12 before them."""
    runs = int(PERFHERDER["runs"])
    failing = np.zeros(len(values), dtype=np.bool_)
    if len(values) < 2 * runs:
        return failing
    windows = sliding_window_view(values, runs)
    means, variances = windows.mean(axis=1), windows.var(axis=1, ddof=1)
    shift = means[runs:] - means[:-runs]
    error = np.sqrt((variances[runs:] + variances[:-runs]) / runs)
    large = shift > np.abs(means[:-runs]) * PERFHERDER["percent"] / 100
    failing[2 * runs - 1 :] = (shift > PERFHERDER["t"] * error) & large
    return failing


def one_by_one(fails: Callable[[Values], Flags]) -> Callable[[Sequence[Values]], list[Flags]]:
    """Judge each series by itself."""
    return lambda many: [fails(values) for values in many]


def replayed(condition: dict[str, Any]) -> Callable[[Sequence[Values]], list[Flags]]:
    """Judge by a condition of a test file, in the judge that tests use."""
    conditions = {"default": {"comparison": "less", **condition}}
    config = RegressionTestConfig.model_validate({"metric_success_conditions": conditions})

    def fails(many: Sequence[Values]) -> list[Flags]:
        parts = (many[first : first + TOGETHER] for first in range(0, len(many), TOGETHER))
        return [flags for part in parts for flags in _replay(config, part)]

    return fails


def _replay(config: RegressionTestConfig, many: Sequence[Values]) -> list[Flags]:
    """Replay one test with a metric for each series. All end with the same run, so that none is missing at the end."""
    length = max(map(len, many))
    rows = [
        StoredMetric(f"{run:05}", START + timedelta(days=run), f"{number}", float(value), JobStatus.SUCCESS, None)
        for number, values in enumerate(many)
        for run, value in enumerate(values, start=length - len(values))
    ]
    failing = [np.zeros(length, dtype=np.bool_) for _ in many]
    for run, replayed_run in enumerate(replay(config, rows).runs):
        for verdict in replayed_run.judgement.verdicts:
            failing[int(verdict.metric)][run] = verdict.outcome is Outcome.FAIL
    return [flags[length - len(values) :] for flags, values in zip(failing, many, strict=True)]


def fails_by_otava(**options: float) -> Callable[[Sequence[Values]], list[Flags]]:
    """Fail in each run in which apache-otava reports a change for the worse that it did not report before."""

    def fails(many: Sequence[Values]) -> list[Flags]:
        request = json.dumps({"options": options, "series": [values.tolist() for values in many]})
        answer = subprocess.run([OTAVA_PYTHON, SERVE_OTAVA], input=request, capture_output=True, text=True, check=True)
        return [np.asarray(flags, dtype=np.bool_) for flags in json.loads(answer.stdout)]

    return fails
