"""Closes an incident as a false alarm: a user said that it is no regression.

A message states that, so that services which opened an entry for the test close it. Recording the message closes the
incident, as a recovery does.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING

from ml_metrics.alerts.compose import compose_notice
from ml_metrics.alerts.message import Fact, Message, MessageKind, Notice, page_of_run
from ml_metrics.alerts.outbox.documents import IncidentChange
from ml_metrics.alerts.outbox.post import post
from ml_metrics.alerts.problems import level_of, short_name
from ml_metrics.alerts.settings import MailSettings
from ml_metrics.core.errors import AlertError, ConfigError
from ml_metrics.core.text import logger_of
from ml_metrics.core.values import short_hash

if TYPE_CHECKING:
    from ml_metrics.warehouse import Incident, Warehouse


log = logger_of(__name__)


def close_as_no_regression(
    warehouse: Warehouse, test: str, *, by: str, reason: str, load_mail_settings: Callable[[], MailSettings]
) -> tuple[str, ...] | None:
    """Close the open incident of a test, and return the metrics whose new levels that accepts.

    None if no incident is open.

    It is safe to call this again after it was killed. A problem that is reported meanwhile keeps the incident open.
    """
    incident, at = warehouse.incidents.find_open(test), warehouse.incidents.moment(test)
    if incident is None:
        return None
    warehouse.incidents.assess(test, incident.opened_by, is_regression=False, by=by, note=reason)
    levels = tuple(dict.fromkeys(filter(None, map(level_of, incident.reported))))
    first = incident.run_keys[0]
    for metric in levels:
        warehouse.acceptances.add(first, metric, reason=reason, by=by)
    try:
        mail = load_mail_settings()
        message = _message(warehouse, incident, levels, f"{by}: {reason}", mail)
        change = IncidentChange("close", incident=incident.opened_by, at=at.isoformat())
        post(message, mail=mail, warehouse=warehouse, incident=change)
    except (AlertError, ConfigError) as error:
        log.warning("%s: the incident is closed without a message about it: %s", test, error)
        warehouse.incidents.close(test, incident.run_keys[-1], incident=incident.opened_by, at=at)
    return levels


def _message(
    warehouse: Warehouse, incident: Incident, levels: tuple[str, ...], said: str, mail: MailSettings
) -> Message:
    # a message is decided a little before its incident is opened; the one that opened it is preferred
    found = warehouse.messages.since(incident.opened_at - timedelta(days=1), incident.test)
    about = [one for one in found if one.occasion != MessageKind.TRIAL]
    earlier = next((one for one in about if one.message == incident.opened_by), about[0] if about else None)
    names = [short_name(reason) for reason in incident.reasons]
    shown, rest = names[:3], len(names[3:])
    more = f" (+{rest} more)" if rest else ""
    accepted = f"The level of {', '.join(levels)} is accepted from the first bad run: later runs are compared with it."
    notice = Notice(
        headline=f"{incident.test}: no regression ({', '.join(shown)}{more})",
        sentences=(
            f"The incident is closed as a false alarm by {said}",
            *((accepted,) if levels else ()),
            "A later run with a problem is a new incident.",
        ),
        buttons=(Fact("run", "Open the run", page_of_run(mail.dashboard_url, incident.run_keys[-1])),),
        test=incident.test,
        run_key=incident.run_keys[-1],
        owner=earlier.owner if earlier else "",
        is_good=True,
        label="No regression",
    )
    key = f"{incident.opened_by}-no-regression-{short_hash(' '.join((incident.fingerprint, *incident.run_keys)))}"
    recipients = mail.recipients_of(earlier.recipients if earlier else ())
    return compose_notice(key, MessageKind.RECOVERED, notice, recipients, mail.sender)
