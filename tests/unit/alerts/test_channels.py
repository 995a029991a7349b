from __future__ import annotations

from dataclasses import replace
from email import message_from_bytes, policy
from pathlib import Path
from typing import Any

import pytest

from ml_metrics.alerts import Smtp
from ml_metrics.alerts.channels.error_reporting import ErrorReporting
from ml_metrics.alerts.channels.github import GitHubIssues
from ml_metrics.alerts.channels.mail import Outbox, as_mail
from ml_metrics.alerts.channels.sendgrid import SendGrid
from ml_metrics.alerts.channels.webhook import Webhook
from ml_metrics.alerts.compose import compose
from ml_metrics.alerts.message import Message, MessageKind
from ml_metrics.core.errors import UndeliveredError
from ml_metrics.store import storage
from servers.channels import Answer, MailServer, Service
from servers.github import GitHub
from unit.alerts.reports import JOB, LOSS, REPORT, report_of_kind

MESSAGE = compose(REPORT, ["a@example.com", "b@example.com", "a@example.com"], "tests@example.com")
RECOVERED = compose(report_of_kind(MessageKind.RECOVERED, problems=(), run_key="later"), ["a@example.com"])


def parts(raw: bytes) -> tuple[Any, str, str, list[Any]]:
    mail = message_from_bytes(raw, policy=policy.default)
    text, html = (mail.get_body((kind,)) for kind in ("plain", "html"))
    assert text is not None
    assert html is not None
    pictures = [part for part in mail.walk() if part.get_content_maintype() == "image"]
    plain, page = ("\n".join(part.get_content().splitlines()) for part in (text, html))
    return mail, plain, page, pictures


def test_a_mail_in_the_outbox_opens_in_a_mail_program(tmp_path: Path) -> None:
    path = Outbox(str(tmp_path / "outbox")).send(MESSAGE, 1)
    mail, text, html, (picture,) = parts(Path(path).read_bytes())
    assert mail["Subject"] == MESSAGE.subject
    assert mail["To"] == "a@example.com, b@example.com, a@example.com"
    assert mail["From"] == "tests@example.com"
    assert mail["Auto-Submitted"] == "auto-generated"
    assert text.strip() == MESSAGE.text.strip()
    assert html.strip() == MESSAGE.html.strip()
    assert picture["Content-ID"] == "<metric-1>"
    assert 'src="cid:metric-1"' in html
    assert LOSS.picture
    assert picture.get_content() == LOSS.picture.png


def test_an_outbox_that_cannot_be_written_raises_an_error(tmp_path: Path) -> None:
    (tmp_path / "outbox").write_text("a file")
    with pytest.raises(UndeliveredError, match="could not be saved"):
        Outbox(str(tmp_path / "outbox")).send(MESSAGE, 1)


def test_an_outbox_in_google_cloud_storage_has_one_file_for_a_message(bucket: str) -> None:
    outbox = Outbox(f"{bucket}/outbox")
    assert outbox.send(MESSAGE, 20) == outbox.send(MESSAGE, 20) == f"{bucket}/outbox/{MESSAGE.key}.eml"
    assert [file.name for file in storage.list_files(outbox.folder)] == [f"{MESSAGE.key}.eml"]
    saved = storage.read_bytes(f"{bucket}/outbox/{MESSAGE.key}.eml")
    assert message_from_bytes(saved, policy=policy.default)["Subject"] == MESSAGE.subject


def test_a_mail_server_gets_the_complete_mail_for_each_recipient(smtp: MailServer) -> None:
    Smtp("127.0.0.1", smtp.port, sender="me@example.com", implicit_tls=False, starttls=False).send(MESSAGE, 5)
    (envelope,) = smtp.mails
    assert envelope.mail_from == "tests@example.com"
    assert set(envelope.rcpt_tos) == {"a@example.com", "b@example.com"}
    raw = envelope.content
    assert isinstance(raw, bytes)
    assert parts(raw)[1].strip() == MESSAGE.text.strip()


