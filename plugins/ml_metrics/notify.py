"""The Airflow callback that tells people how a run went.

It runs in the gate's own process, or, where that was killed, in the DAG processor; and it may run twice. So it knows
only what the run folder and the warehouse say, and what it did before.
"""

from __future__ import annotations

import hashlib
import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ml_metrics.alerts import outbox
from ml_metrics.alerts.compose import compose
from ml_metrics.alerts.message import Occasion
from ml_metrics.settings import Settings
from ml_metrics.steps import Gate

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ml_metrics.model import Run
    from ml_metrics.run_folder import RunFolder
    from ml_metrics.spec.test import TestSpec
    from ml_metrics.warehouse import Warehouse

log = logging.getLogger(__name__)


def tell_people(context: Mapping[str, Any]) -> None:
    """Send the message that is due about this run, if one is."""
    from ml_metrics.errors import MlMetricsError
    from ml_metrics.operators.connections import warehouse
    from ml_metrics.operators.task import folder_of, run_of

    test: TestSpec = context["task"].test
    run, folder = run_of(test.name, context), folder_of(test.name, context)
    try:
        with warehouse() as open_warehouse:
            tell(test, run, folder, open_warehouse)
    except MlMetricsError as error:
        # Without the warehouse we do not know what was told before. A message too many is better than silence.
        log.warning("the state of alerts is not known: %s", error)
        tell(test, run, folder, None)


def tell(test: TestSpec, run: Run, folder: RunFolder, warehouse: Warehouse | None) -> str | None:
    """Decide whether this run is news, say it, and remember that it was said. Returns where the message went."""
    from ml_metrics.alerts.policy import occasion_for
    from ml_metrics.reports import report_of, troubles_of

    gate = Gate.read(folder)
    well = gate is not None and not gate.reasons
    troubles = {} if well else troubles_of(folder)
    alert = warehouse.open_alert(run.test) if warehouse else None
    occasion = occasion_for(troubles, None if alert is None else alert.reasons, well=well)
    if occasion is None:
        log.info("nothing new to tell about %s", run.test)
        return None
    if test.quarantine is not None and test.quarantine.holds(datetime.now(UTC)):
        log.info("%s is kept quiet until %s: %s", run.test, test.quarantine.until, test.quarantine.reason)
        return None
    settings = Settings.load()
    message = compose(report_of(test, run, folder, occasion, settings.dashboard_url), test.emails)
    where = outbox.send(message, settings.outbox)
    log.info("%s: %s", message.subject, where)
    if warehouse is not None:
        remember(warehouse, run, occasion, troubles)
    return where


def remember(warehouse: Warehouse, run: Run, occasion: Occasion, troubles: Mapping[str, str]) -> None:
    """Keep what was told, so that the next run of this test is news only if something changed."""
    if occasion is Occasion.RECOVERED:
        warehouse.close_alert(run.test, run.key)
        return
    names = sorted(troubles)
    fingerprint = hashlib.sha256("\n".join(names).encode()).hexdigest()[:16]
    warehouse.record_alert(run.test, run.key, fingerprint=fingerprint, reasons=names)
