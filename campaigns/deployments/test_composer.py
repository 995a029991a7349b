"""deploy/composer.sh with a fake `gcloud` that records calls and copies files, and the deployed DAGs."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

from campaigns.deployments.conftest import WHERE, Cloud
from ml_metrics.core.settings import Settings
from not_installed import HIDE
from servers.compose_file import PROJECT

PARSE = (
    HIDE
    + """
import sys
from pathlib import Path
project, dags = sys.argv[1:]
# Composer's components have no checkout of this project, and some have no plugins
sys.path[:] = [place for place in sys.path if not place.startswith(project) or ".venv" in place]
sys.meta_path[:] = [finder for finder in sys.meta_path if "editable" not in str(finder)]
from airflow.dag_processing.dagbag import BundleDagBag
bag = BundleDagBag(dags, bundle_path=Path(dags), bundle_name="dags-folder")
import ml_metrics
print(*sorted(bag.dags["ml-metrics-doctor"].tags))
print(Path(ml_metrics.__file__).parent)
print(*sorted(bag.dags), sep=",")
print(bag.import_errors)
"""
)
TRIGGERER = """\
import inspect, sys
from importlib.metadata import distribution
project, site = sys.argv[1:]
sys.path[:] = [site, *(place for place in sys.path if not place.startswith(project) or ".venv" in place)]
sys.meta_path[:] = [finder for finder in sys.meta_path if "editable" not in str(finder)]
from airflow.sdk._shared.module_loading import import_string
from ml_metrics.airflow.dags import notify_overdue
found = import_string(f"{notify_overdue.__module__}.{notify_overdue.__qualname__}")
print(inspect.getfile(found), inspect.iscoroutinefunction(found), distribution("airflow-provider-ml-metrics").name)
"""


CONDITION = (
    "regression_test_config: {metric_success_conditions: {total_wall_time: {comparison: less, "
    "success_threshold: {fixed_value: 60}}}}\n"
)
OWN_DAGS = {
    "ml_messages",
    *(
        f"ml-metrics-{name}"
        for name in ["bisect", "compare", "decide", "digest", "doctor", "heartbeat", "storage", "watch"]
    ),
}


def test_the_first_deployment_changes_everything_and_the_second_only_files(cloud: Cloud) -> None:
    cloud.project = PROJECT
    done = cloud.deploy(*WHERE, "--channels", "outbox,sendgrid")
    assert done.returncode == 0, done.stderr
    overrides = cloud.software["airflowConfigOverrides"]
    assert overrides["ml_metrics-storage_root"] == "gs://runs/of-tests"
    assert overrides["ml_metrics-channels"] == "outbox,sendgrid"
    assert overrides["ml_metrics-deployment"] == "nightly"
    assert overrides["operators-default_deferrable"] == "True", "workloads hold no worker"
    assert overrides["ml_metrics-outbox"] == "gs://runs/outbox", "a bucket: nobody reads the disk of a worker"
    address = "https://0123-dot-us-central1.composer.googleusercontent.com/ml-metrics"
    assert overrides["ml_metrics-dashboard_url"] == address, "links in mails lead there"
    assert overrides["celery-worker_concurrency"] == "4", "two for each core of a worker"
    assert overrides["core-dagbag_import_timeout"] == "180"
    assert overrides["secrets-backend"].endswith("CloudSecretManagerBackend")
    assert json.loads(overrides["secrets-backend_kwargs"])["connections_prefix"] == "airflow-connections"
    assert (cloud.bucket / "plugins" / "ml_metrics_plugin.py").exists()
    for folder in ("dags", "plugins"):
        assert (cloud.bucket / folder / "ml_metrics_telemetry" / ".airflowignore").read_text() == "*\n"
    assert not list(cloud.bucket.rglob("local_kube")), "workloads run on Kubernetes there"
    assert sum(call[:2] == ["composer", "environments"] for call in cloud.changes()) == 2
    again = cloud.deploy(*WHERE, "--channels", "outbox,sendgrid")
    assert "packages: up to date\nsettings: up to date\n" in again.stdout
    assert {call[0] for call in cloud.changes()} == {"storage"}
    cloud.deploy(*WHERE, "--channels", "outbox")
    (changed,) = [call for call in cloud.changes() if call[0] == "composer"]
    assert changed[-1] == "^|^ml_metrics-channels=outbox"


def test_a_limit_of_airflow_that_somebody_has_chosen_stays(cloud: Cloud) -> None:
    chosen = {"celery-worker_concurrency": "9", "core-dagbag_import_timeout": "200"}
    cloud.write(**{"software.json": json.dumps({"airflowConfigOverrides": chosen})})
    assert cloud.deploy(*WHERE).returncode == 0
    assert {key: cloud.software["airflowConfigOverrides"][key] for key in chosen} == chosen


def test_deployed_settings_are_settings_of_this_package(cloud: Cloud) -> None:
    cloud.deploy(*WHERE, "--set", "mails_per_hour=5")
    own = [name for name in cloud.software["airflowConfigOverrides"] if name.startswith("ml_metrics-")]
    assert "ml_metrics-mails_per_hour" in own
    assert {name.removeprefix("ml_metrics-") for name in own} <= set(Settings.__dataclass_fields__)


def test_files_of_others_in_the_bucket_stay_and_stale_files_of_ours_are_removed(cloud: Cloud) -> None:
    theirs = ["dags/airflow_monitoring.py", "dags/.airflowignore", "dags/include/theirs.sql", "plugins/theirs.py"]
    ours = ["dags/include/metric_configs/gone.yaml", "plugins/ml_metrics/gone.py", "dags/ml_metrics_telemetry/gone.py"]
    for name in (*theirs, *ours):
        (cloud.bucket / name).parent.mkdir(parents=True, exist_ok=True)
        (cloud.bucket / name).touch()
    assert cloud.deploy(*WHERE, "--files-only").returncode == 0
    assert all((cloud.bucket / name).exists() for name in theirs)
    assert not any((cloud.bucket / name).exists() for name in ours)


def test_dags_are_parsed_without_plugins(cloud: Cloud, tmp_path: Path) -> None:
    cloud.project = PROJECT
    done = cloud.deploy(*WHERE, "--files-only")
    assert done.returncode == 0
    (state,) = set(re.findall(r"deployed-\d+", done.stdout))
    for example in ("dags/mnist_cpu.py", "dags/include/metric_configs/mnist-cpu.yaml"):
        assert f"left out: {example} is an example" in done.stdout
    configs = cloud.bucket / "dags" / "include" / "metric_configs"
    (configs / "mine.yaml").write_text(f"name: mine\nowner: me\nimage: gcr.io/mine/i\ncommand: [c]\n{CONDITION}")
    home = tmp_path / "home"
    home.mkdir()
    (tmp_path / "no-plugins").mkdir()
    dags = cloud.bucket / "dags"
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__DAGS_FOLDER": str(dags),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(tmp_path / "no-plugins"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "COMPOSER_ENVIRONMENT": "nightly",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    command = [sys.executable, "-c", PARSE, str(PROJECT), str(dags)]
    done = subprocess.run(command, env=environment, cwd="/", capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    tags, package, found, errors = done.stdout.strip().splitlines()[-4:]
    assert tags == f"{state} ml-metrics", "the tag by which the command sees what Airflow has read"
    assert package == str(dags / "ml_metrics")
    assert errors == "{}"
    assert set(found.split(",")) == {"mine", *OWN_DAGS}, "and no example of this project"


def test_a_deployment_waits_until_airflow_has_read_its_files(cloud: Cloud) -> None:
    cloud.deploy(*WHERE, "--files-only")
    (cloud.bucket / "dags" / "ml_metrics" / "__init__.py").unlink()
    cloud.write(lag="9", asked="0")
    other = cloud.project.with_name("other")
    shutil.copytree(cloud.project, other, dirs_exist_ok=True)
    (other / "plugins" / "ml_metrics" / "new.py").touch()
    cloud.project = other
    done = cloud.deploy(*WHERE, "--files-only")
    assert (done.returncode, (cloud.folder / "asked").read_text()) == (0, "10"), "not the state that was there before"
    assert "files: Airflow has read deployed-" in done.stdout
    cloud.write(lag="99", asked="0")
    (other / "plugins" / "ml_metrics" / "new.py").write_text("1")
    late = cloud.deploy(*WHERE, "--files-only")
    assert (late.returncode, (cloud.folder / "asked").read_text()) == (1, "20")
    assert "the files are in the bucket, but Airflow does not list deployed-" in late.stderr
    cloud.write(denied="composer.environments.executeAirflowCommand", asked="0")
    assert "executeAirflowCommand' is denied" in cloud.deploy(*WHERE, "--files-only").stderr


def test_a_dry_run_checks_what_it_can_and_changes_nothing(cloud: Cloud) -> None:
    done = cloud.deploy(*WHERE, "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "would run: gcloud composer environments update nightly" in done.stdout
    assert "checked: the bucket of run folders, gs://runs\n" in done.stdout
    assert "not granted" not in done.stdout
    assert "not checked: other roles of composer@my-project.iam.gserviceaccount.com" in done.stdout
    assert "files: in" not in done.stdout
    assert cloud.changes() == []


def test_a_dry_run_tells_roles_that_are_not_granted_or_cannot_be_read(cloud: Cloud) -> None:
    cloud.write(granted="roles/composer.worker\n")
    told = cloud.deploy(*WHERE, "--dry-run").stdout
    assert "on my-project: roles/bigquery.jobUser roles/logging.logWriter (--roles" in told
    cloud.write(denied="resourcemanager.projects.getIamPolicy")
    assert "on my-project, whose policy you may not read" in cloud.deploy(*WHERE, "--dry-run").stdout


def test_a_dry_run_says_what_is_missing(cloud: Cloud) -> None:
    cloud.write(absent="gs://runs airflow-connections-ml_metrics_warehouse")
    done = cloud.deploy(*WHERE, "--dry-run")
    assert done.returncode == 1
    assert "problem: the bucket of run folders, gs://runs: make it" in done.stdout
    assert "problem: the secret of the connection ml_metrics_warehouse: without it, no row is recorded" in done.stdout
    assert cloud.changes() == []


@pytest.mark.parametrize("dry", [(), ("--dry-run",)])
@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({"project": ""}, "no project: give --project ID"),
        ({"project": "(unset)"}, "no project: give --project ID"),
        ({"description": "null"}, "the description of 'nightly' is not that of an environment"),
        ({"description": "<html>"}, "the description of 'nightly' is not that of an environment"),
        ({"description": '{"config": {}}'}, "has no bucket for DAGs"),
        ({"image": "composer-2.9.7-airflow-2.9.3"}, "is 'composer-2.9.7-airflow-2.9.3', not Composer 3 with Airflow 3"),
        ({"image": "composer-3-airflow-2.10.5-build.10"}, "not Composer 3 with Airflow 3"),
        ({"image": "composer-3-airflow-3.0.2-build.1"}, "is older than Airflow 3.1.7: upgrade the environment"),
        ({"image": "composer-3-airflow-3.1.0-build.4"}, "is older than Airflow 3.1.7: upgrade the environment"),
    ],
)
def test_without_an_environment_nothing_is_said_to_run(
    state: dict[str, str], message: str, dry: tuple[str, ...], cloud: Cloud
) -> None:
    cloud.write(**state)
    done = cloud.deploy(*WHERE, *dry)
    assert done.returncode == 2
    assert message in done.stderr
    assert "would run" not in done.stdout
    assert cloud.changes() == []


@pytest.mark.parametrize("image", ["3.1.7-build.12", "3.1.10-build.0", "3.4.0-build.0", "3.10.1-build.2"])
def test_newer_images_are_taken(image: str, cloud: Cloud) -> None:
    cloud.write(image=f"composer-3-airflow-{image}")
    assert cloud.deploy(*WHERE, "--dry-run").returncode == 0


def test_the_file_of_clusters_is_copied_and_set(cloud: Cloud, tmp_path: Path) -> None:
    (tmp_path / "clusters.yaml").write_text("clusters: {here: {in_cluster: true}}")
    done = cloud.deploy(*WHERE, "--clusters", str(tmp_path / "clusters.yaml"))
    assert done.returncode == 0, done.stderr
    name = Path(cloud.software["airflowConfigOverrides"]["ml_metrics-clusters"]).relative_to("/home/airflow/gcs")
    assert (cloud.bucket / name).read_text() == "clusters: {here: {in_cluster: true}}"


def test_an_environment_whose_operators_hold_their_workers_keeps_that(cloud: Cloud) -> None:
    cloud.deploy(*WHERE)
    software = cloud.software
    software["airflowConfigOverrides"]["operators-default_deferrable"] = "False"
    cloud.write(**{"software.json": json.dumps(software)})
    assert cloud.deploy(*WHERE).returncode == 0
    assert cloud.software["airflowConfigOverrides"]["operators-default_deferrable"] == "False"


def test_a_setting_that_is_given_replaces_ours(cloud: Cloud) -> None:
    assert cloud.deploy(*WHERE, "--set", "cluster=tpus", "--set", "mails_per_hour=5").returncode == 0
    overrides = cloud.software["airflowConfigOverrides"]
    assert (overrides["ml_metrics-cluster"], overrides["ml_metrics-mails_per_hour"]) == ("tpus", "5")


LATER_THAN_BASH_3 = {
    r"\b(mapfile|readarray|coproc)\b": "since bash 4.0",
    r"\b(declare|local|typeset) -[a-zA-Z]*[Ang]": "since bash 4.0",
    r"\$\{\w+(\^\^?|,,?)": "since bash 4.0",
    r"\|&|&>>|;;&|;&": "since bash 4.0",
    r"\$\{\w+@[A-Za-z]\}": "since bash 4.4",
    r"\[\[ -v |\bwait -n\b": "since bash 4.3",
    r'(?<!\+)"\$\{\w+\[@\]\}"': "an empty array is an unset variable before bash 4.4",
    r"paste -s\S*(\)|$)": "the paste of macOS needs a file or -",
    r"\b(sed -i|readlink -f|date -d|grep -P)\b": "other programs on macOS",
}


def test_the_script_runs_on_the_bash_of_macos() -> None:
    """Bash 3.2 is not available here, so the script is searched for what it lacks."""
    script = (PROJECT / "deploy" / "composer.sh").read_text()
    code = re.sub(r"^\s*#.*$", "", script, flags=re.MULTILINE)
    always_filled = code.replace('"${where[@]}"', "")
    found = {
        why: match[0]
        for what, why in LATER_THAN_BASH_3.items()
        if (match := re.search(what, always_filled, re.MULTILINE))
    }
    assert found == {}
    assert re.search(r"^where=\(--location", code, re.MULTILINE), "this array has elements"


@pytest.mark.parametrize(
    "sample", ['for x in "${a[@]}"; do', "mapfile -t x", "${x^^}", "$(paste -sd'|')", "local -A x"]
)
def test_the_search_finds_such_lines(sample: str) -> None:
    assert any(re.search(what, sample, re.MULTILINE) for what in LATER_THAN_BASH_3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "--environment is missing"),
        (("--environment", "nightly"), "--location is missing"),
        (WHERE[:4], "must be a gs:// address"),
        ((*WHERE[:5], "/tmp/runs"), "must be a gs:// address"),
        ((*WHERE, "--set", "nothing"), "KEY=VALUE is needed"),
        ((*WHERE, "--outbox", "/tmp/outbox"), "--outbox must be a gs:// address"),
        ((*WHERE, "--outbox", "gs://runs/of-tests/outbox"), "is in the folder of run folders"),
        ((*WHERE[:5], "gs://runs"), "is in the folder of run folders; give another one"),
        ((*WHERE, "--clusters", "/nowhere.yaml"), "there is no such file"),
        ((*WHERE, "--colour"), "unknown option --colour"),
        (("--location",), "needs a value"),
    ],
)
def test_invalid_options_are_rejected_before_any_change(cloud: Cloud, options: tuple[str, ...], message: str) -> None:
    done = cloud.deploy(*options)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert not (cloud.folder / "calls").exists()


def test_only_the_callback_of_deadlines_is_ours_in_the_triggerer() -> None:
    """What a task defers to, and what else the triggerer imports by name, is in packages that Composer has.

    Two triggers are not: tasks defer to them only where the triggerer has this package (`reaches_triggerer`).
    """
    of_ours = [
        f"{file.name}: {name}"
        for file in (PROJECT / "plugins" / "ml_metrics").rglob("*.py")
        for name in re.findall(r"AsyncCallback\((\w+)|class \w+\((\w*Trigger)\b", file.read_text())
        if any(name)
    ]
    assert sorted(of_ours) == [
        "answer_trigger.py: ('', 'HITLTrigger')",
        "dags.py: ('notify_overdue', '')",
        "pod_trigger.py: ('', 'KubernetesPodTrigger')",
    ]


def test_the_wheel_is_what_the_triggerer_needs(tmp_path: Path) -> None:
    source, site = tmp_path / "source", tmp_path / "site"
    shutil.copytree(PROJECT / "plugins", source / "plugins", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    shutil.copytree(PROJECT / "include", source / "include")
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(PROJECT / name, source)
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    command = [*build, "--wheel-dir", str(tmp_path), str(source)]
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
    (wheel,) = tmp_path.glob("airflow_provider_ml_metrics-*.whl")
    with ZipFile(wheel) as archive:
        archive.extractall(site)
    package = source / "plugins" / "ml_metrics"
    expected = {str(path.relative_to(package)) for path in package.rglob("*") if path.is_file()}
    unneeded = {name for name in expected if name.startswith(("ui/dashboard/bundle/", "."))}
    assert expected - unneeded <= {
        str(path.relative_to(site / "ml_metrics")) for path in (site / "ml_metrics").rglob("*") if path.is_file()
    }
    done = subprocess.run(
        [sys.executable, "-c", TRIGGERER, str(PROJECT), str(site)],
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "AIRFLOW_HOME": str(tmp_path / "home")},
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.split() == [
        str(site / "ml_metrics" / "airflow" / "callbacks.py"),
        "True",
        "airflow-provider-ml-metrics",
    ]


def test_help_and_roles_need_no_cloud(cloud: Cloud) -> None:
    assert "--storage-root URL" in cloud.deploy("--help").stdout
    roles = cloud.deploy("--roles").stdout
    assert re.search(r"^roles/secretmanager.secretAccessor \| the secrets \| to read ", roles, re.MULTILINE)
    page = (PROJECT / "docs" / "composer.md").read_text()
    for line in roles.splitlines():
        role, scope, why = line.split(" | ")
        assert f"| `{role}` | {scope} | {why} |" in page


def test_each_role_is_a_command(cloud: Cloud) -> None:
    told = cloud.deploy(*WHERE, "--roles").stdout
    commands = [line for line in told.splitlines() if not line.startswith("#")]
    listed = [line.split(" | ")[0] for line in cloud.deploy("--roles").stdout.splitlines()]
    for role in listed:
        assert any(f"--role {role} --member serviceAccount:composer@" in one or f"`{role}`" in one for one in commands)
    assert len(commands) == len(listed) + 2, "the dataset, and the workloads"
    assert commands[-1].endswith("CLUSTER_PROJECT.svc.id.goog/subject/ns/NAMESPACE/sa/default")
    assert any("ON SCHEMA `my-project.metrics_handler_dataset` TO" in one for one in commands)
    assert all(subprocess.run(["bash", "-n", "-c", one], check=False).returncode == 0 for one in commands)
    assert cloud.changes() == []


def test_no_role_reads_the_secrets_of_a_cluster(cloud: Cloud) -> None:
    """`container.developer` and those above it do, in every cluster of a project; docs/kubernetes.md has a Role."""
    roles = set(re.findall(r"roles/container\.(\w+)", cloud.deploy("--roles").stdout))
    assert roles == {"clusterViewer"}
    page = (PROJECT / "docs" / "composer.md").read_text()
    assert "kubectl create rolebinding ml-metrics --namespace ml-metrics --role ml-metrics" in page
