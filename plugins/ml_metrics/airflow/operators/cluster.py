"""The cluster and namespace in which the pods of a test run, its restrictions, and outages of its API server."""

from __future__ import annotations

import os
import re
import stat
import time
from dataclasses import dataclass
from datetime import timedelta
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from airflow.providers.cncf.kubernetes.hooks.kubernetes import KubernetesHook
from airflow.sdk import BaseHook, Connection
from kubernetes.client.exceptions import ApiException
from kubernetes.config.incluster_config import SERVICE_CERT_FILENAME, SERVICE_TOKEN_FILENAME
from urllib3.exceptions import HTTPError

from ml_metrics.airflow.connections import cluster_kubeconfig, uses_local_cluster
from ml_metrics.airflow.versions import AirflowNotFoundException, checked
from ml_metrics.config.accelerators import Kind
from ml_metrics.config.clusters import cluster_of, namespace_of
from ml_metrics.config.pod import unknown_in
from ml_metrics.config.policy import PodRules, current_policy, refused_in
from ml_metrics.config.problems import dotted
from ml_metrics.core.errors import ConfigError
from ml_metrics.core.settings import Settings, is_on

if TYPE_CHECKING:
    from collections.abc import Callable

    from ml_metrics.config.definition import TestDefinition


SETTLING = timedelta(seconds=30)
"""An API server that has just started rejects known users until it has loaded its roles."""
MAX_OUTAGES = 10
"""Outages that one task tolerates. An error that always returns is not an outage."""
POLL_SECONDS = 2.0
"""The interval between requests during an outage."""
TRANSIENT_STATUSES = frozenset({None, 0, 429, 500, 502, 503, 504})
"""The statuses, also of a proxy, that are unrelated to the request itself."""
UNAUTHORIZED, FORBIDDEN = 401, 403
REFUSAL = re.compile(r"cannot [a-z]+ resource ")
"""The API server's message if roles do not allow a request. Quotas and policies have other messages."""
COMPOSER_NAMESPACE = "composer-user-workloads"
"""The only namespace in which Cloud Composer runs pods."""
COMPOSER_KUBECONFIG = Path("/home/airflow/composer_kube_config")


@dataclass(frozen=True, slots=True)
class Place:
    """Where pods run."""

    kubeconfig: str | None
    """A kubeconfig that takes precedence over the connection."""
    connection: str | None
    """The Airflow connection."""
    namespace: str | None
    """None means the namespace of the connection."""
    context: str | None = None
    """The context of the connection's kubeconfig; None means its current one."""
    in_cluster: bool | None = None
    """Whether it is the cluster in which Airflow runs; None leaves that to the connection."""


def place_of(test: TestDefinition) -> Place:
    """Return the place for a test without GKE cluster. Raises ConfigError if the test cannot run there."""
    namespace = namespace_of(test)
    if cluster := cluster_of(test):
        return Place(None, cluster.kubernetes_conn_id, namespace, cluster.context, cluster.in_cluster or None)
    settings = Settings.load()
    if kubeconfig := cluster_kubeconfig():
        return Place(kubeconfig, None, namespace)
    if "COMPOSER_ENVIRONMENT" in os.environ and settings.kubernetes_conn_id == "kubernetes_default":
        _check_for_composer(test)
        kubeconfig = str(COMPOSER_KUBECONFIG) if COMPOSER_KUBECONFIG.exists() else None
        return Place(kubeconfig, settings.kubernetes_conn_id, COMPOSER_NAMESPACE)
    return Place(None, settings.kubernetes_conn_id, namespace)


def _check_for_composer(test: TestDefinition) -> None:
    own = "give a GKE cluster of your own: `cluster: {project: ..., location: ..., name: ...}`"
    if test.namespace not in {None, COMPOSER_NAMESPACE}:
        raise ConfigError(
            f"{test.name}: Cloud Composer runs pods in the namespace {COMPOSER_NAMESPACE} only, "
            f"not in {test.namespace!r}; leave `namespace` out, or {own}"
        )
    if test.accelerator.kind is not Kind.CPU or test.pods > 1:
        raise ConfigError(
            f"{test.name}: Cloud Composer's own cluster runs single pods without accelerators only; {own}"
        )


