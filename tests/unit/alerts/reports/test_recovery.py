from __future__ import annotations

from ml_metrics.airflow import warehouse
from ml_metrics.alerts.compose import compose
from ml_metrics.alerts.message import MessageKind, Report
from ml_metrics.alerts.report import report_of
from ml_metrics.core.model import JobStatus
from ml_metrics.pipeline import RunState
from ml_metrics.warehouse import Incident
from simulated_runs import START, TEST, SimulatedRun, failed, good, run_of, simulate

BAD = good("bad", accuracy_final=0.5, loss_final=0.3)


def recovery(*days: SimulatedRun, reported: tuple[str, ...], by: str | None = None) -> Report:
    """Return the report about the last of some runs, the second of which opened an incident."""
    folders = [simulate(number, day) for number, day in enumerate(days, start=1)]
    keys = (run_of(2).key,)
    incident = Incident("t", "key", START, "", reported, keys, reported, acknowledged_by=by, note="a bad disk")
    with warehouse() as open_warehouse:
        return report_of(
            TEST,
            run_of(len(days)),
            RunState(folders[-1]),
            MessageKind.RECOVERED,
            {},
            warehouse=open_warehouse,
            dashboard_url="https://x.example/ml-metrics",
            incident=incident,
        )


def test_a_recovery_says_what_was_broken_for_how_long_and_the_values_now() -> None:
    report = recovery(good(), BAD, BAD, good(), reported=("out_of_bounds:accuracy_final", "out_of_bounds:memory_final"))
    assert report.headline == "accuracy_final 0.9739, must be above 0.96 (+1 more)"
    assert [fact.name for fact in report.values] == ["memory_final"]
    (sentence,) = report.sentences
    assert sentence.startswith(
        "It was broken for 2 days, in 2 runs, since 2026-01-03 03:05 UTC: accuracy_final out of "
    )
    assert [button.value for button in report.buttons] == ["Open the run", "Every run"]
    message = compose(report, [])
    assert message.subject == f"[ML Metrics] {TEST.name} recovered: {report.headline}"
    assert "It was broken for 2 days" in message.reasons[0].sentence


def test_a_job_that_succeeds_again() -> None:
    report = recovery(good(), failed(JobStatus.FAILURE, "ExitCode:3"), good(), reported=("job_status:",))
    assert report.headline == "the job succeeds again"
    assert report.sentences == ("It was broken for 24 h, in 1 run, since 2026-01-03 03:05 UTC: the job failed.",)


def test_the_acknowledgement_and_a_metric_that_came_back_without_bounds() -> None:
    report = recovery(good(), good(), reported=("missing:throughput_final",), by="ada")
    assert report.headline == "throughput_final 1,000 again"
    assert report.sentences[1] == "Acknowledged by ada: a bad disk."
