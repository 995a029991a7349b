"""`ml-metrics run`: mistakes are told before Airflow starts. tests/behaviour/test_runs.py runs a test with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from unit.ui.cli.shell import Shell

TEST_FILE = "{name: a-test, image: i, command: [c], params: {epochs: 3, mode: good}}"


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["a-tset"], "no test 'a-tset'; did you mean 'a-test'?"),
        (["broken"], "comand"),
        (["a-test", "--param", "epoch=1"], "a-test has no parameter 'epoch'; did you mean 'epochs'?"),
        (["a-test", "--param", "zzz=1"], "a-test has no parameter 'zzz'; its params: epochs, mode"),
        (["a-test", "--param", "epochs"], "should have the form NAME=VALUE"),
        (["a-test", "--param", "image=j"], "a manual run of this test may not have another image"),
        (["a-test", "--param", "epochs=many"], "'many' is not of the type of 3"),
        (["tests/a.yaml", "--param", "epochs=many"], "'many' is not of the type of 3"),
        (["tests/broken.yaml"], "comand"),
        (["tests/two.yaml"], "has 2 tests; name one of them: two-n-1, two-n-2"),
        (
            ["elsewhere.yaml"],
            "elsewhere.yaml is not in {root}, where Airflow reads tests: copy it there, and run other",
        ),
    ],
)
def test_a_mistake_is_told_before_airflow_starts(
    argv: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    ml: Shell,
) -> None:
    root = tmp_path / "tests"
    root.mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AIRFLOW__ML_METRICS__CONFIG_ROOT", str(root))
    (root / "a.yaml").write_text(TEST_FILE)
    (root / "broken.yaml").write_text("{name: broken, image: i, comand: [c]}")
    (root / "two.yaml").write_text("{name: two, image: i, command: [c], sweep: {n: [1, 2]}}")
    (tmp_path / "elsewhere.yaml").write_text("{name: other, image: i, command: [c]}")
    assert message.format(root=root) in ml("run", *argv, code=2)