EXAMPLE_IMAGES = "gcr.io/your-project/"
"""deploy/composer.sh leaves out files that name it."""


def check_policy(test: TestDefinition, pod: dict[str, Any]) -> None:
    """Raise ConfigError if the policy refuses a pod, as the cluster would get it."""
    policy, place = current_policy(), pod["metadata"].get("namespace")
    if test.cluster is None and uses_local_cluster(Settings.load()):
        place = None  # no namespace of the local cluster is that of Airflow
    images = [one.get("image") or "" for one in pod["spec"]["containers"]]
    if place is not None and any(one.startswith(EXAMPLE_IMAGES) for one in images):
        raise ConfigError(
            f"{test.name}: the image {images[0]} is an example's: name one of your own registry, or remove the file"
        )
    # by the keys of the test first, which its author knows
    found = [*unknown_in(test), *refused_in(test, policy, place)]
    if found := found or list(PodRules(policy.in_namespace(place)).of_pod(pod)):
        refused = "; ".join(f"{dotted(where)}: {what}" for where, what in found)
        raise ConfigError(f"{test.name}: the policy of the administrator refuses this pod: {refused}")


UNREACHABLE = (HTTPError, HTTPException, ConnectionError, TimeoutError)
OF_CLUSTER = (ApiException, *UNREACHABLE)
"""All that a request to a cluster may raise, whether it passes or not."""


def is_outage(error: BaseException | None) -> bool:
    return error.status in TRANSIENT_STATUSES if isinstance(error, ApiException) else isinstance(error, UNREACHABLE)


def is_refusal(error: BaseException | None) -> bool:
    """Return whether the API server does not know the user or its roles. After a start this passes."""
    if not isinstance(error, ApiException):
        return False
    told = f"{error.body or ''} {error.reason or ''}"
    return error.status == UNAUTHORIZED or (error.status == FORBIDDEN and bool(REFUSAL.search(told)))


def is_passing(error: BaseException | None) -> bool:
    """Return whether an error may pass without a change of the request: what runs in the cluster is left alone."""
    return is_outage(error) or is_refusal(error)


class Settling:
    """How long refusals are still excused."""

    def __init__(self) -> None:
        self._until: float | None = None

    def excuses(self, error: BaseException) -> bool:
        """Return whether to try again after an error, which is the first refusal or one soon after it."""
        if not is_refusal(error):
            return False
        if self._until is None:
            self._until = time.monotonic() + SETTLING.total_seconds()
        return time.monotonic() < self._until


def wait_for_answer(request: Callable[[], object], timeout: timedelta) -> bool:
    """Repeat a request until it is answered, even with an error. Return False on timeout.

    The first answers of a server that has just started may be refusals: they do not count for a while.
    """
    deadline, settling = time.monotonic() + timeout.total_seconds(), Settling()
    while True:
        try:
            request()
        except OF_CLUSTER as error:
            if settling.excuses(error):
                time.sleep(POLL_SECONDS)
                continue
            if not is_outage(error):
                raise
            if time.monotonic() > deadline:
                return False
            time.sleep(POLL_SECONDS)
        else:
            return True


def first_patience() -> timedelta:
    """How long it may be unreachable before anything was created. Raises ConfigError if that is no whole number."""
    text = Settings.load().cluster_patience
    if not text.isdecimal():
        raise ConfigError(f"[ml_metrics] cluster_patience: {text!r} is not a whole number of seconds")
    return timedelta(seconds=int(text))


KUBECONFIG = "KUBECONFIG"
DEFAULT_KUBECONFIG = "~/.kube/config"
IN_CONNECTION = ("kube_config_path", "kube_config")


