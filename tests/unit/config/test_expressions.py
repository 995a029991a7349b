"""`expressions` in a config: their order, their names, and their units."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from ml_metrics.config.collection import MetricCollectionConfig, in_order, known_about


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
