from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest

from ml_metrics.core.errors import UnreadableInputError
from ml_metrics.measure.efficiency import read_billing

KEY = "60dd2839-3783-5d12-9fe2-c70c3d0218e9"


def row(cost: Any, key: str | None = KEY, label: str = "k8s-label/ml-metrics/run-key", **more: Any) -> dict[str, Any]:
    labels = [{"key": "k8s-namespace", "value": "tests"}, *([{"key": label, "value": key}] if key else [])]
    return {
        "cost": cost, "currency": "USD", "credits": [], "labels": labels,
        "usage_start_time": "2026-11-18T10:00:00Z",
        "usage_end_time": "2026-11-18T11:00:00Z", "location": {"region": "us-central1"},
        "sku": {"id": "A", "description": "TPU"}, **more,
    }  # fmt: skip


ROWS = [
    row(10.105), row("2.005"), row(1.5, credits=[{"name": "CUD", "amount": -0.5}, {"amount": "-0.11"}]),
    row(7, label="ml-metrics/run-key", key="other"), row(3.25, key=None), row(2, key=None, currency="EUR"),
]  # fmt: skip


def as_csv(rows: list[dict[str, Any]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]))
    writer.writeheader()
    writer.writerows(
        {name: json.dumps(value) if isinstance(value, list | dict) else value for name, value in each.items()}
        for each in rows
    )
    return text.getvalue()


@pytest.mark.parametrize("text", [json.dumps(ROWS), "\n".join(map(json.dumps, ROWS)) + "\n", as_csv(ROWS)])
def test_rows_are_attributed_by_the_labels_of_pods_and_credits_are_deducted(text: str) -> None:
    found = read_billing(text, "export")
    assert found.runs == {KEY: {"USD": 1300}, "other": {"USD": 700}}
    assert found.others == {"USD": 325, "EUR": 200}
    assert found.rows == 6


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        ([row(1), row("NaN")], "export:2: cost: should be a number, not 'NaN'"),
        ([row(True)], "export:1: cost"),
        ([row(None)], "export:1: cost"),
        ([row("1e999")], "export:1: cost"),
        ([row(1, currency="XX")], "export:1: currency: 'XX'"),
        ([row(1, labels="x")], "export:1: labels"),
        ([row(1, credits=[{"amount": "much"}])], "export:1: credits"),
    ],
)
def test_a_row_that_cannot_be_read_is_an_error(rows: list[dict[str, Any]], why: str) -> None:
    with pytest.raises(UnreadableInputError, match=why):
        read_billing("\n".join(map(json.dumps, rows)), "export")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a,b\n1,2\n", "have columns cost and currency"),
        ("{", "is not JSON"),
        ("[1]", "should be an object"),
        ("", "columns"),
    ],
)
def test_another_file_is_an_error(text: str, why: str) -> None:
    with pytest.raises(UnreadableInputError, match=why):
        read_billing(text, "export")
