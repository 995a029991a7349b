"""The result of each run, for the tracking servers among the channels.

It is a message like any other: a document and a row, which a sender delivers and retries. It is not about a test, so no
alert waits for it, and it counts in no limit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ml_metrics.alerts.message import TRACKERS, Message, MessageKind, Reason, Result, page_of_run
from ml_metrics.alerts.outbox.post import Posted, post
from ml_metrics.alerts.policy import channels_for
from ml_metrics.alerts.settings import MailSettings
from ml_metrics.config.definition import TestDefinition
from ml_metrics.core.kinds import cost_in
from ml_metrics.core.model import Run
from ml_metrics.core.text import printable
from ml_metrics.core.values import digest_in, finite, short_hash

if TYPE_CHECKING:
    from ml_metrics.pipeline import RunState
    from ml_metrics.warehouse import Warehouse


NAMED_BY = {"mlflow": "mlflow_run_id"}
"""The metadata by which a workload names the run that it logged to."""
MAX_TEXT, MAX_REASONS = 500, 2_000


def post_result(
    test: TestDefinition, run: Run, state: RunState, mail: MailSettings, warehouse: Warehouse | None
) -> Posted | None:
    """Write the message with the result of a run, if a tracking server is to have it."""
    if not channels_for(mail.channels, MessageKind.RESULT, ""):
        return None
    result = result_of(test, run, state, mail.dashboard_url)
    text = result.text()
    message = Message(
        key=f"{run.key}-{MessageKind.RESULT}",
        kind=MessageKind.RESULT,
        subject=f"[ML Metrics] {run.test}: the result of a run: {result.verdict or 'not judged'}",
        text=text,
        html="",
        recipients=(),
        run_key=run.key,
        reasons=(Reason("result", f"the result {short_hash(text)} of run {run.key}"),),
    )
    return post(message, mail=mail, warehouse=warehouse, run_folder=state.folder.path)


def result_of(test: TestDefinition, run: Run, state: RunState, dashboard_url: str) -> Result:
    workload, judgement, gate = state.workload, state.judgement, state.gate
    times = [one for one in (workload.queued_at, workload.started_at, workload.ended_at) if one is not None]
    milliseconds = [round(one.timestamp() * 1000) for one in times]
    verdicts = sorted(judgement.verdicts if judgement else (), key=lambda one: not one.broken)
    judged = {one.metric for one in verdicts if one.outcome != "skipped"}
    written = state.collected.metadata if state.collected else {}
    # these, and the cost, are logged whether or not they were judged
    logged = judged | {"goodput", "chip_hours", "mfu"}
    kept = (metric for metric in state.metrics if metric.name in logged or cost_in(metric.name) is not None)
    values = {metric.name: finite(metric.value) for metric in kept}
    values["duration"] = workload.duration_seconds
    facts = {
        "accelerator": test.accelerator.name,
        "job_status": str(workload.status),
        "failure": workload.failure_reason,
        "image": workload.image,
        "image_digest": digest_in(workload.image_digest or ""),
        "trial": ", ".join(state.trial),
    }
    return Result(
        test=run.test,
        run_key=run.key,
        run_id=run.run_id,
        deployment=run.deployment,
        verdict=str(judgement.outcome) if judgement else "",
        passed=gate is not None and not gate.reasons,
        reasons=printable("; ".join(gate.reasons if gate else ("the run was not decided",)))[:MAX_REASONS],
        link=page_of_run(dashboard_url, run.key),
        began_at=min(milliseconds, default=0),
        ended_at=max(milliseconds, default=0),
        facts={name: _short(text) for name, text in facts.items() if text},
        metrics={name: value for name, value in values.items() if value is not None},
        verdicts={one.metric: _short(f"{one.outcome}: {one.reason}") for one in verdicts if one.metric in judged},
        tracked={name: _short(written[key]) for name, key in NAMED_BY.items() if key in written and name in TRACKERS},
    )


def _short(text: str) -> str:
    return printable(text)[:MAX_TEXT]
