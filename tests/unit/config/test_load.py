"""Loading test files and metric configs."""

from datetime import timedelta
from pathlib import Path

import pytest

from ml_metrics.config import load as loading
from ml_metrics.config.collection import MetricCollectionConfig, Strategy
from ml_metrics.config.inherit import ConfigFolder
from ml_metrics.config.load import LoadedFile, load_file, load_test, load_tests
from ml_metrics.config.regression import RegressionTestConfig
from ml_metrics.errors import ConfigError

MNIST = """
framework: tf
model: mnist
mode: example
accelerator: cpu
image: gcr.io/my-project/tensorflow:r2.2
command: [python3, train.py, "--model_dir=$(MODEL_DIR)"]
schedule: "0 * * * *"
timeout: 1h
owner: vision-team
metric_collection_config: {default_aggregation_strategies: [final, max]}
goodput: {enabled: true, ideal_step_time: null, rolling_windows: [1h]}
"""


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_a_test_file_becomes_a_test(tmp_path: Path) -> None:
    path = write(tmp_path / "mnist.yaml", MNIST)
    loaded = load_file(path)
    (test,) = loaded.tests
    assert test.name == "tf-mnist-example-cpu"
    assert test.source == str(path)
    assert test.command == ("python3", "train.py", "--model_dir=$(MODEL_DIR)")
    assert test.timeout == timedelta(hours=1)
    assert test.goodput.rolling_windows == (timedelta(hours=1),)
    assert loaded.metric_collection_config.default_aggregation_strategies == (Strategy.FINAL, Strategy.MAX)
    assert loaded.warnings == ()


def test_a_metric_config_has_no_tests_and_default_values(tmp_path: Path) -> None:
    loaded = load_file(write(tmp_path / "vision.json", '{"metric_collection_config": {}}'))
    assert loaded.tests == ()
    assert loaded.metric_collection_config == MetricCollectionConfig()
    assert loaded.regression_test_config == RegressionTestConfig()


def test_all_problems_of_a_file_are_reported_at_once(tmp_path: Path) -> None:
    path = write(tmp_path / "mnist.yaml", MNIST.replace("1h\n", "1 hor\n").replace("owner", "ownr"))
    with pytest.raises(ConfigError) as caught:
        load_file(path)
    assert str(caught.value).splitlines() == [
        f"{path}:9: timeout: '1 hor' is not a duration like 1h, 90m, 1h30m or a number of seconds; did you mean '1h'?",
        f"{path}:10: ownr: unknown key; did you mean 'owner'?",
    ]


def test_an_invalid_file_does_not_affect_others(tmp_path: Path) -> None:
    write(tmp_path / "good.yaml", MNIST)
    write(tmp_path / "team" / "broken.yaml", MNIST.replace("mnist", "resnet").replace("1h\n", "never\n"))
    write(tmp_path / "torn.json", "{")
    library = load_tests(tmp_path)
    assert [test.name for test in library.tests] == ["tf-mnist-example-cpu"]
    assert [problem.test for problem in library.problems] == ["torn", "tf-resnet-example-cpu"]


def test_two_files_with_the_same_name_are_both_rejected(tmp_path: Path) -> None:
    write(tmp_path / "one.yaml", MNIST)
    write(tmp_path / "two.yaml", MNIST)
    write(tmp_path / "three.yaml", MNIST.replace("mnist", "other"))
    library = load_tests(tmp_path)
    assert [test.name for test in library.tests] == ["tf-other-example-cpu"]
    assert [(Path(problem.file).name, problem.test) for problem in library.problems] == [
        ("one.yaml", "tf-mnist-example-cpu"),
        ("two.yaml", "tf-mnist-example-cpu"),
    ]


def test_a_bug_triggered_by_one_file_does_not_affect_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "good.yaml", MNIST)
    write(tmp_path / "odd.yaml", MNIST.replace("mnist", "odd"))
    read = loading.read_file

    def mistaken(path: Path, folder: ConfigFolder) -> LoadedFile:
        return read(path, folder) if path.stem == "good" else LoadedFile()

    monkeypatch.setattr(loading, "read_file", mistaken)
    library = load_tests(tmp_path)
    assert [test.name for test in library.tests] == ["tf-mnist-example-cpu"]
    assert [problem.test for problem in library.problems] == ["odd"]


def test_a_missing_folder_is_reported(tmp_path: Path) -> None:
    (problem,) = load_tests(tmp_path / "metric_configs").problems
    assert (problem.what, problem.test) == ("the folder of test files does not exist", "metric-configs")


def test_every_problem_names_a_test(tmp_path: Path) -> None:
    write(tmp_path / "é.yaml", "[")
    write(tmp_path / "long.yaml", f"name: {'a' * 300}\n")
    (tmp_path / "bad\udcff.yaml").write_text("[", encoding="utf-8")
    problems = load_tests(tmp_path).problems
    assert {problem.test for problem in problems} == {"unnamed", "a" * 46, "bad"}
    assert all(str(problem).isprintable() for problem in problems)


def test_one_test_is_found_by_its_name_whatever_its_file_is_called(tmp_path: Path) -> None:
    for model in ("mnist", "resnet", "bert"):
        write(tmp_path / f"file-{len(model)}.yaml", MNIST.replace("mnist", model))
    assert load_test(tmp_path, "tf-bert-example-cpu").model == "bert"
    with pytest.raises(ConfigError, match="no test 'tf-gpt-example-cpu'"):
        load_test(tmp_path, "tf-gpt-example-cpu")