@checked
class CheckedHook(KubernetesHook):
    """Connects as the provider's hook does, by the connection or a kubeconfig."""

    _checked = False

    @classmethod
    def get_connection(cls, conn_id: str) -> Any:
        """Return a connection; an empty one if the default connection does not exist.

        The provider's hook then makes one of Airflow's database models, which configures all of them: 0.3 CPU seconds
        in a task whose parent process has not done so.
        """
        try:
            return BaseHook.get_connection(conn_id)
        except AirflowNotFoundException:
            if conn_id == cls.default_conn_name:
                return Connection(conn_id=conn_id, conn_type=cls.conn_type)
            raise

    def get_conn(self) -> Any:
        """Return a client. Raises ConfigError for a kubeconfig with programs, or that others could have written."""
        in_cluster = self._get_field("in_cluster") if self.in_cluster is None else self.in_cluster
        path = self.config_file or self._get_field("kube_config_path")
        text = self._get_field("kube_config")
        if not in_cluster and not self.config_dict and bool(path) != bool(text):
            context = self.cluster_context or self._get_field("cluster_context")
            self._use(kubeconfig_of(path, text, context, f"connection `{self.conn_id}`"))
        return super().get_conn()

    def _get_field(self, field_name: str) -> Any:
        """Return a field of the connection, without the kubeconfig once it was checked or if it does not count."""
        if (self._checked or self.in_cluster) and field_name in IN_CONNECTION:
            return None
        return super()._get_field(field_name)  # type: ignore[no-untyped-call]

    def _get_default_client(self, *, cluster_context: str | None = None, **options: Any) -> Any:
        """Return the client for a connection that names nothing: the cluster around this process, or the usual file."""
        path = default_kubeconfig()
        files = (SERVICE_TOKEN_FILENAME, SERVICE_CERT_FILENAME)
        in_cluster = "KUBERNETES_SERVICE_HOST" in os.environ and all(map(os.path.isfile, files))
        if in_cluster or path is None:
            return super()._get_default_client(cluster_context=cluster_context, **options)
        self._use(kubeconfig_of(path, None, cluster_context, ""))
        return super().get_conn()

    def _use(self, content: dict[str, Any]) -> None:
        self.config_dict, self.config_file, self._checked = content, None, True


def kubeconfig_of(path: str | None, text: Any, context: str | None, where: str) -> dict[str, Any]:
    """Return a kubeconfig from a file or a text, checked by the rules of the settings."""
    of_composer = path == str(COMPOSER_KUBECONFIG)  # Google's own, with the program of GKE
    programs = of_composer or is_on(Settings.load().kubeconfig_programs, "kubeconfig_programs")
    if path:
        return kubeconfig_file(path, context=context, programs=programs)
    return kubeconfig_text(text, where, context=context, programs=programs)


def default_kubeconfig() -> str | None:
    """Return the kubeconfig that Kubernetes' client would read by itself; None if there is none."""
    given = os.environ.get(KUBECONFIG, DEFAULT_KUBECONFIG).split(os.pathsep)
    paths = [path for path in map(os.path.expanduser, filter(None, given)) if os.path.exists(path)]  # noqa: PTH110
    if len(paths) > 1:
        raise ConfigError(f"{KUBECONFIG} names several files, {', '.join(paths)}; name one")
    return paths[0] if paths else None


# A kubeconfig is taken as data: the address of an API server, its certificate authority, and a token or certificate. It
# may also name programs, which would run as Airflow, and files, which would be sent to the server. Both are refused
# unless the setting `kubeconfig_programs` allows them.
MAX_BYTES = 1 << 20
CLUSTER_DATA = ("server", "certificate-authority-data", "insecure-skip-tls-verify", "tls-server-name", "proxy-url")
USER_DATA = ("token", "client-certificate-data", "client-key-data", "username", "password")
PROGRAMS_AND_FILES = ("exec", "auth-provider", "tokenFile", "client-certificate", "client-key", "certificate-authority")
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
OWNER_ONLY = stat.S_IWGRP | stat.S_IWOTH


