"""The pass over all tests, as a task of Airflow runs it."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from ml_metrics.connections import warehouse
from ml_metrics.notify.mail_settings import load_mail_settings
from ml_metrics.notify.outgoing import post
from ml_metrics.notify.send import hurry
from ml_metrics.notify.watch.import_errors import forget_import_errors, read_import_errors
from ml_metrics.notify.watch.watching import Outcome, Surroundings, watch
from ml_metrics.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ml_metrics.notify.outgoing import Posted

HURRY_SECONDS = 60.0
"""The time for sending what a pass wrote. Senders send the rest."""


def watch_all(get_dag: Callable[[str], Any] | None, dags_folder: str) -> Outcome:
    """Report files, DAGs and schedules that broke since the last pass. `get_dag` is that of a task instance."""
    settings, mail, now = Settings.load(), load_mail_settings(), datetime.now(UTC)
    errors, mended = read_import_errors(settings, now)
    around = Surroundings(
        Path(settings.config_root),
        dags_folder=Path(dags_folder) if dags_folder else None,
        get_dag=get_dag,
        import_errors=errors,
    )
    posted: list[Posted] = []
    with warehouse() as opened:
        outcome = watch(
            opened, mail, around, now, lambda message: posted.append(post(message, mail=mail, warehouse=opened))
        )
        forget_import_errors(settings, mended)
        deadline = time.monotonic() + HURRY_SECONDS
        for one in posted:
            if time.monotonic() < deadline:
                hurry(one, mail, opened)
    return outcome
