"""Finds the problems of this installation, and their remedies."""

from __future__ import annotations

import os
import platform
import secrets
from contextlib import suppress
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import PackageNotFoundError, distributions, version
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any, NamedTuple

from ml_metrics.airflow import connections
from ml_metrics.airflow.channels import channel_of, outbox_of
from ml_metrics.airflow.clusters.local_cluster import NOT_INSTALLED, Access
from ml_metrics.airflow.connections import uses_local_cluster
from ml_metrics.airflow.operators.cluster import first_patience
from ml_metrics.airflow.storage_mark import check_storage
from ml_metrics.airflow.versions import release_of
from ml_metrics.alerts import Smtp, Unusable
from ml_metrics.config.clusters import configured_clusters
from ml_metrics.config.loading import load_tests
from ml_metrics.config.policy import airflow_namespaces, current_policy, refused_namespace
from ml_metrics.config.reading_time import ReadingTime
from ml_metrics.core.airflow_options import airflow_home, airflow_option, airflow_options, section_keys
from ml_metrics.core.deadline import TookTooLongError, in_time, within
from ml_metrics.core.errors import ClusterError, ConfigError, MlMetricsError, StorageError, UndeliveredError
from ml_metrics.core.extras import DISTRIBUTION
from ml_metrics.core.http import Client
from ml_metrics.core.settings import SECTION as SETTINGS
from ml_metrics.core.settings import Settings, checked_issue_url, is_on
from ml_metrics.core.text import did_you_mean, printable
from ml_metrics.measure.efficiency import configured_book
from ml_metrics.pipeline import Ages, first_delay
from ml_metrics.store import storage
from ml_metrics.store.disks import OUTBOX, outbox_problem, separate_disks
from ml_metrics.store.documents import documents_keys, key_file
from ml_metrics.store.run_folder import listing_limits
from ml_metrics.warehouse import SCHEMA_VERSION, BigQueryOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check."""

    name: str
    ok: bool
    message: str
    """The finding; for a problem, also what to do."""


def checked(name: str, ask: Callable[[], str], seconds: float) -> Check:
    """Ask, and return the answer. An error is an answer too, and so is none within the time."""
    try:
        return in_time(lambda: _asked(name, ask), seconds, name)
    except TookTooLongError:
        return Check(name, ok=False, message=f"no answer within {seconds:g} seconds: is it reachable from here?")


def _asked(name: str, ask: Callable[[], str]) -> Check:
    try:
        with connections.library_errors_as(MlMetricsError):
            return Check(name, ok=True, message=ask())
    except MlMetricsError as error:
        return Check(name, ok=False, message=printable(" ".join(str(error).split())[: connections.MAX_REASON]))


ENDS = ("_cmd", "_secret")


def settings_are_valid(settings: Settings) -> str:
    known = {field.name: field.default for field in fields(Settings)}
    prefix = f"AIRFLOW__{SETTINGS}__".upper()
    in_environment = {name.removeprefix(prefix).lower() for name in os.environ if name.startswith(prefix)}
    given = {
        next((short for end in ENDS if (short := name.removesuffix(end)) in known), name)
        for name in in_environment | section_keys(SETTINGS)
    }
    if unknown := sorted(given - known.keys()):
        raise ConfigError(
            "; ".join(f"[{SETTINGS}] {name}: there is no such setting{did_you_mean(name, known)}" for name in unknown)
        )
    _check_values(settings)
    # Airflow writes every default into a new airflow.cfg
    own = sum(bool(text) and text != known[name] for name, text in airflow_options(SETTINGS, known).items())
    return f"{own} of {len(known)} are not the default; deployment `{settings.deployment}`"


def documents_are_signed() -> str:
    keys, file = documents_keys(), key_file()
    if not keys:
        return f"nothing is signed yet: the first run makes the key, {file}"
    home = file.parents[1]
    if os.geteuid() == 0 and file.exists() and file.stat().st_uid != home.stat().st_uid:  # root reads any file
        raise ConfigError(f"{file}: cannot be read by the owner of Airflow's home: `chown --reference={home} {file}`")
    return "documents in run folders are signed" + (f"; {len(keys) - 1} earlier keys are believed" if keys[1:] else "")


def files_are_valid(settings: Settings) -> str:
    root = Path(settings.config_root)
    if not root.is_dir():
        raise ConfigError(f"[{SETTINGS}] config_root: there is no folder {root}")
    loaded = load_tests(root)
    if loaded.problems:
        raise ConfigError(
            f"{len(loaded.problems)} mistakes, the first: {loaded.problems[0]}. `ml-metrics validate` lists all"
        )
    return f"{len(loaded.tests)} tests in {root}"


def _check_values(settings: Settings) -> None:
    _ = settings.limits
    listing_limits(settings)
    Ages.of(settings)
    BigQueryOptions.of(settings, "")
    Access.of(settings)
    ReadingTime.of_settings()
    first_patience()
    configured_clusters()
    configured_book()
    current_policy()
    checked_issue_url(settings)
    for name in ("kubeconfig_programs", "shared_disk"):
        is_on(getattr(settings, name), name)
    numbers = ("mails_per_hour", "mass_failure_tests", "mass_failure_percent", "silent_runs", "log_lines_in_mails")
    for name in numbers:
        if not (text := getattr(settings, name)).isdecimal():
            raise ConfigError(f"[{SETTINGS}] {name}: {text!r} is not a whole number of at least 0")


RUNNING = {"task_instance_heartbeat_timeout": 300.0, "task_instance_heartbeat_timeout_detection_interval": 10.0}
"""Airflow's options for a task that ran, with their defaults: when it counts as lost, and the interval of checks."""
FETCHED = {"task_queued_timeout": 600.0, "task_queued_timeout_check_interval": 120.0}
"""The same for a task that a Celery worker had fetched but not started."""
START_SECONDS = 20.0
"""For the loop of the scheduler, and the process of the next try."""
SOON_SECONDS = 120.0


