"""The gates for pull requests: valid for GitHub and Cloud Build, and their shell runs as both run it.

What an expression or a substitution stands for is filled in here; one that neither service knows is an error. Airflow's
REST API is a server on loopback, and `gcloud` a program that prints a token. Everything else is real.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from ml_metrics.judge.compare.plan import FEWEST_RUNS
from ml_metrics.pipeline.experiments import COMPARE
from servers.channels import Answer, Request, Service, http_service

PROJECT = Path(__file__).parents[2]
CI = PROJECT / "deploy" / "ci"
PAGE = PROJECT / "docs" / "compare.md"
GITHUB, CLOUD_BUILD = "github-workflows", "cloudbuild"
EXPRESSION = re.compile(r"\$\{\{\s*(.*?)\s*\}\}")
SUBSTITUTION = re.compile(r"\$(?:(?P<dollar>\$)|\{(?P<braced>\w+)\}|(?P<name>[A-Z_][A-Z0-9_]*))")
WORSE = "### t: app:2 compared with app:1\n\n**1 worse**"


@dataclass(frozen=True)
class Workflow:
    name: str
    kind: str
    text: str

    @property
    def content(self) -> dict[str, Any]:
        found: dict[str, Any] = yaml.safe_load(self.text)
        return found


def workflows() -> Iterator[Workflow]:
    yield Workflow("compare-github.yaml", GITHUB, (CI / "compare-github.yaml").read_text())
    yield Workflow("compare-cloudbuild.yaml", CLOUD_BUILD, (CI / "compare-cloudbuild.yaml").read_text())
    for block in re.findall(r"^```yaml\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL):
        content = yaml.safe_load(block)
        if "jobs" in content:
            yield Workflow("page-github", GITHUB, block)
        elif "steps" in content:
            yield Workflow("page-cloudbuild", CLOUD_BUILD, block)


WORKFLOWS = {one.name: one for one in workflows()}


def schema_problems(kind: str, text: str, folder: Path) -> str:
    file = folder / "workflow.yaml"
    file.write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{kind}", str(file)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in {0, 1}, done.stderr
    return done.stdout + done.stderr if done.returncode else ""


@pytest.mark.parametrize("name", WORKFLOWS)
def test_the_services_accept_them(name: str, tmp_path: Path) -> None:
    one = WORKFLOWS[name]
    assert schema_problems(one.kind, one.text, tmp_path) == ""


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        ("compare-github.yaml", "runs-on:", "run-on:"),
        ("compare-github.yaml", "timeout-minutes: 360", "timeout-minutes: six hours"),
        ("page-github", "uses: actions/checkout@v4", "use: actions/checkout@v4"),
        ("compare-cloudbuild.yaml", "entrypoint:", "entry_point:"),
        ("page-cloudbuild", "args:", "arguments:"),
    ],
)
def test_the_schemas_find_mistakes(name: str, right: str, wrong: str, tmp_path: Path) -> None:
    one = WORKFLOWS[name]
    assert right in one.text
    assert schema_problems(one.kind, one.text.replace(right, wrong), tmp_path) != ""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository in which the commit `head` trains slower than `base`."""
    folder = tmp_path / "checkout"
    folder.mkdir()
    git(folder, "init", "-q")
    for level in (1.0, 1.3):
        (folder / "measure.sh").write_text(
            f'#!/bin/sh\necho "$CANDIDATE" >>"{tmp_path}/measured"\n'
            f'n=$(wc -l <"{tmp_path}/measured")\necho "{{\\"step_time\\": {level}0$((n % 3))}}"\n'
        )
        (folder / "measure.sh").chmod(0o755)
        git(folder, "add", "measure.sh")
        git(folder, "commit", "-q", "-m", f"level {level}")
    return folder


