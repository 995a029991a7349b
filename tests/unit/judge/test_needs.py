from __future__ import annotations

from datetime import UTC, datetime

from ml_metrics.judge import history_needs
from unit.judge.cases import condition, config


def test_a_fixed_rule_needs_no_baseline() -> None:
    needs = history_needs(config({"loss": condition({"fixed_value": 1}, "less")}), "a")
    assert (needs.tests, needs.window, needs.earliest) == (("a",), 0, None)
    assert needs.recent > 0


def test_the_needs_of_all_conditions_fit_one_query() -> None:
    since = {"since": "2026-03-01"}
    rules = {
        "loss": condition({"stddevs_from_mean": 4}, "less", window=20, **since),
        "acc": condition({"percent_difference": 4}, "greater", window=300, since="2026-02-01", compare_to="nightly"),
    }
    needs = history_needs(config(rules), "a")
    assert (needs.tests, needs.window, needs.recent) == (("a", "nightly"), 300, 300)
    assert needs.earliest == datetime(2026, 2, 1, tzinfo=UTC)
    assert history_needs(config({**rules, "x": condition({"percent_difference": 4}, "less")}), "a").earliest is None
