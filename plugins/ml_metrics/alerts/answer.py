"""The message with the answer of a comparison or a search: to its user, or to the readers of a test that began it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from ml_metrics.alerts.compose import compose_notice
from ml_metrics.alerts.digest import send_summary
from ml_metrics.alerts.message import Fact, MessageKind, Notice, page_of_test
from ml_metrics.alerts.settings import MailSettings
from ml_metrics.alerts.trials import Start
from ml_metrics.pipeline.experiments import is_own

if TYPE_CHECKING:
    from ml_metrics.warehouse import Warehouse


NOBODY = "the answer is sent to nobody: use a mail address as name in Airflow, or set `[ml_metrics] trial_domain`"


def send_answer(
    key: str,
    result: Mapping[str, Any],
    test: str,
    *,
    asked: tuple[str, str],
    readers: tuple[str, ...],
    mail: MailSettings,
    warehouse: Warehouse,
) -> tuple[str, ...]:
    """Send the answer once, even if this is called again, and return its recipients.

    `key` is that of the run of the experiment, `result` what its journal states, `asked` the id of the run and the user
    who triggered it, and `readers` are the addresses of the test.
    """
    run_id, user = asked
    found = mail.recipients_of(readers) if is_own(run_id) else Start((), user).recipients(mail.trial_domain)
    if found:
        notice = notice_of(key, result, test, mail.dashboard_url)
        message = compose_notice(f"{key}-{MessageKind.ANSWER}", MessageKind.ANSWER, notice, found, mail.sender)
        send_summary(message, mail, warehouse)
    return found


def notice_of(key: str, result: Mapping[str, Any], test: str, dashboard_url: str) -> Notice:
    document = dict(result.get("document") or {})
    metrics = document.get("metrics") or {}
    measured = [Fact(name, f"{one['verdict']}: {one['reason']}") for name, one in metrics.items()]
    found = []
    if document.get("good"):
        found = [Fact(name, str(document[name])) for name in ("good", "bad")]
        if between := document.get("between"):
            found.append(Fact("between", f"{', '.join(between)} (could not be measured)"))
        if (certainty := document.get("certainty")) is not None:
            found.append(Fact("certainty", f"{certainty:.1%}"))
    page = f"{dashboard_url}/experiment?{urlencode({'key': key})}"
    return Notice(
        headline=f"{result['title']}: {result['answer']}",
        sentences=(str(result["answer"]), *map(str, result.get("notes") or ())),
        items=(*measured, *found),
        buttons=(
            Fact("answer", "Open the answer", page),
            Fact("test", "Open the test", page_of_test(dashboard_url, test)),
        ),
        is_good=not result.get("failed"),
    )