def git(folder: Path, *argv: str) -> str:
    who = ["-c", "user.name=a-new-user", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false"]
    done = subprocess.run(["git", *who, *argv], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def airflow() -> Iterator[Service]:
    """Airflow's REST API: each run has ended at once, and the candidate is worse."""

    def answer(request: Request) -> Answer:
        if request.method == "POST":
            return Answer(200, {"dag_run_id": "manual__1"})
        comment = request.path.endswith("/xcomEntries/comment")
        return Answer(200, {"value": WORSE} if comment else {"state": "failed"})

    with http_service() as running:
        running.answer = answer
        yield running


def run(command: list[str], folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {name: os.environ[name] for name in ("HOME", "LANG") if name in os.environ}
    path = f"{folder.parent / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    return subprocess.run(
        command,
        cwd=folder,
        env={**environment, "PATH": path, **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def run_github(one: Workflow, folder: Path, context: Mapping[str, str]) -> tuple[subprocess.CompletedProcess[str], str]:
    """Run the last step as GitHub's runner does, and return what it ended with, and the summary of the job."""
    step = one.content["jobs"]["compare"]["steps"][-1]

    def filled(text: str) -> str:
        return EXPRESSION.sub(lambda found: context[found[1]], text)

    script, summary = folder.parent / "step.sh", folder.parent / "summary.md"
    script.write_text(filled(step["run"]))
    variables = {name: filled(value) for name, value in step.get("env", {}).items()}
    done = run(["bash", "-e", str(script)], folder, GITHUB_STEP_SUMMARY=str(summary), **variables)
    return done, summary.read_text() if summary.exists() else ""


def run_cloud_build(one: Workflow, folder: Path, given: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run the last step as Cloud Build does: `$$` is a dollar, and any other name is a substitution."""
    known = {**one.content.get("substitutions", {}), **given}

    def filled(text: str) -> str:
        return SUBSTITUTION.sub(lambda found: found["dollar"] or known[found["braced"] or found["name"]], text)

    step = one.content["steps"][-1]
    return run([step["entrypoint"], *map(filled, step["args"])], folder)


def test_the_workflow_of_github_shows_the_answer(checkout: Path, airflow: Service) -> None:
    shutil.copytree(CI, checkout / ".github" / "workflows")
    context = {
        "vars.AIRFLOW_URL": airflow.url,
        "secrets.AIRFLOW_TOKEN": "secret",
        "github.event.pull_request.head.sha": "0a1b2c",
    }
    done, summary = run_github(WORKFLOWS["compare-github.yaml"], checkout, context)
    assert (done.returncode, summary) == (1, f"{WORSE}\n"), done.stderr
    assert "secret" not in done.stdout + done.stderr
    started = airflow.requests[0]
    assert (started.path, started.headers["Authorization"]) == (f"/api/v2/dags/{COMPARE}/dagRuns", "Bearer secret")
    assert started.body["conf"] == {
        "test": "resnet-nightly",
        "base": "ghcr.io/my-org/app:stable",
        "candidate": "ghcr.io/my-org/app:0a1b2c",
        "metrics": ["step_time_p50"],
    }


def test_the_step_of_cloud_build_shows_the_answer(checkout: Path, airflow: Service) -> None:
    shutil.copytree(CI, checkout / "deploy" / "ci")
    gcloud = checkout.parent / "bin" / "gcloud"
    gcloud.parent.mkdir()
    gcloud.write_text('#!/bin/sh\n[ "$*" = "auth print-access-token" ] && echo token-of-the-build\n')
    gcloud.chmod(0o755)
    given = {"_AIRFLOW_URL": airflow.url, "COMMIT_SHA": "0a1b2c"}
    done = run_cloud_build(WORKFLOWS["compare-cloudbuild.yaml"], checkout, given)
    assert (done.returncode, done.stdout) == (1, f"{WORSE}\n"), done.stderr
    assert {one.headers["Authorization"] for one in airflow.requests} == {"Bearer token-of-the-build"}
    assert airflow.requests[0].body["conf"] == {
        "test": "resnet-nightly",
        "base": "us-docker.pkg.dev/my-project/images/app:stable",
        "candidate": "us-docker.pkg.dev/my-project/images/app:0a1b2c",
        "metrics": ["step_time_p50"],
    }


def test_a_runner_with_both_versions_at_hand_compares_them(checkout: Path) -> None:
    base, head = git(checkout, "rev-list", "--reverse", "HEAD").split()
    context = {"github.event.pull_request.base.sha": base, "github.event.pull_request.head.sha": head}
    done, summary = run_github(WORKFLOWS["page-github"], checkout, context)
    assert done.returncode == 1, done.stderr
    assert "| +30 % |" in summary
    assert "**1 worse**" in summary
    assert "<failure" in (checkout / "compare.xml").read_text()
    _, *measured = (checkout / "compare.jsonl").read_text().splitlines()
    assert len(measured) >= FEWEST_RUNS, "more on a machine whose speed varies"
    assert set((checkout.parent / "measured").read_text().split()) == {base, head}


def test_a_build_with_both_images_at_hand_compares_them(checkout: Path) -> None:
    """The images differ by what `measure.sh` does with their names: both are the same here, and found equivalent."""
    done = run_cloud_build(WORKFLOWS["page-cloudbuild"], checkout, {"COMMIT_SHA": "0a1b2c"})
    assert done.returncode == 0, done.stderr
    assert set((checkout.parent / "measured").read_text().split()) == {"app:stable", "app:0a1b2c"}
    lines = [json.loads(line) for line in (checkout / "compare.jsonl").read_text().splitlines()]
    assert {line["arm"] for line in lines[1:]} == {"base", "candidate"}
