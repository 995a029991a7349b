"""A run as an OpenTelemetry trace and a few gauges, sent where Airflow sends its own.

It is off unless Airflow's `[traces] otel_on` or `[metrics] otel_on` is on, and imports nothing of OpenTelemetry then.
Nothing that happens here changes the result of a run.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ml_metrics.airflow.otel.destination import Signal, exporter_of, is_on
from ml_metrics.core.deadline import within
from ml_metrics.core.errors import AlertError
from ml_metrics.core.text import logger_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ml_metrics.config.definition import TestDefinition
    from ml_metrics.core.model import Run
    from ml_metrics.pipeline import RunState


log = logger_of(__name__)

EXPORT_SECONDS = 5.0
"""How long a run waits for the collector."""
COLLECTOR = "the OpenTelemetry collector"


def emit(test: TestDefinition, run: Run, state: RunState, carrier: Mapping[str, str] | None) -> bool:
    """True if everything that is on was sent. A decided run is part of the trace of `carrier`, Airflow's context."""
    signals = [one for one in Signal if is_on(one)]
    if not signals:
        return True
    from ml_metrics.airflow.otel.trace import Decided, export_run

    decided = Decided(test, run, state, time.time())
    try:
        exporters = {one: exporter_of(one) for one in signals}  # their imports are not up to the collector
        within(EXPORT_SECONDS, COLLECTOR, lambda _: export_run(decided, carrier or {}, exporters))
    except AlertError as error:
        log.warning("the run is not in OpenTelemetry: %s", error)
    except Exception as error:  # noqa: BLE001  (exporters are anybody's code, and no run fails because of one)
        log.warning("the run is not in OpenTelemetry: %s: %s", type(error).__name__, error)
    else:
        return True
    return False
