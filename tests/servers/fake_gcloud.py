"""The commands of `gcloud` that deploy/composer.sh uses. Every call is recorded, and a bucket is a folder.

It runs as a program named `gcloud` on the PATH. FAKE_GCLOUD is the folder with its state. What the documentation of the
service says that it refuses is refused: see campaigns/deployments/test_composer_limits.py.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from pathlib import Path

STATE = Path(os.environ["FAKE_GCLOUD"])
BUCKET = "gs://us-central1-nightly-bucket"


def main() -> None:
    arguments = sys.argv[1:]
    with (STATE / "calls").open("a") as calls:
        print(json.dumps(arguments), file=calls)
    if arguments[1:3] == ["environments", "update"] or arguments[:2] in (["storage", "rsync"], ["storage", "cp"]):
        count_change()
    match arguments[:3]:
        case ["config", "get-value", "project"]:
            print(read("project", "my-project"))
        case ["projects", "get-iam-policy", _]:
            allowed("resourcemanager.projects.getIamPolicy")
            print(read("granted", "roles/composer.worker\nroles/bigquery.jobUser\nroles/logging.logWriter"))
        case ["composer", "environments", "describe"]:
            allowed("composer.environments.get")
            print(read("description", "") or json.dumps(environment()))
        case ["storage", "buckets", "describe"] | ["secrets", "describe", _]:
            allowed("storage.buckets.get" if arguments[0] == "storage" else "secretmanager.secrets.get")
            if arguments[2 if arguments[0] == "secrets" else 3] in read("absent", "").split():
                sys.exit("ERROR: (gcloud) NOT_FOUND")
        case ["composer", "environments", "update"]:
            allowed("composer.environments.update")
            update(*arguments[8:])
        case ["storage", *_]:
            copy(arguments[1], *arguments[2:])
        case ["composer", "environments", "run"]:
            allowed("composer.environments.executeAirflowCommand")
            list_dags()
        case _:
            sys.exit(f"unknown call: {arguments}")


def count_change() -> None:
    """Fail at the change that a test has chosen."""
    number = int(read("changes", "0")) + 1
    (STATE / "changes").write_text(str(number))
    if number == int(read("fails", "0")):
        sys.exit("ERROR: (gcloud) the service is not available")


def list_dags() -> None:
    """List tags as the DAG processor knows them: it reads the bucket only when this has been asked `lag` times."""
    asked = int(read("asked", "0")) + 1
    (STATE / "asked").write_text(str(asked))
    if asked > int(read("lag", "0")):
        (STATE / "read").write_text((place(f"{BUCKET}/dags") / "ml_digest.py").read_text())
    tags = ", ".join(re.findall(r"tags.add\('(.+)'\)", read("read", "")))
    print(f"Executing the command: [ airflow dags list ]...\n[{{'dag_id': 'ml-metrics-doctor', 'tags': '{tags}'}}]")


def environment() -> dict[str, object]:
    config = {
        "airflowUri": "https://0123-dot-us-central1.composer.googleusercontent.com",
        "dagGcsPrefix": f"{BUCKET}/dags",
        "nodeConfig": {"serviceAccount": "composer@my-project.iam.gserviceaccount.com"},
        "workloadsConfig": {"worker": json.loads(read("worker", '{"cpu": 2, "memoryGb": 4}'))},
        "softwareConfig": {"imageVersion": read("image", "composer-3-airflow-3.3.1-build.0"), **software()},
    }
    return {"name": "nightly", "state": read("state", "RUNNING"), "config": config}


def read(name: str, default: str) -> str:
    """Return what a test has written into the state."""
    file = STATE / name
    return file.read_text() if file.exists() else default


KINDS = {
    "--update-pypi-package": "packages",
    "--update-airflow-configs": "settings",
    "--update-env-variables": "variables",
}


def update(*arguments: str) -> None:
    """Change what the options say, all or nothing."""
    options = list(zip(arguments[::2], arguments[1::2], strict=True))
    if state := read("state", ""):
        refuse(f"FAILED_PRECONDITION: the environment is {state}; wait until its operation has ended")
    if len({KINDS.get(option) for option, _ in options}) != 1:
        refuse("Exactly one of the groups of arguments must be specified")
    changed = software()
    for option, value in options:
        {"packages": add_package, "settings": override, "variables": set_variables}[KINDS[option]](changed, value)
    (STATE / "software.json").write_text(json.dumps(changed))


def refuse(why: str) -> None:
    sys.exit(f"ERROR: (gcloud.composer.environments.update) {why}")


def add_package(changed: Software, value: str) -> None:
    found = re.fullmatch(r"([a-z0-9._-]+(?:\[[a-z0-9,._-]+\])?)((?:[=<>!~]=?.+)?)", value)
    if not found:
        refuse(f"INVALID_ARGUMENT: {value}: a package is specified in lower case, as PEP 508 says")
    elif value == read("conflict", ""):
        refuse(f"Failed to install PyPI packages: {value} conflicts with a preinstalled package")
    else:
        changed.setdefault("pypiPackages", {})[found[1]] = found[2]


def override(changed: Software, value: str) -> None:
    _, sign, rest = value.split("^", 2)
    overrides = changed.setdefault("airflowConfigOverrides", {})
    overrides.update(pair.split("=", 1) for pair in rest.split(sign))
    for name, least, most in LIMITS:
        number = float(overrides[name]) if name in overrides else None
        if number is not None and not bound(least, overrides, 0) <= number <= bound(most, overrides, float("inf")):
            refuse(f"INVALID_ARGUMENT: {name} must be from {least or 'any'} to {most or 'any'}")
    if blocked := [name for name in overrides if name in BLOCKED or name.split("-")[0] + "-*" in BLOCKED]:
        refuse(f"INVALID_ARGUMENT: {blocked[0]} is blocked")


def bound(limit: str, overrides: dict[str, str], default: float) -> float:
    if limit in overrides or limit.removeprefix("2 * ") in overrides:
        return float(overrides[limit.removeprefix("2 * ")]) * (2 if limit.startswith("2 * ") else 1)
    return float(limit) if limit.isdigit() else default


RULES = (Path(__file__).resolve().parents[2] / "deploy" / "composer-limits.txt").read_text().splitlines()
ROWS = [[part.strip() for part in rule.split("|")] for rule in RULES if not rule.startswith("#")]
LIMITS = [(row[0], row[1], row[2]) for row in ROWS if len(row) == 3]
BLOCKED = {row[0] for row in ROWS if row[1] == "blocked"}
RESERVED = {
    *("AIRFLOW_DATABASE_VERSION", "AIRFLOW_HOME", "AIRFLOW_SRC_DIR", "AIRFLOW_WEBSERVER", "AUTO_GKE"),
    *("CLOUD_LOGGING_ONLY", "COMPOSER_ENVIRONMENT", "COMPOSER_LOCATION", "COMPOSER_VERSION", "CONTAINER_NAME"),
    *("DAGS_FOLDER", "GCP_PROJECT", "GCS_BUCKET", "GOOGLE_APPLICATION_CREDENTIALS", "PATH"),
}


def set_variables(changed: Software, value: str) -> None:
    for pair in value.split(","):
        name, _, content = pair.partition("=")
        if not re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_]*", name) or re.fullmatch(r"AIRFLOW__[A-Z0-9_]+__[A-Z0-9_]+", name):
            refuse(f"INVALID_ARGUMENT: {name} cannot be the name of a variable")
        if name in RESERVED:
            refuse(f"INVALID_ARGUMENT: {name} is reserved")
        changed.setdefault("envVariables", {})[name] = content


def allowed(permission: str) -> None:
    if permission in read("denied", "").split():
        sys.exit(f"ERROR: (gcloud) PERMISSION_DENIED: permission '{permission}' is denied")


Software = dict[str, dict[str, str]]


def software() -> Software:
    file = STATE / "software.json"
    return json.loads(file.read_text()) if file.exists() else {}


def copy(how: str, *arguments: str) -> None:
    allowed("storage.objects.create")
    target = place(arguments[-1])
    if how == "cp":
        target.mkdir(parents=True, exist_ok=True)
        for source in arguments[:-1]:
            shutil.copy(source, target)
    else:
        allowed("storage.objects.delete")
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(arguments[-2], target)


def place(address: str) -> Path:
    assert address.startswith(f"{BUCKET}/"), address
    return STATE / "bucket" / address.removeprefix(f"{BUCKET}/")


if __name__ == "__main__":
    main()
