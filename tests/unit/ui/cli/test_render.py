"""`ml-metrics render`, on every example."""

from __future__ import annotations

import json
from pathlib import Path

import kubernetes_validate
import pytest
import yaml

from golden import check
from ml_metrics.config.loading import load_tests
from ml_metrics.ui.cli import main

CONFIGS = Path(__file__).parents[4] / "include" / "metric_configs"
EXAMPLES = [
    (test.name, Path(test.source).relative_to(CONFIGS).as_posix())
    for root in (CONFIGS, CONFIGS / "_examples")
    for test in load_tests(root).tests
]


def rendered(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["render", *arguments]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("kind", ["pod", "job", "cronjob"])
@pytest.mark.parametrize(("name", "file"), EXAMPLES, ids=[name for name, _ in EXAMPLES])
def test_an_example_is_valid(name: str, file: str, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = rendered(capsys, str(CONFIGS / file), "--test", name, f"--{kind}")
    for manifest in yaml.safe_load_all(text):
        kubernetes_validate.validate(manifest, kubernetes_validate.latest_version(), strict=True)
    check(f"cli/render/{name}.{kind}.yaml", text)


def test_a_bucket_is_where_the_workload_writes(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__ML_METRICS__STORAGE_ROOT", "gs://runs/nightly")
    text = rendered(capsys, str(CONFIGS / "mnist-cpu.yaml"))
    assert "value: gs://runs/nightly/tf-mnist-example-cpu/$(JOB_NAME)" in text


def test_json_is_one_list(capsys: pytest.CaptureFixture[str]) -> None:
    file = str(CONFIGS / "mnist-cpu.yaml")
    document = json.loads(rendered(capsys, file, "--json"))
    assert (document["apiVersion"], document["kind"]) == ("v1", "List")
    assert document["items"] == list(yaml.safe_load_all(rendered(capsys, file)))


def test_a_parameter_can_be_given(capsys: pytest.CaptureFixture[str]) -> None:
    assert "--train_epochs=3" in rendered(capsys, str(CONFIGS / "mnist-cpu.yaml"), "--param", "train_epochs=3")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["_examples/vision.json"], "defines no test to render"),
        (["_examples/bert-h100.yaml"], "choose one with --test: pt-bert-func-h100x8-batch-size-64, pt-bert"),
        (["_examples/bert-h100.yaml", "--test", "x"], "defines no test 'x'"),
        (["mnist-cpu.yaml", "--param", "epochs=3"], "has no parameter 'epochs'; did you mean 'train_epochs'?"),
        (["mnist-cpu.yaml", "--param", "epochs"], "should have the form NAME=VALUE"),
        (["absent.yaml"], "cannot be read"),
    ],
)
def test_errors(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["render", str(CONFIGS / arguments[0]), *arguments[1:]]) == 2
    assert message in capsys.readouterr().err


def test_airflow_templates_cannot_be_rendered(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "test.yaml"
    path.write_text("{name: t, image: i, command: [train, '--day={{ ds }}']}", encoding="utf-8")
    assert main(["render", str(path)]) == 2
    assert "cannot be filled in" in capsys.readouterr().err