class LostWorker(NamedTuple):
    """The most seconds until a task of a lost worker runs again."""

    running: float
    """If it ran, and was not lost before in its run."""
    fetched: float
    """If the worker had fetched it only."""

    def __str__(self) -> str:
        found = (
            f"a task of a lost worker runs again within {self.running:g} seconds, one that it had only fetched within "
            f"{self.fetched:g}"
        )
        if max(self.running, self.fetched) <= SOON_SECONDS:
            return found
        return f"{found}: docs/composer.md, `When a worker is lost`, has settings for two minutes"


def lost_worker() -> LostWorker:
    running, fetched = (
        sum(_number("scheduler", *option) for option in options.items()) for options in (RUNNING, FETCHED)
    )
    # Airflow adds up to as much again to the delay
    return LostWorker(running + 2 * first_delay() + START_SECONDS, fetched + START_SECONDS)


TASKS_PER_CORE = 4
"""A task waits for the API server and the scheduler for most of its time: with two for each core, cores are idle."""
TASK_MB = 300
AIRFLOW_MB = 2000
"""The memory of one task, and of the processes of Airflow beside tasks. The rule is also in deploy/tasks-at-once.sh."""
TOO_MANY = 2
"""By how much the rule can be exceeded, where a task has only Airflow's own time for its imports."""
AIRFLOW_PARALLELISM = 32
AIRFLOW_IMPORT_SECONDS = 30.0
IMPORT_SECONDS = 120
"""What docs/scaling.md recommends as `[core] dagbag_import_timeout`."""


