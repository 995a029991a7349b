"""Starts a comparison or a search in Airflow, waits for its answer, and prints it as a Markdown comment.

    python3 experiment.py ml-metrics-compare test=resnet base=app:1 candidate=app:2 metrics='["step_time_p50"]'

AIRFLOW_URL is the address of Airflow, AIRFLOW_TOKEN a token of its REST API. Without one, each request has a new token
of gcloud, as Cloud Composer takes them. EXPERIMENT_SECONDS is the longest wait, six hours if it is not set. Exit code
1: a metric is worse, or there is no answer; 2: Airflow cannot be asked. It needs Python's standard library only.
"""

# ruff: noqa: S310  (the address is the administrator's; the output is the comment)

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

POLL_SECONDS = 15
REQUEST_SECONDS = 30
NOT_TEXT = {"effect", "max_runs", "metrics"}
MOST_FAILURES = 20
"""Requests that fail in a row before Airflow counts as lost: it may be restarted meanwhile."""


def main(dag_id: str, fields: list[str]) -> int:
    """Start the run, and wait for it."""
    conf = {name: value_of(name, value) for name, _, value in (field.partition("=") for field in fields)}
    runs = f"dags/{urllib.parse.quote(dag_id)}/dagRuns"
    run_id = asked("POST", runs, {"conf": conf, "logical_date": None})["dag_run_id"]
    run = f"{runs}/{urllib.parse.quote(run_id, safe='')}"
    print(f"{os.environ['AIRFLOW_URL'].rstrip('/')}/dags/{dag_id}/runs/{run_id}", file=sys.stderr, flush=True)
    state = ended(run, time.monotonic() + float(os.environ.get("EXPERIMENT_SECONDS", "21600")))
    try:
        print(asked("GET", f"{run}/taskInstances/give_answer/xcomEntries/comment")["value"])
    except urllib.error.HTTPError:
        print(f"The run of {dag_id} ended as {state} without an answer: see the log of its task run_trials.")
    return 0 if state == "success" else 1


def ended(run: str, until: float) -> str:
    """Return the state in which the run ended."""
    failures = 0
    while time.monotonic() < until:
        try:
            state = asked("GET", run)["state"]
            failures = 0
        except OSError:
            failures += 1
            if failures >= MOST_FAILURES:
                raise
            state = ""
        if state in {"success", "failed"}:
            return state
        time.sleep(POLL_SECONDS)
    raise TimeoutError("the run has not ended in time; it goes on in Airflow")


def asked(method: str, path: str, body: dict[str, Any] | None = None) -> Any:
    """Return what Airflow's REST API answers."""
    request = urllib.request.Request(
        f"{os.environ['AIRFLOW_URL'].rstrip('/')}/api/v2/{path}",
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={"Authorization": f"Bearer {token()}", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=REQUEST_SECONDS) as answer:
        return json.load(answer)


def token() -> str:
    """Return a token of the REST API."""
    if given := os.environ.get("AIRFLOW_TOKEN"):
        return given
    command = ["gcloud", "auth", "print-access-token"]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=REQUEST_SECONDS).stdout.strip()


def value_of(name: str, text: str) -> Any:
    """Return a field as text, or as JSON if it is one of those that are not."""
    return json.loads(text) if name in NOT_TEXT else text


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1], sys.argv[2:]))
    except IndexError:
        sys.exit(__doc__)
    except KeyError as error:
        print(f"the variable {error} is not set, or Airflow's answer has no such key", file=sys.stderr)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        print(f"Airflow cannot be asked: {error}", file=sys.stderr)
    sys.exit(2)