def test_sendgrid_gets_the_documented_request(service: Service) -> None:
    service.answers(Answer(202, None, {"X-Message-Id": "id-1"}))
    message = replace(MESSAGE, sender="Nightly Tests <tests@example.com>")
    where = SendGrid("SG.key", sender="me@example.com", host=service.url).send(message, 5)
    (request,) = service.requests
    assert where == "accepted by SendGrid as id-1"
    assert (request.method, request.path) == ("POST", "/v3/mail/send")
    assert request.headers["Authorization"] == "Bearer SG.key"
    body = request.body
    assert body["personalizations"] == [{"to": [{"email": "a@example.com"}, {"email": "b@example.com"}]}]
    assert body["from"] == {"email": "tests@example.com", "name": "Nightly Tests"}
    assert body["headers"] == {"Message-ID": as_mail(MESSAGE)["Message-ID"]}, "a copy is recognised"
    assert [one["type"] for one in body["content"]] == ["text/plain", "text/html"]  # SendGrid asks for this order
    (picture,) = body["attachments"]
    assert (picture["content_id"], picture["disposition"]) == ("metric-1", "inline")


def test_sendgrid_without_a_sender_names_the_setting(service: Service) -> None:
    with pytest.raises(UndeliveredError, match="from_email"):
        SendGrid("SG.key", host=service.url).send(replace(MESSAGE, sender=""), 5)


def test_a_webhook_gets_slack_blocks(service: Service) -> None:
    service.answers(Answer(200))
    Webhook(f"{service.url}/services/T0/B0/secret").send(MESSAGE, 5)
    (request,) = service.requests
    assert request.path == "/services/T0/B0/secret"
    assert request.body["text"] == MESSAGE.subject
    headline, reasons, links = (block["text"]["text"] for block in request.body["blocks"])
    assert headline == f"*{MESSAGE.subject}*"
    assert reasons == f"• {LOSS.sentence}\n• {JOB.sentence}"
    assert "act=acknowledge|acknowledge> · <http://localhost:8080/log?a=1&b=2|logs>" in links


def test_error_reporting_groups_by_test_and_metric(service: Service) -> None:
    service.answers(Answer(200, {}))
    where = ErrorReporting("my-project", lambda: "token", host=service.url).send(MESSAGE, 5)
    assert where == "2 events in project my-project"
    loss, job = (request.body for request in service.requests)
    assert service.requests[0].path == "/v1beta1/projects/my-project/events:report"
    assert service.requests[0].headers["Authorization"] == "Bearer token"
    assert loss["message"] == f"{LOSS.sentence} ||| Logs for this run: http://localhost:8080/log?a=1&b=2"
    places = [one["context"]["reportLocation"] for one in (loss, job)]
    assert [(place["filePath"], place["functionName"]) for place in places] == [
        (MESSAGE.test, "loss_final"),
        (MESSAGE.test, "job_status"),
    ]


def test_error_reporting_ignores_recoveries_and_handles_login_errors(service: Service) -> None:
    ErrorReporting("my-project", lambda: "token", host=service.url).send(RECOVERED, 5)
    assert service.requests == []

    def no_token() -> str:
        raise RuntimeError("private key: abc")

    with pytest.raises(UndeliveredError, match=r"no access token \(RuntimeError\)$"):
        ErrorReporting("my-project", no_token, host=service.url).send(MESSAGE, 5)


def send(service: Service, message: Message) -> str:
    return GitHubIssues("owner/repo", "ghp_token", host=service.url).send(message, 5)


def test_github_has_one_issue_per_test_that_is_closed_and_reopened(service: Service) -> None:
    github = GitHub(service)
    worse = replace(MESSAGE, key="run 2-worse", kind=MessageKind.WORSE)
    again = replace(MESSAGE, key="run 4-broken")
    for message in (MESSAGE, MESSAGE, worse, RECOVERED, RECOVERED, again, replace(MESSAGE, test="another")):
        assert send(service, message).startswith("https://github.com/owner/repo/issues/")
    first, second = github.issues
    assert (first["title"], first["state"], first["labels"]) == (f"ML Metrics: {MESSAGE.test}", "open", ["ml-metrics"])
    assert [comment.count("<!-- ml-metrics") for comment in first["comments"]] == [1, 1, 1]  # worse, recovered, broken
    assert (second["title"], second["comments"]) == ("ML Metrics: another", [])
    assert github.states == [("closed", 1), ("open", 1)]
    assert {request.headers["Authorization"] for request in service.requests} == {"Bearer ghp_token"}


def test_github_does_not_open_an_issue_for_a_recovery(service: Service) -> None:
    github = GitHub(service)
    assert send(service, RECOVERED) == "the test has no issue to close"
    assert github.issues == []
