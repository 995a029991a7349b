"""How runs ended, beside how they should: the judgement of a wave, and the tables of a campaign."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kubernetes import client, config

from campaigns.machines.workloads import BAD, BREAKS, GOOD, METRIC
from campaigns.messages.outcome import killed_then
from ml_metrics.core.model import Run
from ml_metrics.store.run_folder import RunFolder

if TYPE_CHECKING:
    from campaigns.machines.deployment import Deployment
    from campaigns.machines.faults import Wave
    from campaigns.machines.tables import Record
    from campaigns.machines.workloads import Case
    from ml_metrics.core.model import Workload

EXPECTED = {
    GOOD: ("success", "success", None, "pass"),
    BAD: ("failed", "success", None, "fail"),
    BREAKS: ("failed", "failure", "ExitCode:3", "fail"),
}
"""State of the run, status and reason of the workload, verdict of the row."""
LEFT_SECONDS = 60
"""How long the cluster may take to remove pods after the run."""


@dataclass(frozen=True, slots=True)
class Played:
    """One run of a wave."""

    case: Case
    turn: str
    run_id: str
    messages: int
    """How many messages it must lead to."""
    state: str
    """The state of the run; empty if it did not end in time."""


@dataclass
class End:
    """What is wrong with a run, by class."""

    case: str
    turn: str
    run_key: str
    folder: str
    wrong: dict[str, str] = field(default_factory=dict)


@dataclass
class WaveEnd:
    """All runs of a wave."""

    wave: Wave
    ends: list[End]
    seconds: float

    @property
    def wrong(self) -> list[End]:
        return [one for one in self.ends if one.wrong]

    def record(self) -> Record:
        wrong = [
            {"test": one.case, "turn": one.turn, "run_key": one.run_key, "folder": one.folder, **one.wrong}
            for one in self.wrong
        ]
        faults = [{"what": one.what, "how": one.how, "text": str(one)} for one in self.wave.faults]
        return {
            "layout": self.wave.layout.name,
            "wave": self.wave.number,
            "faults": faults,
            "runs": len(self.ends),
            "seconds": round(self.seconds, 1),
            "wrong": wrong,
        }


def judge(deployment: Deployment, played: Played, kills: list[float]) -> End:
    """Compare Airflow, folder, rows, messages, traces and cluster with what a run should have come to."""
    run = Run(played.case.name, played.case.name, played.run_id, deployment.name)
    folder = RunFolder(RunFolder.of(run, deployment.runs).path, believe_unsigned=True)
    end = End(played.case.name, played.turn, run.key, folder.path)
    state, status, reason, verdict = EXPECTED[played.turn]
    if not played.state:
        end.wrong["stuck"] = "the run did not end"
    elif played.state != state:
        end.wrong["state"] = f"{played.state} instead of {state}"
    end.wrong |= _wrong_workload(folder.read_workload(), status, reason)
    end.wrong |= _wrong_traces(deployment, run, played.case)
    end.wrong |= _wrong_rows(deployment, run, (status, reason, verdict), played.turn)
    end.wrong |= _wrong_messages(deployment, run, played.messages, kills)
    if left := left_in(deployment, run.test):
        end.wrong["pods"] = ", ".join(left)
    return end


def _wrong_workload(found: Workload | None, status: str, reason: str | None) -> dict[str, str]:
    if found is None:
        return {"reason": "the folder has no end of the workload"}
    wrong = {}
    if (found.status, found.failure_reason) != (status, reason):
        wrong["reason"] = f"{found.status} {found.failure_reason} ({found.detail}) instead of {status} {reason}"
    if found.attempts != 1:
        wrong["attempts"] = f"{found.attempts} attempts"
    return wrong


def _wrong_traces(deployment: Deployment, run: Run, case: Case) -> dict[str, str]:
    counts = {word: len(list(deployment.services.shared.glob(f"{run.key}-{word}-*"))) for word in ("began", "ended")}
    return {} if set(counts.values()) == {case.hosts} else {"workload": f"{counts} on {case.hosts} hosts"}


def _wrong_rows(deployment: Deployment, run: Run, wanted: tuple[str, str | None, str], turn: str) -> dict[str, str]:
    wrong = {}
    with deployment.services.warehouse.open(deployment.name) as warehouse:
        rows = [row for row in warehouse.runs.newest(run.test, 1000) if row.uuid == run.key]
        found = [(str(row.job_status), row.failure_reason, row.verdict) for row in rows]
        if found != [wanted]:
            wrong["rows"] = f"{found} instead of {[wanted]}"
        values = [row.value for row in warehouse.metrics.of_run(run.key) if row.metric == METRIC]
    if values != [0.0 if turn == BREAKS else float(turn)]:
        wrong["metrics"] = f"{METRIC} {values}"
    return wrong


def _wrong_messages(deployment: Deployment, run: Run, wanted: int, kills: list[float]) -> dict[str, str]:
    taken = [one for one in deployment.services.mail.ledger.taken if one.key.startswith(run.key)]
    counts = Counter(one.key for one in taken)
    # a server that was answered too late, or a sender that was killed then, makes a copy that nobody can avoid
    excused = sum(one.answer_lost or killed_then(one.at, [(at, "") for at in kills]) for one in taken)
    copies = sum(counts.values()) - len(counts)
    if len(counts) == wanted and copies <= excused:
        return {}
    return {"messages": f"{dict(counts)} instead of {wanted}"}


def left_in(deployment: Deployment, test: str) -> list[str]:
    """Return the pods and Jobs of a test that stay in the cluster."""
    api = client.CoreV1Api(config.new_client_from_config(deployment.services.cluster.ensure_running()))
    batch, label = client.BatchV1Api(api.api_client), f"ml-metrics/test={test}"
    deadline = time.monotonic() + LEFT_SECONDS
    while True:
        found = [
            *api.list_namespaced_pod("default", label_selector=label).items,
            *batch.list_namespaced_job("default", label_selector=label).items,
        ]
        if not found or time.monotonic() > deadline:
            return [one.metadata.name for one in found]
        time.sleep(0.5)
