from __future__ import annotations

import json
import threading
import time
from typing import TYPE_CHECKING

import pytest

from ml_metrics.ui import cli
from servers.google_cloud import Logging, Monitoring
from unit.measure.collect.run_folders import by_name, collected
from unit.measure.goodput.traces import custom, in_time, job_end, job_start, steps
from unit.ui.cli.shell import Shell

if TYPE_CHECKING:
    from pathlib import Path

ENTRIES = [*job_start(0), *steps(0, 4, 10), *in_time([*custom("eval", 52, 55), *steps(5, 9, 63)]), *job_end(113)]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "goodput.jsonl"
    path.write_text("".join(json.dumps(entry) + "\n" for entry in ENTRIES))
    return path


def test_the_document(log: Path, ml: Shell) -> None:
    found = ml.json("goodput", log)
    assert found["goodput_percent"] == pytest.approx(100 / 113 * 100)
    assert (found["productive_seconds"], found["total_seconds"]) == (100, 113)
    assert found["badput_seconds"] == {
        "tpu_initialization": 0,
        "training_prep": 0,
        "program_startup": 0,
        "data_loading_sync": 0,
        "data_loading_async": 0,
        "unproductive_checkpoint_save_time": 0,
        "unproductive_checkpoint_restore_time": 0,
        "wasted_progress_from_disruption": 0,
        "infrastructure_recovery_from_disruption": 0,
        "stall": 0,
        "other": 10,
    }
    assert found["custom_badput_seconds"] == {"EVAL": 3}
    assert (found["disruptions"], found["max_productive_step"], found["last_step"]) == (0, 9, 9)
    assert found["ideal_step_time"] == 10
    assert found["step_deviation"] == pytest.approx(
        {"mean_abs": 1 / 3, "p50": 0, "p90": 0.6, "max": 3, "summary": 1 / 3, "mean_signed": 1 / 3}
    )


def test_a_window_and_an_ideal(log: Path, ml: Shell) -> None:
    found = ml.json("goodput", log, "--from", "1970-01-01T00:00:50", "--to", 60, "--ideal-step-time", 4)
    assert (found["total_seconds"], found["productive_seconds"], found["ideal_step_time"]) == (10, 7, None)
    found = ml.json("goodput", log.parent, "--window", 50, "--window", 1000, "--ideal-step-time", 4)
    assert [one["total_seconds"] for one in found["rolling_windows"]] == [50, 113]
    assert found["step_deviation"]["max"] == 9


def test_text_output(log: Path, ml: Shell) -> None:
    printed = ml("goodput", str(log), "--window", "50")
    assert printed.startswith("job job: 88.50 % of 113 s were productive, 0 disruptions, last step 9\n")
    assert "custom EVAL" in printed
    assert "last 50 s: 100.00 %" in printed


def test_stalls_are_named_unless_they_are_turned_off(tmp_path: Path, ml: Shell) -> None:
    log = tmp_path / "goodput.jsonl"
    entries = [*job_start(0), *steps(0, 20, 0), *steps(21, 40, 3800), *job_end(4000)]
    log.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    printed = ml("goodput", str(log))
    assert "stalls, beyond any usual step: step 20 by 59.8 min" in printed
    assert printed.startswith("job job: 10.25 % of 66.7 min were productive")
    assert "step times: 10 s median, 10 s p90, 36.7 min p99; 0.1 steps per second" in printed
    assert ml.json("goodput", log)["stalls"] == [{"step": 20, "started_at": 200, "seconds": 3590}]
    without = ml.json("goodput", log, "--no-stalls")
    assert (without["goodput_percent"], without["stalls"]) == (100, [])
    assert "stall" not in without["badput_seconds"]


def test_a_folder_without_a_log_is_a_no(tmp_path: Path, ml: Shell) -> None:
    assert ml.json("goodput", str(tmp_path), code=1)["goodput_percent"] is None
    assert cli.main(["goodput", str(tmp_path)]) == 1


def test_following_ends_with_the_job(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "goodput.jsonl"
    began = time.time() - 20
    path.write_text("".join(json.dumps(entry) + "\n" for entry in [*job_start(began), *steps(0, 1, began)]))

    def end() -> None:
        time.sleep(0.3)
        with path.open("a") as file:
            file.write(json.dumps(job_end(time.time())[0]) + "\n")

    ending = threading.Thread(target=end)
    ending.start()
    assert (
        cli.main(["goodput", str(tmp_path), "--follow", "--interval", "0.1", "--tensorboard", str(tmp_path / "tb")])
        == 0
    )
    ending.join()
    assert len(capsys.readouterr().out.splitlines()) > 1
    assert list((tmp_path / "tb" / "goodput").iterdir())


def test_scalars_are_also_written_once(log: Path, tmp_path: Path) -> None:
    assert cli.main(["goodput", str(log), "--tensorboard", str(tmp_path / "tb")]) == 0
    found = by_name(collected(tmp_path / "tb" / "goodput"))
    assert found["goodput/goodput_final"].value == pytest.approx(100 / 113 * 100)
    (tmp_path / "empty.jsonl").write_text("")
    assert cli.main(["goodput", str(tmp_path / "empty.jsonl"), "--tensorboard", str(tmp_path / "none")]) == 1
    assert not (tmp_path / "none").exists()


def types_in(service: Monitoring) -> set[str]:
    return {series.metric.type.rpartition("/")[2] for series in service.series}


GCP = ("--gcp-project-id", "project", "--gcp-location", "us-central1-a")


@pytest.mark.parametrize(
    ("options", "goodput", "deviation"),
    [
        (GCP, True, True),
        ((*GCP, "--no-gcp-step-deviation-metrics", "--follow"), True, False),
        ((*GCP, "--no-gcp-goodput-metrics", "--follow"), False, True),
        ((*GCP, "--no-gcp-goodput-metrics", "--no-gcp-step-deviation-metrics"), False, False),
    ],
)
def test_results_are_sent_to_cloud_monitoring(
    log: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], goodput: bool, deviation: bool
) -> None:
    service = Monitoring()
    with service.served() as address:
        monkeypatch.setenv("MONITORING_EMULATOR_HOST", address)
        assert cli.main(["goodput", str(log), "--window", "60", *options, "--json"]) == 0
    assert ("goodput_time" in types_in(service)) == ("interval_goodput" in types_in(service)) == goodput
    assert ("step_time_deviation" in types_in(service)) == deviation
    assert {series.resource.labels["workload_id"] for series in service.series} <= {"job"}


def test_logs_of_the_older_library_are_read(monkeypatch: pytest.MonkeyPatch, ml: Shell) -> None:
    from unit.measure.cloud.older import cloud_logger

    service = Logging()
    with service.served() as address:
        monkeypatch.setenv("LOGGING_EMULATOR_HOST", address)
        theirs = cloud_logger("job", "goodput_job")
        for entry in ENTRIES:
            theirs.write_cloud_logging_entry(entry)
        theirs.flush()
        for more in ([], ["--follow"]):
            found = ml.json("goodput", "cloud-logging://project/goodput_job", "--job", "job", *more)
            assert found["goodput_percent"] == pytest.approx(100 / 113 * 100)
    assert "choose a job" in ml("goodput", "cloud-logging://project/goodput_job", code=2)
    assert cli.main(["goodput", "cloud-logging://project", "--job", "job"]) == 2