def tasks_at_once(cores: int, memory_mb: int) -> int:
    return max(2, min(cores * TASKS_PER_CORE, (memory_mb - AIRFLOW_MB) // TASK_MB))


def tasks_on_this_machine(cores: int | None = None, memory_mb: int | None = None) -> str:
    """Return how many tasks Airflow runs at once here, and what to change if the machine cannot start so many.

    Airflow gives every task 30 seconds for its imports. Where many tasks start at once on few cores, each takes longer.
    """
    cores, memory_mb = cores or _usable_cores(), memory_mb or _usable_memory_mb()
    tasks = _number("core", "parallelism", AIRFLOW_PARALLELISM)
    seconds = _number("core", "dagbag_import_timeout", AIRFLOW_IMPORT_SECONDS)
    right = tasks_at_once(cores, memory_mb)
    found = f"at most {tasks:g} at once on {cores} cores and {memory_mb / 1000:.0f} GB"
    if tasks > right and AIRFLOW_MB + tasks * TASK_MB > memory_mb:
        return f"{found}, which may be too little memory for so many: set [core] parallelism to {right}"
    if tasks > TOO_MANY * right and seconds <= AIRFLOW_IMPORT_SECONDS:
        return (
            f"{found}. When so many start together, some take longer than the {seconds:g} seconds that Airflow gives "
            f"them for their imports, and fail: set [core] parallelism to {right}, or dagbag_import_timeout to "
            f"{IMPORT_SECONDS}"
        )
    return found


def _usable_cores() -> int:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = _limit(Path("/sys/fs/cgroup/cpu.max"))  # a container may have fewer than its machine
    return min(cores, max(1, round(quota[0] / quota[1]))) if len(quota) > 1 else cores


def _usable_memory_mb() -> int:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([memory, *_limit(Path("/sys/fs/cgroup/memory.max"))]) >> 20


def _limit(file: Path) -> list[int]:
    try:
        return [int(word) for word in file.read_text().split()]
    except (OSError, ValueError):  # `max`: no limit
        return []


def _number(section: str, key: str, default: float) -> float:
    value = airflow_option(section, key)
    try:
        return default if value is None else float(value)
    except ValueError as error:
        raise ConfigError(f"[{section}] {key} is {value!r}, which is no number") from error


Health = dict[str, Any]
"""What Airflow's API answers: for each process its status and its latest heartbeat."""


def health_by_database() -> Health | None:
    """Return the health by the database of this home; None if it cannot be read from here, as in a task."""
    home = airflow_home()
    address = airflow_option("database", "sql_alchemy_conn") or f"sqlite:///{home / 'airflow.db'}"
    kind, _, file = address.partition(":///")
    if kind == "sqlite" and not Path(file).is_file():
        return None  # a file would be made
    from ml_metrics.airflow.versions import get_airflow_health

    try:
        health: Health = get_airflow_health()
    except (ImportError, RuntimeError):  # Airflow allows no task to read its database
        return None
    return health if health.get("metadatabase", {}).get("status") == "healthy" else None


def is_of_this_home(before: Health | None, answer: Health, after: Health | None) -> bool | None:
    """Return whether an answer was right between two looks into the database; None if that cannot be told."""
    if before is None or after is None:
        return None
    told = [
        [(health.get(name) or {}).get(f"latest_{name}_heartbeat") for name in PROCESSES]
        for health in (before, answer, after)
    ]
    if not any(told[0]) and not any(told[1]):
        return None  # none of the processes has ever run
    return all(_between(*beats) for beats in zip(*told, strict=True))


def _between(before: str | None, answer: str | None, after: str | None) -> bool:
    if answer is None or after is None:
        return answer is None and before is None
    moments = [datetime.fromisoformat(text) for text in (before or answer, answer, after)]
    return moments == sorted(moments)


NEEDED = {
    "apache-airflow-core": "Airflow",
    "apache-airflow-providers-cncf-kubernetes": "cncf-kubernetes",
    "apache-airflow-providers-standard": "standard",
}
LEAST_AIRFLOW = (3, 1)
NEWEST = {"Python": (3, 13), "Airflow": (3, 3), "cncf-kubernetes": (10, 25), "standard": (1, 21)}
"""What was tested; docs/releasing.md. Newer versions are allowed."""
PROCESSES = {
    "scheduler": "no run starts: start `airflow scheduler`",
    "dag_processor": "new test files are not read: start `airflow dag-processor`",
    "triggerer": "deferrable tests wait forever and no overdue run is reported: start `airflow triggerer`",
}
"""What Airflow's health lists, and what is missing without it."""


def versions() -> str:
    found, missing = {}, []
    for distribution, name in NEEDED.items():
        try:
            found[name] = version(distribution)
        except PackageNotFoundError:
            missing.append(f"`{distribution}`")
    if missing:
        raise ConfigError(f"not installed in this environment: {', '.join(missing)}")
    if release_of(found["Airflow"]) < LEAST_AIRFLOW:
        raise ConfigError(
            f"Airflow {found['Airflow']} is too old: {'.'.join(map(str, LEAST_AIRFLOW))} or later is needed"
        )
    others = distributions(name="ml-metrics")  # of PyPI
    if any(not one.entry_points.select(group="airflow.plugins") for one in others):
        raise ConfigError(
            "the package `ml-metrics` is another project, whose files replace those of this one: `pip uninstall "
            f"ml-metrics`, then install `{DISTRIBUTION}` again"
        )
    found = {"Python": platform.python_version(), **found}
    new = [f"{name} {one}" for name, one in found.items() if release_of(one) > NEWEST[name]]
    untested = f"; not tested with {', '.join(new)}" if new else ""
    return ", ".join(f"{name} {one}" for name, one in found.items()) + untested


def private_names() -> str:
    """Look for all that Airflow does not promise to keep. It imports much of Airflow, which takes seconds."""
    from ml_metrics.airflow.versions import MEMBERS, NAMES, missing

    if gone := missing():
        raise ConfigError(f"this Airflow has no {'; '.join(gone)}: install versions of docs/releasing.md")
    return f"all {len(NAMES) + sum(map(len, MEMBERS.values()))} that this package uses are there"


def executor(settings: Settings) -> str:
    name = airflow_option("core", "executor") or "LocalExecutor"
    if separate_disks(settings):
        found = ["tasks run on several machines"]
    else:
        found = [f"tasks share the disks of one machine, {tasks_on_this_machine()}"]
    if "Celery" in name:
        concurrency = airflow_option("celery", "worker_concurrency") or "16"
        found += [f"each worker runs at most {concurrency} at once: two for each of its cores are right"]
        found.append(str(lost_worker()))
    return f"{name}: {'; '.join(found)}"


def processes() -> str:
    if "COMPOSER_ENVIRONMENT" in os.environ:
        return "Cloud Composer watches them, and its pages show whether they are healthy"
    # tasks may have another address than people, who come through an ingress or a proxy with a login
    of_tasks = (airflow_option("core", "execution_api_server_url") or "").rstrip("/")
    if of_tasks.endswith("/execution"):  # the path of Airflow's API for tasks
        option, address = "[core] execution_api_server_url", of_tasks.removesuffix("/execution")
    else:
        of_people = airflow_option("api", "base_url") or "http://localhost:8080"
        option, address = "[api] base_url", of_people.rstrip("/")
    before = health_by_database()
    try:
        url = f"{address}/api/v2/monitor/health"
        health = within(10, "Airflow", lambda deadline: Client("Airflow", deadline).send("GET", url, read=True).content)
    except UndeliveredError as error:
        raise ConfigError(
            f"{address} does not answer as Airflow's API server ({error}): is it running, and is {option} right?"
        ) from error
    if not isinstance(health, dict):
        raise ConfigError(f"{address} does not answer as Airflow's API server: is {option} right?")
    is_own = is_of_this_home(before, health, health_by_database())
    if is_own is False:
        raise ConfigError(
            f"{address} is another Airflow than that of {airflow_home()}, whose database knows other processes: is "
            f"{option} right, and are this home's processes running?"
        )
    broken = [
        f"{name}: {without}"
        for name, without in PROCESSES.items()
        if not isinstance(one := health.get(name), dict) or one.get("status") != "healthy"
    ]
    if broken:
        raise ConfigError(f"not healthy: {'; '.join(broken)}")
    whose = "" if is_own else "; whether this is the Airflow of this home cannot be told from here"
    return f"{address}: {', '.join(PROCESSES)} are healthy{whose}"


PROBE = b"written by `ml-metrics doctor`, which removes it again\n"


def run_folders(settings: Settings) -> str:
    check_storage(settings)
    return _written_and_read(settings.storage_root)


def outbox(settings: Settings) -> str:
    if problem := outbox_problem(settings):
        raise ConfigError(problem)
    return _written_and_read(settings.outbox)


def warehouse(settings: Settings) -> str:
    connections.check_warehouse(settings)
    if _is_file_to_be(settings):
        return f"{settings.warehouse_file}: no run is recorded yet"
    with connections.warehouse(create=False) as opened:
        plan = opened.plan_schema()
        if plan.is_newer:
            known = f"this one knows {SCHEMA_VERSION}"
            raise ConfigError(f"{opened.address}: schema {plan.version} is of a newer version of ML Metrics: {known}")
        if plan.changes:
            raise ConfigError(
                f"{opened.address}: schema {plan.version} of {SCHEMA_VERSION}: run `ml-metrics schema upgrade`"
            )
        return f"{opened.address}: schema {plan.version}"


def senders(settings: Settings) -> str:
    if _is_file_to_be(settings):
        return "no message is due yet"
    with connections.warehouse(create=False) as opened:
        state = opened.senders.state(datetime.now(UTC))
    if since := state.silent_since(datetime.now(UTC)):
        raise ConfigError(
            f"no sender has run since {since:%Y-%m-%d %H:%M} UTC: is the DAG `ml_messages` there, and not paused?"
        )
    if state.dead:
        raise ConfigError(f"{state.dead} messages of the last week could not be sent: `ml-metrics messages` lists them")
    if state.last_pass is None:
        return "no message is due yet"
    return f"last pass {state.last_pass:%Y-%m-%d %H:%M} UTC, {state.pending} messages pending"


def _is_file_to_be(settings: Settings) -> bool:
    """Whether the warehouse is a file that the first run creates."""
    if connections.find_connection(settings.warehouse_conn_id) is not None:
        return False
    return not os.path.exists(settings.warehouse_file)  # noqa: PTH110  (a setting: it may be no path at all)


def _written_and_read(folder: str) -> str:
    if storage.is_local(folder):
        return _local_file_written_and_read(storage.local_path(folder))
    probe = storage.join(folder, f"doctor-{secrets.token_hex(8)}.txt")
    storage.write_bytes(probe, PROBE)
    try:
        if storage.read_bytes(probe) != PROBE:
            raise StorageError(f"{probe}: has another content than was written")
    finally:
        storage.remove(probe)
    return f"{folder}: files can be written, read and removed"


def _local_file_written_and_read(folder: Path) -> str:
    if not folder.is_dir():
        above = next(parent for parent in folder.absolute().parents if parent.exists())
        if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
            raise StorageError(f"{folder}: does not exist and cannot be created in {above}")
        return f"{folder}: will be created by the first run"
    with TemporaryFile(dir=folder) as file:  # without a name: it leaves nothing behind, whenever this process ends
        file.write(PROBE)
        file.flush()
        os.fsync(file.fileno())
    return f"{folder}: files can be written"


def cluster(name: str | None, settings: Settings, seconds: float) -> str:
    """Return Airflow's account in a cluster. Raises ClusterError without an answer, or if a permission is missing."""
    if name is None and uses_local_cluster(settings):
        if find_spec("local_kube") is None:
            raise ConfigError(NOT_INSTALLED)
        return "the local cluster: workloads are processes of this machine"
    from ml_metrics.airflow.cluster_check import check_cluster

    found = check_cluster(name, None, seconds)
    if refused := refused_namespace(found.namespace, current_policy()):
        raise ConfigError(f"{refused}; docs/kubernetes.md, `A namespace for workloads`, has the steps")
    if missing := [str(one) for one in found.missing or () if not one.for_hosts]:
        who = found.user or "Airflow"
        raise ClusterError(
            f"{who} may not {', '.join(missing)} in namespace {found.namespace}: grant the Role of docs/kubernetes.md"
        )
    if found.beside_airflow:
        raise ClusterError(
            f"nothing collects the runs of {', '.join(found.beside_airflow[:5])}, which Airflow has not started: "
            "delete them, and let it run test files, which `ml-metrics new --from` makes of them; docs/kubernetes.md, "
            "`Jobs beside Airflow`"
        )
    known = (
        "" if airflow_namespaces() else "; Airflow's own namespace is not known here ([ml_metrics] airflow_namespace)"
    )
    who = found.user or "an unknown user"
    faults = f"; no test there can have the faults {found.faults}" if found.faults else ""
    return f"Kubernetes {found.version} at {found.server}, as {who}, in namespace {found.namespace}{known}{faults}"


def channel(name: str, settings: Settings, seconds: float) -> str:
    found: Any = channel_of(name, settings, outbox_of(settings))
    if isinstance(found, Unusable):
        raise ConfigError(found.reason)
    if isinstance(found, Smtp):
        return found.check(seconds)
    return "its connection is complete; nothing was sent"


SECONDS = 30


def diagnose(seconds: float = SECONDS) -> Iterator[Check]:
    """Yield each check when it is done. None starts a workload, sends a message or creates a table."""
    loaded: list[Settings] = []

    def load() -> str:
        loaded.append(Settings.load())
        return settings_are_valid(loaded[0])

    yield checked("settings", load, seconds)
    yield checked("versions", versions, seconds)
    if not loaded:
        return
    for name, ask in _checks(loaded[0], seconds):
        yield checked(name, ask, seconds)
    yield checked("private names", private_names, max(seconds, 2 * SECONDS))


def _checks(settings: Settings, seconds: float) -> Iterator[tuple[str, Callable[[], str]]]:
    yield "executor", partial(executor, settings)
    yield "processes", processes
    yield "test files", partial(files_are_valid, settings)
    yield "documents", documents_are_signed
    yield "run folders", partial(run_folders, settings)
    yield "warehouse", partial(warehouse, settings)
    clusters: list[str | None] = []
    with suppress(MlMetricsError):  # the check `settings` has reported the file of clusters
        named = sorted(configured_clusters().clusters)
        clusters = [*named] if settings.cluster in named else [None, *named]  # None: that of tests that name none
    for name in clusters:
        yield f"cluster {name}" if name else "cluster", partial(cluster, name, settings, seconds)
    for name in settings.channel_names:
        if name == OUTBOX:
            yield "channel outbox", partial(outbox, settings)
        else:
            yield f"channel {name}", partial(channel, name, settings, seconds)
    yield "senders", partial(senders, settings)
