"""The facts and parameters of a run."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ml_metrics import TestDefinition
from ml_metrics.config.accelerators import catalogue
from ml_metrics.core.model import JobStatus, Workload
from ml_metrics.measure import Environment

START = datetime(2026, 1, 1, tzinfo=UTC)


def environment(accelerator: Any = "cpu", given_params: dict[str, Any] | None = None, **keys: Any) -> Environment:
    test = TestDefinition.model_validate(
        {"name": "t", "image": "i", "command": ["c"], "accelerator": accelerator, **keys}
    )
    return Environment.of(test, given_params or {})


@pytest.mark.parametrize(
    ("accelerator", "keys", "chips", "hosts", "peak"),
    [
        ("cpu", {}, 1, 1, None),
        ("cpu", {"hosts": 3}, 3, 3, None),
        ("h100x8", {}, 8, 1, 989e12),
        ("h100x8", {"hosts": 4}, 32, 4, 989e12),
        ("t4", {}, 1, 1, None),
        ("v5litepod-16", {}, 16, 4, 197e12),
        ("v4-8", {}, 4, 1, 275e12),
        ({"tpu": {"version": "v5p", "topology": "4x4x8"}}, {}, 128, 32, 459e12),
        ("tpu7x-8", {}, 4, 1, 2307e12),
        ("v2-8", {}, 4, 1, None),
    ],
)
def test_facts_of_accelerators(accelerator: Any, keys: dict[str, Any], chips: int, hosts: int, peak: Any) -> None:
    found = environment(accelerator, **keys)
    assert (found.fact("chips", None), found.fact("hosts", None)) == (chips, hosts)
    told = found.fact("peak_flops", None)
    assert told == peak or (peak is None and "is unknown for" in str(told))


def test_every_accelerator_has_chips_and_hosts() -> None:
    for name in catalogue():
        found = environment(name)
        assert isinstance(found.fact("chips", None), float)
        assert isinstance(found.fact("hosts", None), float)


def test_the_duration_is_that_of_the_container() -> None:
    workload = Workload(JobStatus.SUCCESS, started_at=START, ended_at=START + timedelta(seconds=90))
    assert environment().fact("duration", workload) == 90
    assert environment().fact("duration", None) == "there is no record of how long the workload ran"


def test_slices() -> None:
    assert environment("v5litepod-16").fact("slices", None) == 1
    assert environment("h100").fact("slices", None) == "h100 is no TPU: it has no slices"


def test_without_a_test_nothing_is_known() -> None:
    assert "nothing states which accelerator" in str(Environment().fact("chips", None))


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (64, 64.0),
        (0.5, 0.5),
        ("64", "the parameter 'batch' is \"64\", which is not a number"),
        (True, "the parameter 'batch' is true, which is not a number"),
        (None, "the parameter 'batch' is null, which is not a number"),
        (float("nan"), "the parameter 'batch' is NaN, which is not a number"),
    ],
)
def test_parameters(value: Any, found: float | str) -> None:
    params = {"batch": {"default": 16}}
    assert environment(params=params).param("batch") == 16
    assert environment(params=params, given_params={"batch": value}).param("batch") == found
    assert environment(params=params).param("bach") == "the run has no parameter 'bach'; did you mean 'batch'?"
