"""What stands for MLflow's tracking server, with the parts of its REST API that the channel uses.

`tests/integrations/test_trackers.py` does the same with the real server.
"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import parse_qs, urlsplit

from servers.channels import Answer, Request, Service

API = "/api/2.0/mlflow/"


class MlflowService:
    """The experiments and runs of a tracking server."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.experiments: dict[str, str] = {"Default": "0"}
        self.runs: dict[str, dict[str, Any]] = {}
        service.answer = self.answer

    def add_run(self, run_id: str, start_time: int, **tags: str) -> None:
        """Add a run that a workload has started."""
        self._add(run_id, {"experiment_id": "0", "start_time": start_time, "tags": []})
        self.runs[run_id]["tags"].update(tags)

    def answer(self, request: Request) -> Answer:
        """Return the answer to a request."""
        parts = urlsplit(request.path)
        assert parts.path.startswith(API), parts.path
        call = getattr(self, parts.path.removeprefix(API).replace("/", "_").replace("-", "_"))
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        body = request.body if request.method == "POST" else query
        found = call(**body)
        return found if isinstance(found, Answer) else Answer(200, found)

    def experiments_search(self, filter: str, max_results: int) -> Any:  # noqa: A002  (names of the API)
        (name,) = re.findall("name = '(.*)'", filter)
        known = self.experiments.get(name)
        return {"experiments": [{"experiment_id": known, "name": name}]} if known else {}

    def experiments_create(self, name: str) -> Any:
        self.experiments[name] = str(len(self.experiments))
        return {"experiment_id": self.experiments[name]}

    def runs_search(self, experiment_ids: list[str], filter: str, max_results: int) -> Any:  # noqa: A002
        ((name, value),) = re.findall("tags.`(.*)` = '(.*)'", filter)
        found = [
            {"info": run["info"]}
            for run in self.runs.values()
            if run["tags"].get(name) == value and run["info"]["experiment_id"] in experiment_ids
        ]
        return {"runs": found} if found else {}

    def runs_create(self, **body: Any) -> Any:
        return {"run": {"info": self._add(f"{len(self.runs):032x}", body)["info"]}}

    def runs_get(self, run_id: str) -> Any:
        if run_id not in self.runs:
            return Answer(404, {"error_code": "RESOURCE_DOES_NOT_EXIST", "message": f"Run '{run_id}' not found"})
        run = self.runs[run_id]
        tags = [{"key": key, "value": value} for key, value in run["tags"].items()]
        return {"run": {"info": run["info"], "data": {"tags": tags}}}

    def runs_log_batch(self, run_id: str, metrics: list[Any], tags: list[Any]) -> Any:
        run = self.runs[run_id]
        run["tags"].update({one["key"]: one["value"] for one in tags})
        run["metrics"].update({one["key"]: one["value"] for one in metrics})
        return {}

    def runs_update(self, run_id: str, status: str, end_time: int) -> Any:
        self.runs[run_id]["info"].update(status=status, end_time=end_time)
        return {}

    def _add(self, run_id: str, body: dict[str, Any]) -> dict[str, Any]:
        info = {
            "run_id": run_id,
            "experiment_id": body["experiment_id"],
            "start_time": body["start_time"],
            "lifecycle_stage": "active",
            "status": "RUNNING",
        }
        tags = {one["key"]: one["value"] for one in body["tags"]}
        self.runs[run_id] = {"info": info, "tags": tags, "metrics": {}}
        return self.runs[run_id]