def kubeconfig_file(path: Path | str, *, context: str | None = None, programs: bool = False) -> dict[str, Any]:
    """Return the part of a kubeconfig file that a client needs. Raises ConfigError if others could have written it."""
    return kubeconfig_text(_content(str(Path(path).expanduser())), str(path), context=context, programs=programs)


def kubeconfig_text(text: Any, where: str, *, context: str | None = None, programs: bool = False) -> dict[str, Any]:
    """Return the part of a kubeconfig that a client needs: its current context. `where` names it in errors."""
    import yaml

    try:
        content = yaml.safe_load(text) if isinstance(text, str | bytes) else text
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigError(f"{where}: is not a kubeconfig: it is not YAML or JSON") from error  # the text has secrets
    if not isinstance(content, dict):
        raise ConfigError(f"{where}: is not a kubeconfig: it is not a mapping")
    name = context or content.get("current-context")
    chosen = _named(content, "contexts", name, "context", where)
    cluster = _named(content, "clusters", chosen.get("cluster"), "cluster", where)
    user = _named(content, "users", chosen.get("user"), "user", where)
    if not programs:
        if refused := [key for one in (cluster, user) for key in PROGRAMS_AND_FILES if one.get(key)]:
            raise ConfigError(
                f"{where}: the kubeconfig has {refused[0]!r}, which names a program or a file; use a token, or data in "
                "the kubeconfig itself (kubectl config view --raw --flatten --minify), or allow it: "
                "[ml_metrics] kubeconfig_programs = yes"
            )
        cluster, user = _texts(cluster, CLUSTER_DATA, where), _texts(user, USER_DATA, where)
        address = urlsplit(str(cluster.get("server", "")))
        plain = address.scheme == "http" and address.hostname not in LOOPBACK
        if address.scheme not in {"http", "https"} or (plain and user):
            raise ConfigError(f"{where}: `server` of the kubeconfig should be an https address")
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "contexts": [{"name": name, "context": {**chosen, "cluster": "cluster", "user": "user"}}],
        "clusters": [{"name": "cluster", "cluster": cluster}],
        "users": [{"name": "user", "user": user}],
    }


def _content(path: str) -> bytes:
    """Return the content of a file that only Airflow's own user or root can write; what is checked is what is read."""
    try:
        opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise ConfigError(f"{path}: the kubeconfig cannot be read: {error.strerror or error}") from error
    with os.fdopen(opened, "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise ConfigError(f"{path}: the kubeconfig is not a file, but a pipe, a device or a folder")
        if status.st_mode & OWNER_ONLY:
            raise ConfigError(f"{path}: others can write this kubeconfig; take that from them: chmod go-w {path}")
        if status.st_uid not in {0, os.geteuid()}:
            raise ConfigError(
                f"{path}: the kubeconfig belongs to the user {status.st_uid}, neither to Airflow's ({os.geteuid()}) "
                "nor to root; change its owner"
            )
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise ConfigError(f"{path}: is longer than {MAX_BYTES >> 20} MiB, so it is no kubeconfig")
    return data


def _named(content: dict[str, Any], part: str, name: Any, key: str, where: str) -> dict[str, Any]:
    """Return the entry of a list that has a name; a user without entry has no credentials."""
    entries = content.get(part)
    for entry in entries if isinstance(entries, list) else []:
        if isinstance(entry, dict) and entry.get("name") == name and isinstance(entry.get(key) or {}, dict):
            return dict(entry.get(key) or {})
    if part == "users":
        return {}
    raise ConfigError(f"{where}: the kubeconfig has no {key} {str(name)!r}")


def _texts(entry: dict[str, Any], keys: tuple[str, ...], where: str) -> dict[str, Any]:
    found = {key: entry[key] for key in keys if entry.get(key)}
    for key, value in found.items():
        if not isinstance(value, str) and value is not True:
            raise ConfigError(f"{where}: {key!r} of the kubeconfig is not text")
    return found
