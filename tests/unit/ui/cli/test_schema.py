"""`ml-metrics schema`."""

from __future__ import annotations

import json

import pytest

import golden
from ml_metrics.ui import cli


@pytest.mark.parametrize(("name", "option"), [("schema-of-a-warehouse", []), ("schema-show", ["--show"])])
def test_output(name: str, option: list[str], address: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["schema", *(option or ["--warehouse", address])]) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    golden.check(f"cli/{name}.txt", out)


def test_json_is_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["schema", "--show", "--json"]) == 0
    assert {"job_history", "metric_history"} <= {
        table["name"] for table in json.loads(capsys.readouterr().out)["tables"]
    }
