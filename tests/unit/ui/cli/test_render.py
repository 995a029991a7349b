"""`ml-metrics render`, on every example."""

from __future__ import annotations

from pathlib import Path

import kubernetes_validate
import pytest
import yaml

from golden import check
from ml_metrics.config.loading import load_tests
from unit.ui.cli.shell import Shell

CONFIGS = Path(__file__).parents[4] / "include" / "metric_configs"
EXAMPLES = [
    (test.name, Path(test.source).relative_to(CONFIGS).as_posix())
    for root in (CONFIGS, CONFIGS / "_examples")
    for test in load_tests(root).tests
]


@pytest.mark.parametrize("kind", ["pod", "job", "cronjob"])
@pytest.mark.parametrize(("name", "file"), EXAMPLES, ids=[name for name, _ in EXAMPLES])
def test_an_example_is_valid(name: str, file: str, kind: str, ml: Shell) -> None:
    text = ml("render", str(CONFIGS / file), "--test", name, f"--{kind}")
    for manifest in yaml.safe_load_all(text):
        kubernetes_validate.validate(manifest, kubernetes_validate.latest_version(), strict=True)
    check(f"cli/render/{name}.{kind}.yaml", text)


def test_a_bucket_is_where_the_workload_writes(ml: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__ML_METRICS__STORAGE_ROOT", "gs://runs/nightly")
    text = ml("render", str(CONFIGS / "mnist-cpu.yaml"))
    assert "value: gs://runs/nightly/tf-mnist-example-cpu/$(JOB_NAME)" in text


def test_json_is_one_list(ml: Shell) -> None:
    file = str(CONFIGS / "mnist-cpu.yaml")
    document = ml.json("render", file)
    assert (document["apiVersion"], document["kind"]) == ("v1", "List")
    assert document["items"] == list(yaml.safe_load_all(ml("render", file)))


def test_a_parameter_can_be_given(ml: Shell) -> None:
    assert "--train_epochs=3" in ml("render", str(CONFIGS / "mnist-cpu.yaml"), "--param", "train_epochs=3")


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
def test_errors(arguments: list[str], message: str, ml: Shell) -> None:
    assert message in ml("render", str(CONFIGS / arguments[0]), *arguments[1:], code=2)


def test_airflow_templates_cannot_be_rendered(tmp_path: Path, ml: Shell) -> None:
    path = tmp_path / "test.yaml"
    path.write_text("{name: t, image: i, command: [train, '--day={{ ds }}']}", encoding="utf-8")
    assert "cannot be filled in" in ml("render", str(path), code=2)
