"""The name, the hosts and the serialisation of a test."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from pydantic import ValidationError

from ml_metrics import TestDefinition
from ml_metrics.config.definition import Quarantine
from ml_metrics.config.params import addresses_in


def definition(**fields: Any) -> TestDefinition:
    return TestDefinition.model_validate(
        {"framework": "tf", "model": "mnist", "mode": "func", "image": "i", "command": ["c"], **fields}
    )


def test_the_name_is_made_of_four_parts() -> None:
    assert definition(accelerator="v5e-16").name == "tf-mnist-func-v5litepod-16"
    assert definition(name="mine").name == "mine"


def test_a_name_of_46_characters_is_long_enough() -> None:
    assert definition(name="a" * 46).name == "a" * 46
    with pytest.raises(ValidationError, match="at most 46"):
        definition(name="a" * 47)


def test_the_number_of_hosts_comes_from_the_slice() -> None:
    assert definition(accelerator="v5litepod-16").hosts == 4
    assert definition(accelerator="h100x8", hosts=2).hosts == 2
    assert definition().hosts == 1


def test_numbers_in_commands_and_variables_become_text() -> None:
    test = definition(command=["sleep", 5], args=[0.5], env={"ON": True, "N": 3})
    assert (test.command, test.args, test.env) == (("sleep", "5"), ("0.5",), {"ON": "true", "N": "3"})


def test_a_dumped_test_validates_to_the_same_test() -> None:
    test = definition(
        accelerator={"tpu": {"version": "v5p", "topology": "4x4x12"}},
        timeout="90m",
        params={"epochs": {"default": 3, "type": "integer", "minimum": 1}, "name": "x"},
        secrets={"A": "s/k"},
        volumes={"/data": {"claim": "c"}},
        goodput={"ideal_step_time": "250ms", "rolling_windows": ["1h"]},
        quarantine={"until": dt.date(2030, 1, 1), "reason": "r"},
        resources={"cpu": 2},
        regression_test_config={
            "metric_success_conditions": {
                "a": {
                    "comparison": "less",
                    "success_threshold": {"stddevs_from_mean": 3},
                    "time_window": "7d",
                    "since": dt.datetime(2020, 1, 1, tzinfo=dt.UTC),
                }
            }
        },
    )
    assert TestDefinition.model_validate(test.model_dump(mode="json", exclude_unset=True)) == test
    assert TestDefinition.model_validate_json(test.model_dump_json()) == test


def test_a_quarantine_ends_by_itself_after_its_last_day() -> None:
    quarantine = Quarantine(until=dt.date(2026, 5, 31), reason="flaky")
    assert quarantine.holds(dt.datetime(2026, 5, 31, 23, 59, tzinfo=dt.UTC))
    assert not quarantine.holds(dt.datetime(2026, 6, 1, 0, 0, tzinfo=dt.UTC))
    assert quarantine.holds(dt.datetime(2026, 6, 1, 1, 0, tzinfo=dt.timezone(dt.timedelta(hours=2))))


@pytest.mark.parametrize("key", ["metric_config", "extends"])
def test_references_to_files_are_rejected_in_python(key: str) -> None:
    with pytest.raises(ValidationError, match="works in test files only"):
        definition(**{key: "vision.json"})


@pytest.mark.parametrize("text", ["{{ params.epochs }}", "{% if params.epochs %}x{% endif %}", "{{ ds }}", "params.x"])
def test_other_templates_of_airflow_are_kept(text: str) -> None:
    assert definition(command=[text], params={"epochs": 1}).command == (text,)


@pytest.mark.parametrize(
    "address",
    ["x<root>@example.com", '"a"<root>@example.com', "root(@example.com", "root,x@example.com", "root;x@example.com",
     "g:x@example.com", "a\0b@example.com", "a\\b@example.com", "=?utf-8?q?a=3E?=@example.com", "a @example.com",
     "@example.com", "a@", "a@b@c"],
)  # fmt: skip
def test_an_address_is_what_every_mail_program_reads_as_one(address: str) -> None:
    """Others are sent to somebody whom no policy has seen: `x<root>@example.com` to `root`."""
    with pytest.raises(ValidationError, match="is not a mail address"):
        TestDefinition(name="t", image="i", command=("c",), emails=(address,))
    with pytest.raises(ValidationError, match="is not a mail address"):
        TestDefinition(name="t", image="i", command=("c",), sender=address)
    assert address not in addresses_in(address)


@pytest.mark.parametrize("name", ["..", "a/../kube-system", " kube-system", "KUBE-SYSTEM", "a" * 64, "a\n", "-a"])
def test_a_namespace_is_a_name_of_kubernetes(name: str) -> None:
    with pytest.raises(ValidationError, match="is not the name of a namespace"):
        TestDefinition(name="t", image="i", command=("c",), namespace=name)
