"""A run as an OpenTelemetry trace and a few gauges, sent where Airflow sends its own.

It is off unless Airflow's `[traces] otel_on` or `[metrics] otel_on` is on: the switches, the variables of OpenTelemetry
and Airflow's older settings say where to. Only functions import anything of OpenTelemetry, so a run of an Airflow that
sends nothing pays nothing. Nothing that happens here changes the result of a run.
"""

from __future__ import annotations

import os
import time
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from ml_metrics.core.airflow_options import airflow_option, airflow_options
from ml_metrics.core.deadline import within
from ml_metrics.core.errors import ConfigError, FailureLogged
from ml_metrics.core.text import logger_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opentelemetry.sdk.resources import Resource

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
    with FailureLogged(log.warning, "the run is not in OpenTelemetry"):
        exporters = {one: exporter_of(one) for one in signals}  # their imports are not up to the collector
        within(EXPORT_SECONDS, COLLECTOR, lambda _: export_run(decided, carrier or {}, exporters))
        return True
    return False


ON = frozenset({"t", "true", "1"})
"""What Airflow takes for yes."""
OTLP, NONE = "otlp", "none"
GRPC, HTTP = "grpc", "http/protobuf"
ENTRY_POINTS = {GRPC: "otlp_proto_grpc", HTTP: "otlp_proto_http"}


class Signal(StrEnum):
    """The signals of OpenTelemetry that a run sends, under the names of Airflow's sections."""

    TRACES = "traces"
    METRICS = "metrics"


def is_on(signal: Signal) -> bool:
    if (airflow_option(signal, "otel_on") or "").strip().lower() not in ON:
        return False
    return _variable("OTEL_SDK_DISABLED").lower() != "true" and _exporter_name(signal) != NONE


def exporter_of(signal: Signal) -> Any:
    """Return the exporter that Airflow's configuration names. Raises ConfigError if it is not installed."""
    from importlib.metadata import entry_points

    name, address = _exporter_name(signal), _older_address(signal)
    if name == OTLP:
        named = _variable(f"OTEL_EXPORTER_OTLP_{signal.upper()}_PROTOCOL") or _variable("OTEL_EXPORTER_OTLP_PROTOCOL")
        usual = GRPC if signal is Signal.TRACES else HTTP  # without a variable, those of Airflow
        name = ENTRY_POINTS.get(HTTP if address else named or usual, "")
    group = f"opentelemetry_{signal}_exporter"
    found = next(iter(entry_points(group=group, name=name)), None)
    if found is None:
        known = ", ".join(sorted({OTLP, NONE, *(one.name for one in entry_points(group=group))}))
        raise ConfigError(
            f"OTEL_{signal.upper()}_EXPORTER and OTEL_EXPORTER_OTLP_PROTOCOL name no exporter that is installed here. "
            f"The exporter should be one of {known}; the protocol {GRPC} or {HTTP}"
        )
    make = found.load()
    return make(endpoint=address) if address else make()


def resource(signal: Signal) -> Resource:
    from opentelemetry.sdk.resources import Resource

    if _variable("OTEL_SERVICE_NAME") or "service.name=" in _variable("OTEL_RESOURCE_ATTRIBUTES"):
        return Resource.create()
    return Resource.create({"service.name": airflow_option(signal, "otel_service") or "Airflow"})


def _exporter_name(signal: Signal) -> str:
    return _variable(f"OTEL_{signal.upper()}_EXPORTER").lower() or OTLP


def _older_address(signal: Signal) -> str:
    """Return the address of Airflow's own settings, deprecated in 3.2; empty if a variable names one, or none does."""
    own, general = f"OTEL_EXPORTER_OTLP_{signal.upper()}_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"
    if _variable(own) or _variable(general):
        return ""
    found = airflow_options(signal, ("otel_host", "otel_port", "otel_ssl_active"))
    host, port = found["otel_host"], found["otel_port"]
    if not host or not port:
        return ""
    scheme = "https" if (found["otel_ssl_active"] or "").strip().lower() in ON else "http"
    return f"{scheme}://{f'[{host}]' if ':' in host and not host.startswith('[') else host}:{port}/v1/{signal}"


def _variable(name: str) -> str:
    return os.environ.get(name, "").strip()
