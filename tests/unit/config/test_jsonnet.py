"""Jsonnet programs and their limits."""

from __future__ import annotations

from pathlib import Path

import pytest

from ml_metrics import ConfigError
from ml_metrics.config.loading import load_file, load_tests

TEST = "{ framework: 'tf', model: '%s', mode: 'func', image: 'i', command: ['c'] }"
GREEDY = "std.foldl(function(a, b) a + b, std.makeArray(100000000, function(x) x), 0)"


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("program", "message"),
    [
        (GREEDY, "does not end, or exceeds the limits"),
        ("local f(x) = f(x + 1); f(1)", "max stack frames exceeded"),
        ("importstr '/etc/passwd'", "is outside"),
        ("importstr '../../../../../../etc/passwd'", "is outside"),
        ("importbin '/etc/passwd'", "is outside"),
        ("import 'link.libsonnet'", "is outside"),
        ("import 'absent.libsonnet'", "'absent.libsonnet' is neither"),
        ("std.extVar('HOME')", "Undefined external variable"),
        ("std.native('system')('id')", "cannot be evaluated"),
        ("[1]", "produces no test"),
        ("'text'", "produces no test"),
        ("function(x) x", "cannot be evaluated"),
        ("{ apiVersion: 'v1', kind: 'Job', metadata: null }", "without a test in its annotation"),
        ("{ apiVersion: 'v1', metadata: 3 }", "without a test in its annotation"),
        ("{ apiVersion: 'v1', metadata: { annotations: { 'ml-metrics/test-file': 3 } } }", "without a test"),
        ("{ apiVersion: 'v1', metadata: { annotations: { 'ml-metrics/test-file': '{' } } }", "without a test"),
        ("{ apiVersion: 'v1', metadata: { annotations: { 'ml-metrics/test-file': '[]' } } }", "produces no test"),
    ],
)
def test_invalid_programs(tmp_path: Path, program: str, message: str) -> None:
    outside = write(tmp_path / "outside.libsonnet", "{}")
    path = write(tmp_path / "root" / "t.jsonnet", program)
    (path.parent / "link.libsonnet").symlink_to(outside)
    with pytest.raises(ConfigError, match=message):
        load_file(path)


def test_the_message_of_a_rejected_import_is_exact(tmp_path: Path) -> None:
    """The binding does not say where the text of a refusal ends: memory behind it became a part of it."""
    for length in range(60):
        write(tmp_path / f"{length:02}.jsonnet", f"// at line 2\n{{ a: importstr '{'x' * length}' }}")
    found = [(problem.line, problem.what) for problem in load_tests(tmp_path).problems]
    wanted = "cannot be evaluated: '{}' is neither beside the file nor in the templates"
    assert found == [(2, wanted.format("x" * length)) for length in range(60)]


def test_a_missing_package_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ml_metrics.config.jsonnet.find_spec", lambda _: None)
    with pytest.raises(ConfigError, match="gojsonnet is not installed"):
        load_file(write(tmp_path / "a.jsonnet", TEST % "a"))


def test_a_program_that_exceeds_its_limits_does_not_affect_others(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonnet", TEST % "a")
    write(tmp_path / "b.jsonnet", GREEDY)
    write(tmp_path / "c.jsonnet", TEST % "c")
    loaded = load_tests(tmp_path)
    assert [test.model for test in loaded.tests] == ["a", "c"]
    assert [Path(problem.file).name for problem in loaded.problems] == ["b.jsonnet"]


def test_a_program_can_import_files_beside_it(tmp_path: Path) -> None:
    write(tmp_path / "parts" / "base.libsonnet", TEST % "m")
    path = write(tmp_path / "t.jsonnet", "(import 'parts/base.libsonnet') { owner: 'vision' }")
    (test,) = load_file(path).tests
    assert (test.name, test.owner) == ("tf-m-func-cpu", "vision")


def test_jsonnet_and_yaml_can_extend_each_other(tmp_path: Path) -> None:
    write(tmp_path / "_base.jsonnet", TEST % "m")
    yaml = write(tmp_path / "t.yaml", "extends: _base\nowner: one\n")
    jsonnet = write(tmp_path / "u.jsonnet", "{ extends: 't.yaml', model: 'u' }")
    assert load_file(yaml).tests[0].owner == "one"
    assert load_file(jsonnet).tests[0].name == "tf-u-func-cpu"


def test_whether_a_file_exists_elsewhere_is_not_shown(tmp_path: Path) -> None:
    """The error of a file is shown to its author."""
    write(tmp_path / "elsewhere.json", "{}")
    root = tmp_path / "root"
    for name in ("elsewhere.json", "missing.json"):
        write(root / f"{name}.jsonnet", f"{{ a: importstr '{tmp_path / name}', b: importstr '../{name}' }}")
    shown = {problem.what.replace("elsewhere", "missing") for problem in load_tests(root).problems}
    assert len(shown) == 1
