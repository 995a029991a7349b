"""The commands of `gcloud` that deploy/composer.sh uses. Every call is recorded, and a bucket is a folder.

It runs as a program named `gcloud` on the PATH. FAKE_GCLOUD is the folder with its state.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

STATE = Path(os.environ["FAKE_GCLOUD"])
BUCKET = "gs://us-central1-nightly-bucket"


def main() -> None:
    arguments = sys.argv[1:]
    with (STATE / "calls").open("a") as calls:
        print(json.dumps(arguments), file=calls)
    match arguments[:3]:
        case ["config", "get-value", "project"]:
            print(read("project", "my-project"))
        case ["composer", "environments", "describe"]:
            print(read("description", "") or json.dumps(environment()))
        case ["storage", "buckets", "describe"] | ["secrets", "describe", _]:
            if arguments[2 if arguments[0] == "secrets" else 3] in read("absent", "").split():
                sys.exit("ERROR: (gcloud) NOT_FOUND")
        case ["composer", "environments", "update"]:
            update(*arguments[-2:])
        case ["storage", "rsync", *_]:
            rsync(Path(arguments[-2]), place(arguments[-1]))
        case ["storage", "cp", _]:
            place(arguments[-1]).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(arguments[-2], place(arguments[-1]))
        case _:
            sys.exit(f"unknown call: {arguments}")


def environment() -> dict[str, object]:
    config = {
        "airflowUri": "https://0123-dot-us-central1.composer.googleusercontent.com",
        "dagGcsPrefix": f"{BUCKET}/dags",
        "nodeConfig": {"serviceAccount": "composer@my-project.iam.gserviceaccount.com"},
        "workloadsConfig": {"worker": {"cpu": 2, "memoryGb": 4}},
        "softwareConfig": {"imageVersion": read("image", "composer-3-airflow-3.3.1-build.0"), **software()},
    }
    return {"name": "nightly", "config": config}


def read(name: str, default: str) -> str:
    """Return what a test has written into the state."""
    file = STATE / name
    return file.read_text() if file.exists() else default


def update(option: str, value: str) -> None:
    changed = software()
    if option == "--update-pypi-packages-from-file":
        lines = [line.strip() for line in Path(value).read_text().splitlines()]
        pins = [line.partition("==") for line in lines if line and not line.startswith("#")]
        changed["pypiPackages"] = {name: f"=={version}" for name, _, version in pins}
    elif option == "--update-airflow-configs":
        _, sign, rest = value.split("^", 2)
        overrides = dict(pair.split("=", 1) for pair in rest.split(sign))
        changed["airflowConfigOverrides"] = {**changed.get("airflowConfigOverrides", {}), **overrides}
    else:
        sys.exit(f"unknown option: {option}")
    (STATE / "software.json").write_text(json.dumps(changed))


def software() -> dict[str, dict[str, str]]:
    file = STATE / "software.json"
    return json.loads(file.read_text()) if file.exists() else {}


def rsync(source: Path, target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target)


def place(address: str) -> Path:
    assert address.startswith(f"{BUCKET}/"), address
    return STATE / "bucket" / address.removeprefix(f"{BUCKET}/")


if __name__ == "__main__":
    main()
