"""Loading test files and metric configs."""

from __future__ import annotations

import json
import os
from datetime import timedelta
from itertools import permutations
from pathlib import Path

import pytest

from ml_metrics import ConfigError
from ml_metrics.config import loading
from ml_metrics.config.collection import MetricCollectionConfig, Strategy
from ml_metrics.config.conditions import RegressionTestConfig
from ml_metrics.config.document import content_of
from ml_metrics.config.loading import ConfigFolder, LoadedFile, load_file, load_test, load_tests
from ml_metrics.config.validation import MAX_ENTRIES, MAX_TEXT, MAX_TOTAL, SHOWN

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


SECRET = "hunter2"


@pytest.mark.parametrize("suffix", ["yaml", "json", "jsonnet"])
def test_a_link_out_of_the_folder_shows_nothing_of_its_file(tmp_path: Path, suffix: str) -> None:
    """What is wrong in a file is shown on the page of its DAG."""
    secret = write(tmp_path / "password", SECRET)
    root = tmp_path / "tests"
    write(root / "innocent.yaml", MNIST)
    (root / f"link.{suffix}").symlink_to(secret)
    loaded = load_tests(root)
    (problem,) = loaded.problems
    assert problem.what == f"is a link that leads out of {root}"
    assert [test.model for test in loaded.tests] == ["mnist"]


def test_links_within_the_folder_are_followed(tmp_path: Path) -> None:
    """Kubernetes mounts a config map as links to files of a hidden folder."""
    root = tmp_path / "tests"
    write(root / "..2026" / "mnist.yaml", MNIST)
    (root / "..data").symlink_to("..2026")
    (root / "mnist.yaml").symlink_to("..data/mnist.yaml")
    (tmp_path / "current").symlink_to(root)
    assert [test.model for test in load_tests(tmp_path / "current").tests] == ["mnist"]


@pytest.mark.parametrize("suffix", ["yaml", "json", "jsonnet"])
def test_what_is_no_file_keeps_nobody_waiting(tmp_path: Path, suffix: str) -> None:
    os.mkfifo(tmp_path / f"pipe.{suffix}")
    (tmp_path / f"device.{suffix}").symlink_to("/dev/zero")
    (tmp_path / f"circle.{suffix}").symlink_to(f"circle.{suffix}")
    with (tmp_path / f"sparse.{suffix}").open("wb") as sparse:
        sparse.truncate(8 << 40)
    write(tmp_path / "innocent.yaml", MNIST)
    loaded = load_tests(tmp_path)
    assert [test.model for test in loaded.tests] == ["mnist"]
    assert {problem.test for problem in loaded.problems} == {"pipe", "device", "circle", "sparse"}


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


TEST = "{framework: tf, model: %s, mode: func, image: i, command: [c]}"


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that are read."""
    names: list[str] = []
    original = loading.read_file

    def noted(path: Path, shelf: object) -> object:
        names.append(path.name)
        return original(path, shelf)  # type: ignore[arg-type]

    monkeypatch.setattr(loading, "read_file", noted)
    return names


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "configs"
    folder.mkdir()
    for number in range(50):
        (folder / f"{number:02}.yaml").write_text(TEST % f"m{49 - number}", encoding="utf-8")
    return folder


def test_a_file_whose_text_has_the_name_is_read_before_most_others(root: Path, read: list[str]) -> None:
    assert load_test(root, "tf-m7-func-cpu").model == "m7"
    assert read[-1] == "42.yaml"
    assert len(read) <= 4


def test_a_file_named_like_the_test_is_read_first(root: Path, read: list[str]) -> None:
    (root / "special-func.yaml").write_text(TEST % "special", encoding="utf-8")
    assert load_test(root, "tf-special-func-cpu").model == "special"
    assert read == ["special-func.yaml"]


def test_an_invalid_test_reports_its_problems(root: Path) -> None:
    (root / "broken.yaml").write_text(TEST % "b" + "\nx: 1", encoding="utf-8")
    (root / "wrong.yaml").write_text((TEST % "w").replace("image", "imgae"), encoding="utf-8")
    with pytest.raises(ConfigError, match="did you mean 'image'"):
        load_test(root, "tf-w-func-cpu")


def test_a_folder_that_is_or_becomes_a_link_shows_nothing_of_another_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An author exchanges a folder between the look at it and the opening of a file in it."""
    root, elsewhere = tmp_path / "tests", tmp_path / "elsewhere"
    (root / "team").mkdir(parents=True)
    elsewhere.mkdir()
    (root / "link").symlink_to(elsewhere)
    (elsewhere / "base.yaml").write_text("owner: canary\n")
    with pytest.raises(ConfigError, match="is a link that leads out of"):
        content_of(root / "link" / "base.yaml", root)
    (root / "team" / "base.yaml").write_text("owner: me\n")
    look = Path.is_relative_to

    def swapped(path: Path, other: Path) -> bool:
        (root / "team").rename(root / "aside")
        (root / "team").symlink_to(elsewhere)
        return look(path, other)

    monkeypatch.setattr(Path, "is_relative_to", swapped)
    with pytest.raises(ConfigError, match="cannot be read"):
        content_of(root / "team" / "base.yaml", root)


