"""What people were told, and whether it reached them: incidents and deliveries. Rows are only added."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ml_metrics.values import as_utc
from ml_metrics.warehouse import queries
from ml_metrics.warehouse.base import Asking
from ml_metrics.warehouse.rows import Delivery, OpenAlert

if TYPE_CHECKING:
    from collections.abc import Sequence


class Told(Asking):
    """The part of the warehouse that remembers messages."""

    def open_alert(self, test: str) -> OpenAlert | None:
        """The incident of a test that is open, if there is one."""
        messages = self._ask(queries.OPEN_INCIDENT, test=test)
        if not messages:
            return None
        incident = [row for row in messages if row["opened_by"] == messages[0]["opened_by"]]
        first, last = incident[0], incident[-1]
        known = next((row for row in incident if row["kind"] == "acknowledged"), None)
        return OpenAlert(
            test=test,
            opened_by=first["opened_by"],
            opened_at=first["timestamp"],
            fingerprint=last["fingerprint"],
            reasons=tuple(json.loads(last["reasons"])),
            told_about=tuple(row["uuid"] for row in incident if row["kind"] != "acknowledged"),
            told=tuple(dict.fromkeys(reason for row in incident for reason in json.loads(row["reasons"]))),
            acknowledged_by=known["said_by"] if known else None,
            acknowledged_at=known["timestamp"] if known else None,
            note=(known["note"] or "") if known else "",
        )

    def open_alerts(self) -> list[OpenAlert]:
        """Every incident that is open, by test."""
        found = [self.open_alert(row["test_name"]) for row in self._ask(queries.ALARMED_TESTS)]
        return [alert for alert in found if alert is not None]

    def record_alert(
        self, test: str, run_key: str, *, fingerprint: str, reasons: Sequence[str], at: datetime | None = None
    ) -> bool:
        """Remember that a person was told of a broken run: open an incident, or change the one that is open.

        True if this call wrote it. False if this run's message was remembered before and it has no new reason, also
        where its incident has been closed since, and if the open incident has this fingerprint already.
        """
        message = {"test": test, "run": run_key, "fingerprint": fingerprint, "reasons": json.dumps(list(reasons))}
        moment = as_utc(at or datetime.now(UTC))
        if self._change(queries.OPEN_AN_INCIDENT, at=moment, **message):
            return True
        incident = self.open_alert(test)
        if incident is None or incident.fingerprint == fingerprint:
            return False
        if run_key in incident.told_about and set(reasons) <= set(incident.told):
            return False
        return self._add_to(incident, "changed", at=moment, **message)

    def acknowledge(self, test: str, *, by: str, note: str = "", at: datetime | None = None) -> bool:
        """Remember that somebody knows of the open incident of a test. False if none is open or it is known."""
        incident = self.open_alert(test)
        if incident is None:
            return False
        written = self._change(
            queries.ACKNOWLEDGE,
            test=test,
            incident=incident.opened_by,
            run=incident.told_about[-1],
            at=as_utc(at or datetime.now(UTC)),
            fingerprint=incident.fingerprint,
            reasons=json.dumps(incident.reasons),
            said_by=by,
            note=note,
        )
        return written > 0

    def close_alert(self, test: str, run_key: str, *, at: datetime | None = None) -> bool:
        """Remember that a person was told that a test is well again. False if no incident was open."""
        incident = self.open_alert(test)
        if incident is None:
            return False
        return self._add_to(
            incident,
            "closed",
            test=test,
            run=run_key,
            at=as_utc(at or datetime.now(UTC)),
            fingerprint=incident.fingerprint,
            reasons=json.dumps(incident.reasons),
        )

    def _add_to(self, incident: OpenAlert, kind: str, **message: Any) -> bool:
        return self._change(queries.ADD_TO_AN_INCIDENT, incident=incident.opened_by, kind=kind, **message) > 0

    def record_delivery(self, delivery: Delivery) -> bool:
        """Remember what became of a message on a channel. False if that was remembered before."""
        written = self._change(
            queries.RECORD_DELIVERY,
            message=delivery.message,
            channel=delivery.channel,
            state=delivery.state,
            at=as_utc(delivery.timestamp),
            test=delivery.test,
            run=delivery.run_key,
            occasion=delivery.occasion,
            owner=delivery.owner,
            recipients=json.dumps(delivery.recipients),
            subject=delivery.subject,
            reasons=json.dumps(delivery.reasons),
            attempts=delivery.attempts,
            detail=delivery.detail,
        )
        return written > 0

    def deliveries(self, since: datetime, test: str = "", limit: int = 100) -> list[Delivery]:
        """What became of the messages since a moment, newest first."""
        rows = self._ask(queries.DELIVERIES, since=as_utc(since), test=test, limit=limit)
        return [_delivery(row) for row in rows]

    def waiting(self, since: datetime) -> list[Delivery]:
        """What nobody has been told yet, oldest first: held for a digest, or refused by its channel."""
        return [_delivery(row) for row in self._ask(queries.WAITING, since=as_utc(since))]

    def told_since(self, owner: str, since: datetime) -> int:
        """How many messages about single runs an owner has got since a moment."""
        return int(self._ask(queries.TOLD_SINCE, owner=owner, since=as_utc(since))[0]["messages"])


def _delivery(row: dict[str, Any]) -> Delivery:
    return Delivery(
        message=row["message"],
        channel=row["channel"],
        state=row["state"],
        timestamp=row["timestamp"],
        test=row["test_name"],
        run_key=row["uuid"],
        occasion=row["occasion"],
        owner=row["owner"],
        recipients=tuple(json.loads(row["recipients"])),
        subject=row["subject"],
        reasons=tuple(json.loads(row["reasons"])),
        attempts=row["attempts"],
        detail=row["detail"],
    )
