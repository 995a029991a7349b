"""The class of mistake behind following a link: a module that opens a path of a run folder by itself."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import ml_metrics
from syntax import syntax_of

PACKAGE = Path(ml_metrics.__file__).parent
OPENERS = {"open", "read_text", "read_bytes", "write_text", "write_bytes", "open_read"}
OPENED_BY_PATH = {
    "store/confined.py": "the border itself; and folders, each from the handle of the one above it, to empty them",
    "store/buckets.py": "objects of a bucket, which has no links",
    "store/storage.py": "below a folder through the border; and paths that a user or a setting names",
    "airflow/doctor.py": "the limits of this container, below /sys; a probe of its own in the folders of the settings",
    "store/documents.py": "the key, which only its owner may read",
    "core/airflow_options.py": "this machine's time zone, as its administrator has set it",
    "alerts/channels/mail.py": "the outbox, a folder of Airflow's own",
    "ui/cli/measuring.py": "the journal that a user names",
    "ui/cli/output.py": "the report that a user names",
    "ui/cli/bisect.py": "the list of candidates that a user names",
    "ui/cli/cost.py": "the rows of a billing export, which a user names",
    "ui/cli/demo.py": "the files of the demonstration",
    "airflow/operators/cluster.py": "the kubeconfig, which is checked for who may write it",
    "measure/readers/xprof.py": "copies in a folder of its own",
    "config/policy.py": "the namespace of this pod, which its cluster has written",
    "config/loading.py": "DAG files and test files",
    "config/document.py": "test files",
    "config/editing.py": "test files",
    "config/jsonnet_worker.py": "test files",
    "ui/dashboard/links.py": "the assets of this package",
    "ui/cli/report.py": "the assets of this package, and the folder that a user names",
    "ui/dashboard/one_run.py": "mails in the outbox, a folder of Airflow's own",
    "pipeline/experiments/registry.py": "the login that `docker login` has written for the user of this process",
    "ui/cli/inputs.py": "files that a user names",
    "alerts/import_errors.py": "DAG files",
    "airflow/provider_info.py": "the source of this package",
    "core/lazy.py": "the source of this package",
    "airflow/preloading.py": "the kernel's record of this process",
}
"""Why these modules may open what they open."""
TRUSTED_RUN_FOLDERS = {"ui/cli/collect.py": "a user names the folder, which may be a copy, or reached through links"}


@cache
def calls() -> tuple[tuple[str, ast.Call, str], ...]:
    """Return every call in the package, with its module and the name of what is called."""
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(syntax_of(path.read_bytes())):
            if isinstance(node, ast.Call):
                name = getattr(node.func, "attr", "") or getattr(node.func, "id", "")
                found.append((path.relative_to(PACKAGE).as_posix(), node, name))
    return tuple(found)


def opens_by_path(call: ast.Call, name: str) -> bool:
    """Whether a call opens a path. A `File`, a `Folder` and a connection are opened without a path and a mode."""
    of_a_handle = name == "open" and isinstance(call.func, ast.Attribute) and not call.args and not call.keywords
    return name in OPENERS and not of_a_handle


def test_no_other_module_opens_a_path() -> None:
    """A new one takes a `File` or `Folder` of `ml_metrics.store.storage`, or states above whose path it opens."""
    names = {"measure/goodput/log.py", "alerts/channels/smtp.py", "alerts/channels/github.py", "store/run_folder.py"}
    names |= {"measure/cloud/monitoring.py"}  # methods of that name, of no path
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