PLAIN = "framework: tf\nmodel: m\nmode: func\nimage: i\ncommand: [c]\n"


def test_nearer_files_take_precedence(tmp_path: Path) -> None:
    write(tmp_path / "_defaults.yaml", "owner: all\nemails: [all@example.com]\ntimeout: 1h\nlabels: {a: all, b: all}\n")
    write(tmp_path / "team/_defaults.json", '{"owner": "team", "timeout": "2h", "labels": {"b": "team"}}')
    write(tmp_path / "team/_base.yaml", PLAIN + "timeout: 3h\nname: not-inherited\n")
    path = write(tmp_path / "team/t.yaml", "extends: _base.yaml\nmodel: n\n")
    (test,) = load_file(path, tmp_path).tests
    assert (test.name, test.owner, test.emails) == ("tf-n-func-cpu", "team", ("all@example.com",))
    assert test.timeout == timedelta(hours=3)
    assert test.labels == {"a": "all", "b": "team"}


def test_a_threshold_is_replaced_as_a_whole(tmp_path: Path) -> None:
    rule = "regression_test_config: {metric_success_conditions: {a: {%s}}}\n"
    write(tmp_path / "vision.yaml", rule % "comparison: less, window: 20, success_threshold: {stddevs_from_mean: 3}")
    path = write(tmp_path / "t.yaml", PLAIN + "metric_config: vision\n" + rule % "success_threshold: {fixed_value: 1}")
    condition = load_file(path).regression_test_config.metric_success_conditions["a"]
    assert (condition.comparison, condition.success_threshold.kind) == ("less", "fixed_value")
    assert "window" not in condition.model_fields_set


def test_keys_about_the_history_are_inherited_with_another_relative_threshold(tmp_path: Path) -> None:
    rule = "regression_test_config: {metric_success_conditions: {a: {%s}}}\n"
    write(tmp_path / "vision.yaml", rule % "comparison: less, window: 20, success_threshold: {stddevs_from_mean: 3}")
    own = "success_threshold: {percent_difference: {percent: 2}}"
    path = write(tmp_path / "t.yaml", PLAIN + "metric_config: vision\n" + rule % own)
    assert load_file(path).regression_test_config.metric_success_conditions["a"].window == 20


def test_null_removes_an_inherited_value(tmp_path: Path) -> None:
    write(tmp_path / "_defaults.yaml", "schedule: '@daily'\n")
    path = write(tmp_path / "t.yaml", PLAIN + "schedule: null\n")
    assert load_file(path, tmp_path).tests[0].schedule is None


def test_a_metric_config_ignores_defaults_of_tests(tmp_path: Path) -> None:
    write(tmp_path / "_defaults.yaml", "owner: all\n")
    assert load_file(write(tmp_path / "c.yaml", "metric_collection_config: {}\n"), tmp_path).tests == ()


def test_a_link_to_a_file_outside_the_root_is_rejected(tmp_path: Path) -> None:
    secret = write(tmp_path / "outside.yaml", PLAIN)
    root = tmp_path / "root"
    path = write(root / "t.yaml", "extends: link.yaml\n")
    (root / "link.yaml").symlink_to(secret)
    with pytest.raises(ConfigError, match="is outside"):
        load_file(path, root)


def test_a_sweep_makes_a_test_for_each_combination(tmp_path: Path) -> None:
    path = write(tmp_path / "t.yaml", PLAIN + "sweep: {batch_size: [64, 128], accelerator: [cpu, t4]}\n")
    tests = {test.name: test for test in load_file(path).tests}
    assert sorted(tests) == [
        "tf-m-func-cpu-batch-size-128",
        "tf-m-func-cpu-batch-size-64",
        "tf-m-func-t4-batch-size-128",
        "tf-m-func-t4-batch-size-64",
    ]
    test = tests["tf-m-func-t4-batch-size-64"]
    assert (test.accelerator.name, test.params["batch_size"].default) == ("t4", 64)
    assert test.env == {"BATCH_SIZE": "{{ params.batch_size }}"}
    assert test.sweep == {"accelerator": "t4", "batch_size": 64}
    assert load_test(tmp_path, test.name) == test


def test_a_sweep_only_adds_to_the_name(tmp_path: Path) -> None:
    path = write(tmp_path / "t.yaml", PLAIN + "sweep: {shift: [-1, 1]}\nparams: {shift: {default: 0, minimum: -5}}\n")
    first, second = load_file(path).tests
    assert (first.name, second.name) == ("tf-m-func-cpu-shift-minus-1", "tf-m-func-cpu-shift-1")
    assert (first.params["shift"].default, first.params["shift"].minimum) == (-1, -5)
    path = write(tmp_path / "u.yaml", PLAIN + "accelerator: v5e-16\nsweep: {lr: [0.1]}\n")
    assert load_file(path).tests[0].name == "tf-m-func-v5litepod-16-lr-0-1"
    path = write(tmp_path / "v.yaml", PLAIN + "accelerator: v5e-16\nname: mine\nsweep: {accelerator: [cpu, t4]}\n")
    assert [test.name for test in load_file(path).tests] == ["mine-accelerator-cpu", "mine-accelerator-t4"]


