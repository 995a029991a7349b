"""How tags are aggregated: lists and mappings of strategies, and windows."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from ml_metrics import TestDefinition
from ml_metrics.config.collection import MetricCollectionConfig, Steps, Strategy, in_order, known_about
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


def config(**expressions: object) -> MetricCollectionConfig:
    return MetricCollectionConfig.model_validate({"expressions": expressions})


def test_an_expression_comes_after_those_it_needs() -> None:
    found = config(a="b + c", b="metric('c_p95') / 2", c="tag('a') * 3").computed
    assert in_order(found) == ("c", "b", "a")


def test_a_long_chain_is_put_in_order() -> None:
    chain = {f"e{index}": f"e{index + 1} + 1" for index in range(3000)}
    assert len(in_order(config(**chain, e3000="1").computed)) == 3001


@pytest.mark.parametrize("name", ["chips", "peak_flops", "duration", "a\nb", "", "x" * 201, "goodput"])
def test_a_name_that_cannot_be_used(name: str) -> None:
    with pytest.raises(ValidationError):
        config(**{name: "1"})


def test_the_unit_of_an_expression_is_that_of_its_metrics() -> None:
    known = config(rate={"expression": "a / b", "unit": "tokens/s", "better": "higher"}).facts
    for name in ("rate", "rate_median"):
        assert (known_about(name, known).unit, known_about(name, known).better) == ("tokens/s", "higher")
    assert (known_about("rate_count", known).unit, known_about("rate_count", known).better) == ("", "")
    assert (known_about("rate_std", known).unit, known_about("rate_std", known).better) == ("tokens/s", "")


def test_a_literal_cannot_have_the_name_of_an_expression() -> None:
    with pytest.raises(ValidationError, match="is also computed by `expressions`"):
        MetricCollectionConfig.model_validate({"expressions": {"a": "1"}, "sources": {"literals": {"a": "duration"}}})


@pytest.mark.parametrize("text", ["goodput / 2", "metric('badput_idle_seconds')", "1 - metric('goodput')"])
def test_what_is_measured_later_is_refused(text: str) -> None:
    with pytest.raises(ValidationError, match="is measured after expressions are computed"):
        config(a=text)


def test_names_that_only_look_like_goodput_are_accepted() -> None:
    assert config(a="tag('goodput') / 2", b="metric('step_time_p90') * 2").computed
