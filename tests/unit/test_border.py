"""The class of mistake behind following a link: a module that opens a path of a run folder by itself."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import ml_metrics

PACKAGE = Path(ml_metrics.__file__).parent
OPENERS = {"open", "read_text", "read_bytes", "write_text", "write_bytes", "open_read", "create_bytes"}
OPENED_BY_PATH = {
    "confined.py": "the border itself",
    "buckets.py": "objects of a bucket, which has no links",
    "removal.py": "folders, each from the handle of the one above it, to empty them",
    "storage.py": "below a folder through the border; and paths that a user or a setting names",
    "doctor/machine.py": "the limits of this container, below /sys",
    "doctor/places.py": "a probe that it makes itself, in the folders of the settings",
    "documents_key.py": "the key, which only its owner may read",
    "airflow_options.py": "this machine's time zone, as its administrator has set it",
    "alerts/channels/outbox.py": "the outbox, a folder of Airflow's own",
    "compare/journal.py": "the journal that a user names",
    "cli/output.py": "the report that a user names",
    "cli/search_question.py": "the list of candidates that a user names",
    "cli/cost.py": "the rows of a billing export, which a user names",
    "cli/demo.py": "the files of the demonstration",
    "cli/demo_home.py": "the files of the demonstration",
    "clusters/kubeconfig.py": "the kubeconfig, which is checked for who may write it",
    "collect/profile.py": "copies in a folder of its own",
    "config/airflow_namespace.py": "the namespace of this pod, which its cluster has written",
    "config/dag_files.py": "DAG files",
    "config/document.py": "test files",
    "config/edit.py": "test files",
    "config/jsonnet_worker.py": "test files",
    "config/load.py": "test files",
    "dashboard/links.py": "the assets of this package",
    "dashboard/report.py": "the assets of this package, and the folder that a user names",
    "dashboard/pages/one_run.py": "mails in the outbox, a folder of Airflow's own",
    "experiments/registry_login.py": "the login that `docker login` has written for the user of this process",
    "judge/input_files.py": "files that a user names",
    "notify/watch/import_errors.py": "DAG files",
    "provider_info.py": "the source of this package",
    "shared_modules.py": "the kernel's record of this process",
}
"""Why these modules may open what they open."""
TRUSTED_RUN_FOLDERS = {"cli/collect.py": "a user names the folder, which may be a copy, or reached through links"}


@cache
def calls() -> tuple[tuple[str, ast.Call, str], ...]:
    """Return every call in the package, with its module and the name of what is called."""
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Call):
                name = getattr(node.func, "attr", "") or getattr(node.func, "id", "")
                found.append((path.relative_to(PACKAGE).as_posix(), node, name))
    return tuple(found)


def opens_by_path(call: ast.Call, name: str) -> bool:
    """Whether a call opens a path. A `File`, a `Folder` and a connection are opened without a path and a mode."""
    of_a_handle = name == "open" and isinstance(call.func, ast.Attribute) and not call.args and not call.keywords
    return name in OPENERS and not of_a_handle


def test_no_other_module_opens_a_path() -> None:
    """A new one either takes a `File` or `Folder` of `ml_metrics.store.files`, or states above whose path it opens."""
    names = {"goodput/log_files.py", "alerts/channels/smtp.py", "alerts/channels/github.py", "run_folder.py"}
    names |= {"cloud/cloud_monitoring.py"}  # methods of that name, of no path
    found = {module for module, call, name in calls() if opens_by_path(call, name)}
    assert found - names == set(OPENED_BY_PATH)


def test_every_run_folder_has_the_storage_root_above_it() -> None:
    """With a root, the folders of the test and of the run are not followed either if they are links."""
    without = {
        module
        for module, call, name in calls()
        if name == "RunFolder" and len(call.args) < 2 and not any(one.arg == "root" for one in call.keywords)
    }
    assert without == set(TRUSTED_RUN_FOLDERS)