@pytest.mark.parametrize("wrong", ["params: [1]", "env: 3", "model: [m]", "name: 3"])
def test_problems_besides_a_sweep_are_reported(tmp_path: Path, wrong: str) -> None:
    key = wrong.partition(":")[0]
    rest = "".join(line for line in PLAIN.splitlines(keepends=True) if not line.startswith(key))
    path = write(tmp_path / "t.yaml", rest + wrong + "\nsweep: {lr: [0.1]}\n")
    with pytest.raises(ConfigError, match=key):
        load_file(path)


def test_reordering_a_sweep_renames_nothing(tmp_path: Path) -> None:
    made = set()
    for number, values in enumerate(permutations([0.1, 0.01, 0.001])):
        path = write(tmp_path / str(number) / "t.yaml", PLAIN + f"sweep: {{b: [x], lr: {list(values)}}}\n")
        made.add(frozenset((test.name, test.params["lr"].default) for test in load_file(path).tests))
    assert len(made) == 1


def test_an_invalid_value_does_not_affect_other_tests_of_a_sweep(tmp_path: Path) -> None:
    write(tmp_path / "t.yaml", PLAIN + "sweep: {accelerator: [cpu, t4x3]}\n")
    library = load_tests(tmp_path)
    assert [test.name for test in library.tests] == ["tf-m-func-cpu"]
    assert [problem.test for problem in library.problems] == ["tf-m-func-t4x3"]
    with pytest.raises(ConfigError, match="a machine can have 1, 2, 4 of t4, not 3"):
        load_file(tmp_path / "t.yaml")


SMALLEST = {"name": "t", "image": "i", "command": ["c"]}


def problems_of(tmp_path: Path, content: dict[str, object]) -> list[str]:
    (tmp_path / "t.json").write_text(json.dumps({**SMALLEST, **content}), encoding="utf-8")
    (tmp_path / "innocent.yaml").write_text("{name: innocent, image: i, command: [c]}", encoding="utf-8")
    library = load_tests(tmp_path)
    assert "innocent" in {test.name for test in library.tests}
    assert not any("bug in ml-metrics" in problem.what for problem in library.problems)
    return [f"{problem.path}: {problem.what}" for problem in library.problems]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ({"description": "a\0b"}, "description: contains the character NUL, which no database stores"),
        ({"env": {"A\0": "b"}}, "env: a key contains the character NUL, which no database stores"),
        (
            {"args": ["x" * (MAX_TEXT + 1)]},
            f"args[0]: has {MAX_TEXT + 1:,} characters, at most {MAX_TEXT:,} are allowed",
        ),
        (
            {"args": ["x"] * (MAX_ENTRIES + 1)},
            f"args: has {MAX_ENTRIES + 1:,} entries, at most {MAX_ENTRIES:,} are allowed",
        ),
        ({"params": {"a": 2**65}}, "params.a: is a number with too many digits"),
        ({"priority": 10**400}, "priority: is a number with too many digits"),
    ],
)
def test_a_value_that_airflow_or_its_database_refuses_is_a_problem(
    tmp_path: Path, content: dict[str, object], problem: str
) -> None:
    assert problems_of(tmp_path, content) == [problem]


def test_the_tests_of_a_sweep_are_bounded_together(tmp_path: Path) -> None:
    (found,) = problems_of(tmp_path, {"args": ["x" * MAX_TEXT] * 6, "sweep": {"a": list(range(500))}})
    assert "makes 500 tests of" in found
    assert f"at most {MAX_TOTAL:,} in all" in found


def test_many_texts_of_a_sweep_are_bounded_by_their_length(tmp_path: Path) -> None:
    """A file of half a megabyte made 250 tests of half a megabyte each, which Airflow serialised and stored."""
    (found,) = problems_of(tmp_path, {"params": {"p": {"default": ["x" * 1023] * 480}}, "sweep": {"a": [*range(250)]}})
    assert f"at most {MAX_TOTAL:,} in all" in found


def test_thousands_of_mistakes_are_counted(tmp_path: Path) -> None:
    found = problems_of(tmp_path, {f"descripton{number}": number for number in range(1_900)})
    assert len(found) == SHOWN + 1
    assert found[-1] == f": has {1_900 - SHOWN:,} more mistakes"


def test_a_sweep_over_long_lists_is_refused_before_its_values_are_compared(tmp_path: Path) -> None:
    assert problems_of(tmp_path, {"sweep": {"a": list(range(1_500)), "b": [1, 2]}}) == [
        "sweep: makes 3000 tests; at most 500 are allowed"
    ]
