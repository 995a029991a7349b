"""The real client of Secret Manager with a server of its protocol on loopback."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from google.auth.credentials import AnonymousCredentials
from google.cloud import secretmanager_v1 as secretmanager
from google.cloud.secretmanager_v1.services.secret_manager_service.transports import (
    SecretManagerServiceGrpcTransport,
)

from ml_metrics.airflow.channels import read_secret
from servers.google_cloud import serving

SERVICE = "google.cloud.secretmanager.v1.SecretManagerService"
SECRETS = {"projects/my-project/secrets/sendgrid-api-key/versions/latest": b"SG.key\n"}


@pytest.fixture
def client() -> Iterator[Any]:
    def access(request: Any, context: grpc.ServicerContext) -> Any:
        if "forbidden" in request.name:
            context.abort(grpc.StatusCode.PERMISSION_DENIED, "no")
        if request.name not in SECRETS:
            context.abort(grpc.StatusCode.NOT_FOUND, "not found")
        payload = secretmanager.SecretPayload(data=SECRETS[request.name])
        return secretmanager.AccessSecretVersionResponse(name=request.name, payload=payload)

    methods = {"AccessSecretVersion": (secretmanager.AccessSecretVersionRequest, access)}
    with serving(SERVICE, methods) as address, grpc.insecure_channel(address) as channel:
        transport = SecretManagerServiceGrpcTransport(channel=channel, credentials=AnonymousCredentials())
        yield secretmanager.SecretManagerServiceClient(transport=transport)


def test_a_secret_is_read_without_its_newline(client: Any) -> None:
    assert read_secret("my-project", "sendgrid-api-key", client) == "SG.key"


def test_a_missing_secret_is_empty_and_not_logged(client: Any, caplog: pytest.LogCaptureFixture) -> None:
    assert read_secret("my-project", "another", client) == ""
    assert caplog.text == ""


def test_a_forbidden_secret_is_logged_by_name(client: Any, caplog: pytest.LogCaptureFixture) -> None:
    assert read_secret("my-project", "forbidden", client) == ""
    assert "secret forbidden of project my-project cannot be read: PermissionDenied" in caplog.text


def test_missing_credentials_are_logged(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    def no_login() -> Any:
        from google.auth.exceptions import DefaultCredentialsError

        raise DefaultCredentialsError("no credentials")

    monkeypatch.setattr("google.cloud.secretmanager_v1.SecretManagerServiceClient", no_login)
    assert read_secret("my-project", "sendgrid-api-key") == ""
    assert "DefaultCredentialsError" in caplog.text
