"""How tags are aggregated: lists and mappings of strategies, and windows."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from ml_metrics import TestDefinition
from ml_metrics.config.collection import MetricCollectionConfig, Steps, Strategy
from ml_metrics.core.kinds import without_strategy
from ml_metrics.measure.aggregation import aggregation_of

CONFIG = {
    "default_aggregation_strategies": ["final", "last_n_mean"],
    "metric_to_aggregation_strategy": {
        "loss": ["min"],
        "lo*": {"strategies": ["p95", "p95"], "steps": {"from": 3}, "warmup": "none"},
        "*": {"last_n": 3},
    },
}


def test_the_most_particular_entry_counts_as_a_whole() -> None:
    config = MetricCollectionConfig.model_validate(CONFIG)
    assert aggregation_of("loss", config).strategies == (Strategy.MIN,)
    assert aggregation_of("loss", config).steps is None
    lo = aggregation_of("lottery", config)
    assert (lo.strategies, lo.steps, lo.warmup) == ((Strategy.P95,), Steps(from_step=3), "none")
    other = aggregation_of("x", config)
    assert (other.strategies, other.last_n) == ((Strategy.FINAL, Strategy.LAST_N_MEAN), 3)


def test_a_test_is_read_again_as_it_was_recorded() -> None:
    expressions = {"a": "b / 2", "c": {"expression": "param('p')", "unit": "s", "better": "lower"}}
    collection = {
        **CONFIG,
        "steps": {"skip_first": 2, "from": 3, "to": 9},
        "warmup": "auto",
        "expressions": expressions,
    }
    test = TestDefinition.model_validate(
        {"name": "t", "image": "i", "command": ["c"], "params": {"p": 1}, "metric_collection_config": collection}
    )
    recorded = test.model_dump(mode="json", exclude_unset=True)
    assert TestDefinition.model_validate(recorded).metric_collection_config == test.metric_collection_config


@pytest.mark.parametrize("value", [True, -1, 1.5, "1", None])
@pytest.mark.parametrize("key", ["skip_first", "from", "to"])
def test_steps_are_whole_numbers(key: str, value: object) -> None:
    if value is None and key != "skip_first":
        return  # no limit
    with pytest.raises(ValidationError):
        Steps.model_validate({key: value})


def test_the_name_of_a_metric_ends_with_any_strategy() -> None:
    assert {without_strategy(f"tag_{strategy}") for strategy in Strategy} == {"tag"}
