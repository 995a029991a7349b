"""A message in the warehouse that one channel has accepted and another has not."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

from ml_metrics.warehouse import ChannelResult, StoredMessage, open_warehouse
from unit.warehouse.records import TEST, record


def two_tests(folder: Path) -> str:
    """Return the address of a warehouse with one run of each of two tests."""
    address = f"sqlite:///{folder}/warehouse.db"
    with open_warehouse(address) as warehouse:
        warehouse.load_all([record(0, {"loss_final": 1.0}, test=test) for test in (TEST, "another")])
    return address


def stored(key: str = "run 1-001-broken-ab", *, at: datetime, **fields: Any) -> StoredMessage:
    message = {
        "message": key,
        "run_key": "run 1",
        "test": TEST,
        "owner": "vision-team",
        "occasion": "broken",
        "content_hash": "ab",
        "timestamp": at,
        "recipients": ("a@example.com",),
        "subject": "[ML Metrics] it broke",
        "reasons": ("the loss is high",),
        "attempts": 3,
        "channels": {
            "outbox": ChannelResult("delivered", 1, "/outbox/it-broke.eml"),
            "smtp": ChannelResult("failed", 3, "mail.example took too long"),
        },
    }
    return StoredMessage(**{**message, **fields})
