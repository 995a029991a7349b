"""A simulated year of nightly runs: planted regressions alert, with few false alerts."""

from __future__ import annotations

from typing import Any

import pytest

from ml_metrics.judge import replay
from unit.judge.cases import TEST, condition, config, history
from unit.judge.simulated_year import AFTERMATH, Year, years

WAIT = {"wait_for_n_points_of_history": 10}
MADS = condition({"mads_from_median": 5}, "less", min_change={"percent": 3}, **WAIT)
BEST = condition({"percent_difference": 5}, "less", against="best", **WAIT)
DEVIATIONS = condition({"stddevs_from_mean": 4}, "less", **WAIT)
YEARS = [year for year in years() if year.name.endswith(" 0")]


def alerts(year: Year, rule: dict[str, Any]) -> set[int]:
    runs = replay(config({"default": rule}), history(year.values, outcome=None), test=TEST).runs
    return {number for number, run in enumerate(runs) if run.judgement.alerts}


@pytest.mark.parametrize("rule", [MADS, BEST], ids=["mads", "best"])
@pytest.mark.parametrize("year", YEARS, ids=[year.name for year in YEARS])
def test_every_planted_regression_alerts_while_it_lasts(year: Year, rule: dict[str, Any]) -> None:
    alerted = alerts(year, rule)
    assert [each for each in year.regressions if not alerted & set(range(each.first, each.end))] == []
    regressed = {run for each in year.regressions for run in range(each.first, each.end + AFTERMATH)}
    assert len(alerted - regressed) * 1_000 / len(year.values) < 30


@pytest.mark.parametrize("rule", [MADS, BEST, DEVIATIONS], ids=["mads", "best", "sd"])
def test_a_constant_metric_never_alerts(rule: dict[str, Any]) -> None:
    constant = years()[-1]
    assert len(set(constant.values)) == 1
    assert alerts(constant, rule) == set()
