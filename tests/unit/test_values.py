"""Names as they are stored: the same for everybody, and each a storable name itself."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ml_metrics.config.baseline import Baseline
from ml_metrics.config.regression import RegressionTestConfig
from ml_metrics.values import (
    MAX_NAME_BYTES,
    MAX_TAG_BYTES,
    by_storable_name,
    short_hash,
    storable_name,
    storable_text,
)

ANY_TEXT = st.text(st.characters(exclude_categories=())) | st.text(max_size=8).map(lambda text: text * 400)


@given(ANY_TEXT, st.sampled_from([60, MAX_TAG_BYTES, MAX_NAME_BYTES]))
def test_a_name_is_storable_after_one_step(name: str, most: int) -> None:
    stored = storable_name(name, most)
    assert stored
    assert stored.isprintable()
    assert len(stored.encode()) <= most
    assert storable_name(stored, most) == stored == storable_text(stored)
    if name and name.isprintable() and len(name.encode()) <= most:
        assert stored == name, "an ordinary name stays as it is"


@given(ANY_TEXT)
def test_a_tag_with_the_name_of_a_strategy_is_a_name(tag: str) -> None:
    metric = f"{storable_name(tag, MAX_TAG_BYTES)}_last_n_mean"
    assert storable_name(metric) == metric


@given(st.text(max_size=20), st.text(max_size=20))
def test_long_names_that_differ_anywhere_stay_different(one: str, other: str) -> None:
    names = ["x" * 2_000 + one, "x" * 2_000 + other]
    assert len({storable_name(f"{name}{'y' * 2_000}") for name in names}) == len(set(names))


@given(st.lists(ANY_TEXT, max_size=6))
def test_the_first_of_one_name_counts_and_the_name_is_reported(names: list[str]) -> None:
    found, merged = by_storable_name((name, number) for number, name in enumerate(names))
    stored = [storable_name(name) for name in names]
    assert found == {name: stored.index(name) for name in stored}
    assert sorted(merged) == sorted({name for name in stored if stored.count(name) > 1})


@given(st.text(st.characters(exclude_categories=())))
def test_every_text_has_a_hash_and_is_storable(text: str) -> None:
    assert len(short_hash(text)) == 16
    assert "\x00" not in storable_text(text)
    storable_text(text).encode()


@pytest.mark.parametrize("name", ["loss\u00a0a_final", "x" * 5_000, "\x00"])
def test_a_condition_judges_the_metric_that_it_names(name: str) -> None:
    config = RegressionTestConfig.model_validate(
        {"metric_success_conditions": {name: {"comparison": "less", "success_threshold": {"fixed_value": 1}}}}
    )
    assert config.condition_for(storable_name(name)) is not None
    assert Baseline(same=(f"param.{name}",)).same == (storable_name(f"param.{name}"),)
