"""Where the package of an extra is absent, the message names the extra."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fsspec.registry import _registry as IMPORTED  # noqa: N812

from ml_metrics import MlMetricsError, TestDefinition, accelerator_test
from ml_metrics.airflow import channels, connections
from ml_metrics.airflow.channels import read_secret
from ml_metrics.alerts.charts import as_svg
from ml_metrics.alerts.charts.frame import as_png
from ml_metrics.core import extras
from ml_metrics.core.settings import Settings
from ml_metrics.measure.cloud import CloudLogger
from ml_metrics.measure.cloud.monitoring import metric_client
from ml_metrics.store import storage
from ml_metrics.ui.cli import demo
from ml_metrics.warehouse import open_warehouse

OF_EXTRAS = ("airflow.providers.google", "gcsfs", "google", "psycopg", "sendgrid", "_gojsonnet", "vl_convert", "xprof")
OF_EXTRAS += ("local_kube", "sklearn")
GKE = {"project": "p", "location": "l", "name": "accelerators"}


class Absent(MetaPathFinder):
    """Finds none of the packages of extras."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name in OF_EXTRAS or name.startswith(tuple(f"{one}." for one in OF_EXTRAS)):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return None


@pytest.fixture
def lean(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An environment without extras."""
    loaded = {name: sys.modules[name] for name in sys.modules if any(f"{name}.".startswith(f"{x}.") for x in OF_EXTRAS)}
    ours = ("ml_metrics.airflow.operators.gke", "ml_metrics.warehouse.bigquery", "ml_metrics.alerts.channels.sendgrid")
    for name in [*loaded, *(one for one in ours if one in sys.modules)]:
        monkeypatch.delitem(sys.modules, name)
    for scheme in ("gs", "gcs"):  # fsspec keeps the classes that it has imported
        monkeypatch.delitem(IMPORTED, scheme, raising=False)
    finder = Absent()
    sys.meta_path.insert(0, finder)
    yield
    sys.meta_path.remove(finder)


def connection(**fields: Any) -> Callable[[str], Any]:
    empty = {"password": "x", "host": "", "login": None, "port": None, "schema": None, "extra_dejson": {}, "extra": ""}
    return lambda conn_id: SimpleNamespace(conn_id=conn_id, **{**empty, **fields})


def channel(kind: str) -> str:
    made = channels.channel_of(kind, Settings(), channels.outbox_of(Settings(outbox="/tmp/outbox")))
    return str(made.reason)  # type: ignore[attr-defined]


def of_a_cluster() -> None:
    accelerator_test(TestDefinition(name="t", image="i", command=("c",), cluster=GKE))


FEATURES: dict[str, tuple[str, Callable[[], object]]] = {
    "a bucket": ("google", lambda: storage.exists("gs://bucket/file")),
    "BigQuery": ("google", lambda: open_warehouse("bigquery://project/dataset")),
    "the connection to BigQuery": ("google", connections.warehouse),
    "a GKE cluster": ("google", of_a_cluster),
    "Cloud Logging": ("google", lambda: CloudLogger("job", "log", "p").read_cloud_logging_entries()),
    "Cloud Monitoring": ("google", metric_client),
    "PostgreSQL": ("postgres", lambda: open_warehouse("postgresql+psycopg://u:secret@h/d")),
    "a PNG": ("charts", lambda: as_png({})),
    "an SVG": ("charts", lambda: as_svg({})),
    "the demo": ("demo", lambda: demo.run(SimpleNamespace(fleet=False))),  # type: ignore[arg-type]
}


@pytest.mark.usefixtures("lean")
@pytest.mark.parametrize("feature", FEATURES)
def test_an_absent_package_is_an_error_that_names_its_extra(feature: str, monkeypatch: pytest.MonkeyPatch) -> None:
    extra, use = FEATURES[feature]
    monkeypatch.setattr(connections, "find_connection", connection(conn_type="google_cloud_platform"))
    with pytest.raises(MlMetricsError) as caught:
        use()
    assert (
        f"is not installed here; install the extra `{extra}`: pip install 'airflow-provider-ml-metrics[{extra}]'"
        in str(caught.value)
    )
    assert "secret" not in str(caught.value)


@pytest.mark.usefixtures("lean")
@pytest.mark.parametrize(("kind", "extra"), [("sendgrid", "sendgrid"), ("error_reporting", "google")])
def test_a_channel_without_its_package_is_unusable_and_names_the_extra(
    kind: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channels, "find_connection", connection(conn_type="http"))
    assert re.fullmatch(rf"\[ml_metrics\] channels: {kind}: .* the extra `{extra}`: pip install .*", channel(kind))


@pytest.mark.usefixtures("lean")
def test_a_secret_that_needs_an_absent_package_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    """Messages are sent without it, as where the secret may not be read."""
    assert read_secret("project", "name") == ""
    assert "[ml_metrics] secrets_project: " in caplog.text
    assert "airflow-provider-ml-metrics[google]" in caplog.text


@pytest.mark.usefixtures("lean")
def test_what_a_test_needs_without_extras_is_there(tmp_path: Path) -> None:
    with open_warehouse(f"sqlite:///{tmp_path}/w.db") as warehouse:
        warehouse.ensure_schema()
    assert accelerator_test(TestDefinition(name="t", image="i", command=("c",))).task_ids[0] == "run_workload"


@pytest.mark.usefixtures("lean")
def test_a_copied_folder_does_not_send_its_user_to_another_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """pip would take the package that PyPI has under this name."""

    def absent(name: str) -> None:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(extras, "distribution", absent)
    with pytest.raises(MlMetricsError) as caught:
        as_png({})
    assert str(caught.value).endswith("; install what pyproject.toml lists for the extra `charts`")


def test_an_installed_package_is_no_error() -> None:
    for extra in extras.EXTRAS:
        extras.require(extra, "the tests")
