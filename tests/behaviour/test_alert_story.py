"""Thirty runs of one test and all alerts about them, sent with real settings and connections to services on loopback,
and compared with golden files."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email import message_from_bytes, policy
from pathlib import Path

import pytest

from golden import check
from ml_metrics.airflow import load_mail_settings, warehouse
from ml_metrics.alerts import send_due_digests, send_pending
from ml_metrics.core.model import JobStatus
from ml_metrics.warehouse.messages import Messages
from servers.channels import Answer, MailServer, Service, http_service, mail_server
from servers.github import GitHub
from simulated_runs import GOOD, NAME, SimulatedRun, failed, good, notify_about, run_of, simulate, with_test, without

SECRETS = {"SG.story-key", "smtp-story-password", "ghp_story-token", "T0STORY/B0STORY/webhook-path"}
QUARANTINE = {"reason": "the data set moves", "owner": "vision-team"}
# the mails contain these dates, so they must not depend on the current day
ACTIVE = {"quarantine": {**QUARANTINE, "until": "2999-12-31"}}
EXPIRED = {"quarantine": {**QUARANTINE, "until": "2026-01-25"}}

STORY = [
    good(),
    good(),
    good(),
    good(),
    good(),
    good("bad: the accuracy is low", accuracy_final=0.9),
    good("as bad", accuracy_final=0.9),
    good("worse: the loss is high, too", accuracy_final=0.9, loss_final=0.3),
    good("one of the two is bad again", accuracy_final=0.9),
    good("passing again"),
    good(),
    failed(JobStatus.FAILURE, "ExitCode:3"),
    failed(JobStatus.FAILURE, "ExitCode:3"),
    failed(JobStatus.TIMEOUT, "DeadlineExceeded"),
    good("passing again"),
    good("NaN", loss_final=float("nan")),
    without("throughput_final", "worse: a required metric is missing"),
    good("passing again"),
    good("a warning", memory_final=5.0),
    good(),
    SimulatedRun("nothing was recorded", states={"load_history": "failed"}),
    good("passing again"),
    failed(JobStatus.MISSED, "ImagePullBackOff"),
    with_test(good("bad in quarantine", accuracy_final=0.8), **ACTIVE),
    with_test(good("passing in quarantine"), **ACTIVE),
    with_test(good("bad after the quarantine", accuracy_final=0.8), **EXPIRED),
    good("worse, and acknowledged", accuracy_final=0.8, loss_final=0.4),
    SimulatedRun("the gate is killed", gate_is_killed=True),
    good("passing again"),
    SimulatedRun("bad on another image, while two channels are down", image="gcr.io/my-project/mnist@sha256:bbbb",
        metrics={**GOOD, "accuracy_final": 0.5}),
]  # fmt: skip


@dataclass
class World:
    """All services that receive messages."""

    smtp: MailServer
    sendgrid: Service
    webhook: Service
    github_requests: Service
    github: GitHub
    outbox: Path
    seen: dict[str, int] = field(default_factory=dict)

    def new(self, kind: str, received: list[str]) -> list[str]:
        """Return the messages since the last call."""
        start = self.seen.get(kind, 0)
        self.seen[kind] = len(received)
        return received[start:]

    def received(self) -> Iterator[str]:
        """Yield one line for each message that a service received since the last call."""
        mails = [mail.content for mail in self.smtp.mails]
        for raw in self.new("smtp", mails):
            mail = message_from_bytes(raw, policy=policy.default)
            yield f"smtp to {mail['To']}: {mail['Subject']}"
        for request in self.new("sendgrid", self.sendgrid.requests):
            to = ", ".join(one["email"] for one in request.body["personalizations"][0]["to"])
            yield f"sendgrid to {to}: {request.body['subject']}"
        for request in self.new("webhook", self.webhook.requests):
            yield f"webhook: {request.body['text']}"
        for request in self.new("github", self.github_requests.requests):
            if request.method != "GET":
                what = request.body.get("state") or request.body.get("title") or "comment"
                yield f"github: {request.method} {request.path.removeprefix('/repos/owner/repo/')}: {what}"
        for path in self.new("outbox", sorted(self.outbox.glob("*.eml"), key=lambda path: path.stat().st_mtime_ns)):
            mail = message_from_bytes(path.read_bytes(), policy=policy.default)
            yield f"outbox: {mail['Subject']}"

    def last_text(self) -> str:
        """Return the plain text of the newest mail."""
        mail = message_from_bytes(self.smtp.mails[-1].content, policy=policy.default)
        body = mail.get_body(("plain",))
        assert body is not None
        return "\n".join(line.rstrip() for line in body.get_content().splitlines())


@contextmanager
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    with mail_server() as smtp, http_service() as sendgrid, http_service() as webhook, http_service() as github:
        sendgrid.answers(Answer(202, None, {"X-Message-Id": "id"}))
        webhook.answers(Answer(200))
        connections = {
            "SMTP_DEFAULT": {
                "conn_type": "smtp", "host": "127.0.0.1", "port": smtp.port, "login": "me",
                "password": "smtp-story-password",
                "extra": {"disable_ssl": True, "disable_tls": True, "from_email": "ml-metrics@example.com"},
            },
            "SENDGRID_DEFAULT": {
                "conn_type": "sendgrid", "host": sendgrid.url, "password": "SG.story-key",
                "extra": {"from_email": "ml-metrics@example.com"},
            },
            "ML_METRICS_WEBHOOK": {
                "conn_type": "http", "host": f"{webhook.url}/services", "password": "T0STORY/B0STORY/webhook-path",
            },
            "ML_METRICS_GITHUB": {
                "conn_type": "http", "host": github.url, "password": "ghp_story-token",
                "extra": {"repository": "owner/repo"},
            },
        }  # fmt: skip
        for name, connection in connections.items():
            monkeypatch.setenv(f"AIRFLOW_CONN_{name}", json.dumps(connection))
        smtp.right_password = b"smtp-story-password"
        monkeypatch.setenv("AIRFLOW__ML_METRICS__CHANNELS", "outbox, smtp, sendgrid, webhook, github")
        monkeypatch.setenv("AIRFLOW__ML_METRICS__MAILS_PER_HOUR", "100")
        outbox = tmp_path / "airflow" / "ml_metrics" / "outbox"
        yield World(smtp, sendgrid, webhook, github, GitHub(github), outbox)


def without_paths(text: str, tmp_path: Path) -> str:
    return re.sub(r"http://127\.0\.0\.1:\d+", "http://LOOPBACK", text.replace(str(tmp_path), "TMP"))


@pytest.fixture
def logs(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """The log of all libraries, at level DEBUG."""
    caplog.set_level("DEBUG")
    return caplog


def test_thirty_runs_are_reported_exactly_as_documented(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, logs: pytest.LogCaptureFixture
) -> None:
    diary, letters = [], []
    with world(tmp_path, monkeypatch) as services:
        for number, simulated in enumerate(STORY, start=1):
            if number == 27:
                with warehouse() as open_warehouse:
                    assert open_warehouse.incidents.acknowledge(NAME, by="a new user", note="a bad disk")
            if number == 30:
                services.sendgrid.answers(
                    Answer(401, {"errors": [{"message": "The provided authorization grant is invalid"}]})
                )
                services.smtp.refused = dict.fromkeys(("vision@example.com", "mnist@example.com"), "550 no such user")
            simulate(number, simulated)
            notify_about(number, simulated)
            lines = list(services.received())
            diary += [f"{number:02}  {simulated.description}", *(f"      {line}" for line in lines), *waiting(number)]
            if any(line.startswith("smtp") for line in lines) and number != 30:
                letters += [f"--- {number:02}  {simulated.description}", services.last_text(), ""]
            notify_about(number, simulated)  # the task is cleared, or the callback runs twice
            again = [line for line in services.received() if number != 30 or not line.startswith(("smtp", "sendgrid"))]
            assert again == [], f"run {number} was reported twice"
        services.sendgrid.answers(Answer(202))
        services.smtp.refused = {}
        monkeypatch.setattr(Messages, "moment", lambda _: datetime.now(UTC) + timedelta(minutes=10))
        with warehouse() as open_warehouse:
            assert send_pending(open_warehouse, load_mail_settings()).pending == 0
            diary += ["the sender", *(f"      {line}" for line in services.received())]
            tomorrow = datetime.now(UTC) + timedelta(days=1, minutes=5)
            assert send_due_digests(open_warehouse, load_mail_settings(), tomorrow) == 1
            assert send_due_digests(open_warehouse, load_mail_settings(), tomorrow) == 0
        diary += ["the digest", *(f"      {line}" for line in services.received())]
        letters += [
            "--- the digest",
            re.sub(r"since \d{4}-\d\d-\d\d(?: \d\d:\d\d)?", "since TODAY", services.last_text()),
            "",
        ]
        issues = services.github.issues
        everything = [
            str(one) for one in (services.sendgrid.requests, services.webhook.requests, services.smtp.mails, issues)
        ]
    check("alerts/story.txt", without_paths("\n".join(diary), tmp_path) + "\n")
    # the incident of a run that was not recorded began when this test ran
    text = re.sub(r"broken since (?!2026-01-)\d{4}-\d\d-\d\d \d\d:\d\d UTC", "broken since TODAY", "\n".join(letters))
    check("alerts/letters.txt", without_paths(text, tmp_path))
    assert [(issue["title"], issue["state"]) for issue in issues] == [(f"ML Metrics: {NAME}", "open")]
    rows_are_whole()
    seen = [
        *(path.read_text(errors="replace") for path in files(tmp_path)),
        *(mail_text(services)),
        logs.text,
        everything[3],
    ]
    for secret in SECRETS:
        assert not any(secret in text for text in seen), f"{secret} was seen"
    assert "SG.story-key" in everything[0], "the search would find a secret where there is one"


def waiting(number: int) -> list[str]:
    """Return this run's messages that the warehouse lists as not sent."""
    with warehouse() as open_warehouse:
        found = open_warehouse.messages.waiting(datetime.now(UTC) - timedelta(days=1))
    return [
        f"      ({one.state}{f': {one.held_because}' if one.held_because else ''})"
        for one in found
        if one.run_key == run_of(number).key
    ]


def rows_are_whole() -> None:
    """Assert that no fault of a channel changed the records of the runs."""
    with warehouse() as open_warehouse:
        runs = open_warehouse.runs.newest(NAME, 100)
        assert len(runs) == 29  # one of the thirty could not be recorded
        assert len({run.uuid for run in runs}) == 29
        assert [row.metric for row in open_warehouse.metrics.of_run(run_of(30).key)].count("accuracy_final") == 1


def files(tmp_path: Path) -> list[Path]:
    """Return all mails, files of run folders, and the warehouse."""
    return [path for path in tmp_path.rglob("*") if path.is_file()]


def mail_text(services: World) -> list[str]:
    return [mail.content.decode(errors="replace") for mail in services.smtp.mails]
