"""`ml-metrics run`: mistakes are told before Airflow starts. tests/behaviour/test_runs.py runs a test with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ml_metrics.core.model import Outcome
from ml_metrics.judge import Judgement
from ml_metrics.judge.judgement import Unconfirmed
from ml_metrics.store.run_folder import RunFolder
from ml_metrics.ui.cli.run import lines_of, result_of
from ml_metrics.warehouse import open_warehouse
from unit.ui.cli.shell import Shell
from unit.warehouse.records import TEST, record, run_of

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


def test_what_does_not_alert_yet_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__ML_METRICS__STORAGE_ROOT", f"{tmp_path}/runs")
    judgement = Judgement((), (), passed=False, unconfirmed=(Unconfirmed("loss", 1, 2),))
    RunFolder.of(run_of(), f"{tmp_path}/runs").write("verdicts", judgement.document())
    with open_warehouse(f"sqlite:///{tmp_path}/w.db") as warehouse:
        warehouse.load(record(0, {"loss": 2.0}, outcomes={"loss": Outcome.FAIL}))
        result = result_of(warehouse, warehouse.runs.newest(TEST, 1)[0])
    assert result["unconfirmed"] == [{"metric": "loss", "broken": 1, "required": 2, "rerun": False}]
    assert "alert    none: loss is not yet confirmed: 1 of 2 runs" in list(lines_of(result))
