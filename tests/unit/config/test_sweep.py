"""Sweeps: one file that defines several tests."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import pytest

from ml_metrics import ConfigError
from ml_metrics.config.loading import load_file, load_test, load_tests

TEST = "framework: tf\nmodel: m\nmode: func\nimage: i\ncommand: [c]\n"


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_a_sweep_makes_a_test_for_each_combination(tmp_path: Path) -> None:
    path = write(tmp_path / "t.yaml", TEST + "sweep: {batch_size: [64, 128], accelerator: [cpu, t4]}\n")
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
    path = write(tmp_path / "t.yaml", TEST + "sweep: {shift: [-1, 1]}\nparams: {shift: {default: 0, minimum: -5}}\n")
    first, second = load_file(path).tests
    assert (first.name, second.name) == ("tf-m-func-cpu-shift-minus-1", "tf-m-func-cpu-shift-1")
    assert (first.params["shift"].default, first.params["shift"].minimum) == (-1, -5)
    path = write(tmp_path / "u.yaml", TEST + "accelerator: v5e-16\nsweep: {lr: [0.1]}\n")
    assert load_file(path).tests[0].name == "tf-m-func-v5litepod-16-lr-0-1"
    path = write(tmp_path / "v.yaml", TEST + "accelerator: v5e-16\nname: mine\nsweep: {accelerator: [cpu, t4]}\n")
    assert [test.name for test in load_file(path).tests] == ["mine-accelerator-cpu", "mine-accelerator-t4"]


@pytest.mark.parametrize("wrong", ["params: [1]", "env: 3", "model: [m]", "name: 3"])
def test_problems_besides_a_sweep_are_reported(tmp_path: Path, wrong: str) -> None:
    key = wrong.partition(":")[0]
    rest = "".join(line for line in TEST.splitlines(keepends=True) if not line.startswith(key))
    path = write(tmp_path / "t.yaml", rest + wrong + "\nsweep: {lr: [0.1]}\n")
    with pytest.raises(ConfigError, match=key):
        load_file(path)


def test_reordering_a_sweep_renames_nothing(tmp_path: Path) -> None:
    made = set()
    for number, values in enumerate(permutations([0.1, 0.01, 0.001])):
        path = write(tmp_path / str(number) / "t.yaml", TEST + f"sweep: {{b: [x], lr: {list(values)}}}\n")
        made.add(frozenset((test.name, test.params["lr"].default) for test in load_file(path).tests))
    assert len(made) == 1


def test_an_invalid_value_does_not_affect_other_tests_of_a_sweep(tmp_path: Path) -> None:
    write(tmp_path / "t.yaml", TEST + "sweep: {accelerator: [cpu, t4x3]}\n")
    library = load_tests(tmp_path)
    assert [test.name for test in library.tests] == ["tf-m-func-cpu"]
    assert [problem.test for problem in library.problems] == ["tf-m-func-t4x3"]
    with pytest.raises(ConfigError, match="a machine can have 1, 2, 4 of t4, not 3"):
        load_file(tmp_path / "t.yaml")
