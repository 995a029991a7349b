"""MLflow's tracking server: the verdicts of a run, as tags and metrics of the run to which its workload logged.

A workload that names no run of its own, or one that is not its own, has a run in the experiment of the connection. Only
the connection names the server, so that no workload receives its key.
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from ml_metrics.alerts.message import Message, Result, from_text
from ml_metrics.core.deadline import Deadline, within
from ml_metrics.core.errors import UndeliveredError
from ml_metrics.core.http import Client, basic

SERVICE = "MLflow"
EXPERIMENT = "ml-metrics"
"""The experiment of runs that no workload has started, unless the connection names one."""
API = "api/2.0/mlflow"
RUN_KEY = "ml_metrics.run_key"
MAX_NAME, MAX_VALUE = 250, 4_000
CLOCKS_MS = 120_000
"""How far the clocks of the server and the cluster may differ."""


@dataclass(frozen=True, slots=True)
class Mlflow:
    """A tracking server."""

    address: str
    login: str = ""
    password: str = field(default="", repr=False)
    experiment: str = EXPERIMENT
    name: str = "mlflow"

    @property
    def secrets(self) -> tuple[str, ...]:
        """The password or token, and the header that contains it."""
        return (self.password, self._authorization.partition(" ")[2]) if self.password else ()

    def send(self, message: Message, timeout: float) -> str:
        """Log the result of a run. Repeating it changes nothing."""
        result = from_text(message.text)
        if result is None:
            raise UndeliveredError(f"{SERVICE}: the document with the result of the run is gone")
        return within(timeout, SERVICE, lambda deadline: self._log(result, deadline))

    def _log(self, result: Result, deadline: Deadline) -> str:
        headers = {"Authorization": self._authorization} if self.password else {}
        server = _Server(Client(SERVICE, deadline, headers, self.secrets), self.address)
        run, own = server.named_run(result), False
        if run is None:
            run, own = server.own_run(result, self.experiment), True
        server.call("POST", "runs/log-batch", {"run_id": run, "metrics": metrics_of(result), "tags": tags_of(result)})
        if own:
            status = "FINISHED" if result.passed else "FAILED"
            server.call("POST", "runs/update", {"run_id": run, "status": status, "end_time": result.ended_at})
        return f"logged to run {run}"

    @property
    def _authorization(self) -> str:
        return basic(self.login, self.password) if self.login else f"Bearer {self.password}"


@dataclass(frozen=True, slots=True)
class _Server:
    client: Client
    address: str

    def call(self, method: str, path: str, body: Any = None) -> Any:
        answer = self.client.send(method, f"{self.address}/{API}/{path}", body, read=True)
        return answer.content if isinstance(answer.content, dict) else {}

    def named_run(self, result: Result) -> str | None:
        """The run that the workload names, if it began while the workload ran and belongs to no other run."""
        named = result.tracked.get("mlflow", "")
        if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", named):
            return None
        try:
            run = self.call("GET", f"runs/get?run_id={quote(named)}").get("run") or {}
        except UndeliveredError as error:
            if error.transient:
                raise
            return None
        info, tags = run.get("info") or {}, {one.get("key"): one.get("value") for one in _list(run, "data", "tags")}
        began = int(info.get("start_time") or 0)
        in_time = result.began_at - CLOCKS_MS <= began <= result.ended_at + CLOCKS_MS
        is_own = tags.get(RUN_KEY, result.run_key) == result.run_key and info.get("lifecycle_stage") == "active"
        return named if in_time and is_own else None

    def own_run(self, result: Result, experiment: str) -> str:
        """The run that an earlier attempt created, or a new one."""
        wanted = {"filter": f"name = '{experiment}'", "max_results": 1}
        experiments = self.call("POST", "experiments/search", wanted).get("experiments") or []
        experiments = experiments or [self.call("POST", "experiments/create", {"name": experiment})]
        known = _text(experiments[0], "experiment_id")
        own = {"experiment_ids": [known], "filter": f"tags.`{RUN_KEY}` = '{result.run_key}'", "max_results": 1}
        found = self.call("POST", "runs/search", own).get("runs") or []
        if not found:
            body = {
                "experiment_id": known,
                "run_name": f"{result.test} {result.run_id}"[:MAX_NAME],
                "start_time": result.began_at,
                "tags": [{"key": RUN_KEY, "value": result.run_key}],
            }
            found = [self.call("POST", "runs/create", body).get("run") or {}]
        return _text(found[0].get("info"), "run_id")


def metrics_of(result: Result) -> list[dict[str, Any]]:
    """The metrics of a run in the form of MLflow, under names that no program uses."""
    named = {_name(f"ml_metrics/{name}"): value for name, value in result.metrics.items()}
    return [
        {"key": name, "value": value, "timestamp": result.ended_at, "step": 0}
        # MLflow accepts 1,000 metrics in a request
        for name, value in list(named.items())[:500]
    ]


def tags_of(result: Result) -> list[dict[str, str]]:
    # MLflow accepts 100 tags in a request
    verdicts = {f"verdict.{name}": text for name, text in list(result.verdicts.items())[:80]}
    tags = {
        "run_key": result.run_key,
        "test": result.test,
        "deployment": result.deployment,
        "verdict": result.verdict,
        "reasons": result.reasons,
        "link": result.link,
        **result.facts,
        **verdicts,
    }
    return [{"key": _name(f"ml_metrics.{name}"), "value": text[:MAX_VALUE]} for name, text in tags.items() if text]


def _name(text: str) -> str:
    """A name that MLflow accepts: letters, digits, and a few signs, and in the form of a plain path."""
    name = re.sub(r"[^\w.\- /]", "_", text, flags=re.ASCII)[:MAX_NAME]
    return name if posixpath.normpath(name) == name else name.replace("/", "_")


def _text(record: Any, name: str) -> str:
    value = record.get(name) if isinstance(record, dict) else None
    if not isinstance(value, str) or not value:
        raise UndeliveredError(
            f"{SERVICE}: its answer has no {name}: is the host of the connection its tracking server?"
        )
    return value


def _list(record: Any, *names: str) -> list[dict[str, Any]]:
    for name in names:
        record = record.get(name) if isinstance(record, dict) else None
    return [one for one in record if isinstance(one, dict)] if isinstance(record, list) else []
