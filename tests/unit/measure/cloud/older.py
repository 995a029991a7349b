"""ml-goodput-measurement, using the services on loopback with the real clients."""

from __future__ import annotations

import os
from typing import Any
from unittest import mock

import google.cloud.logging
import grpc
from google.auth.credentials import AnonymousCredentials
from google.cloud import monitoring_v3
from google.cloud.logging_v2._gapic import _LoggingAPI
from google.cloud.logging_v2.services.logging_service_v2 import LoggingServiceV2Client
from google.cloud.logging_v2.services.logging_service_v2.transports import LoggingServiceV2GrpcTransport
from google.cloud.monitoring_v3.services.metric_service.transports import MetricServiceGrpcTransport
from ml_goodput_measurement.src import goodput, monitoring
from ml_goodput_measurement.src.gcp_metrics import GCPMetrics


def cloud_logger(job: str, log: str, project: str = "project") -> Any:
    """Its reader and writer of Cloud Logging."""
    channel = grpc.insecure_channel(os.environ["LOGGING_EMULATOR_HOST"])
    client = google.cloud.logging.Client(project=project, credentials=AnonymousCredentials())
    api = LoggingServiceV2Client(transport=LoggingServiceV2GrpcTransport(channel=channel))
    client._logging_api = _LoggingAPI(api, client)
    with mock.patch("google.cloud.logging.Client", return_value=client):
        return goodput._CloudLogger(job, log)


def metrics_sender(project: str) -> GCPMetrics:
    """What sends its series to Cloud Monitoring."""
    with mock.patch.object(monitoring_v3, "MetricServiceClient", return_value=monitoring_client()):
        return GCPMetrics(project)


def monitoring_client() -> monitoring_v3.MetricServiceClient:
    channel = grpc.insecure_channel(os.environ["MONITORING_EMULATOR_HOST"])
    return monitoring_v3.MetricServiceClient(transport=MetricServiceGrpcTransport(channel=channel))


def config(job: str, **options: Any) -> dict[str, Any]:
    """What its uploader processes are handed."""
    return {"job_name": job, "gcp_options": monitoring.GCPOptions(**options)}
