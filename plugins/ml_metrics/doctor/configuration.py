"""The settings and the test files."""

from __future__ import annotations

import os
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

from ml_metrics.airflow_options import airflow_options, section_keys
from ml_metrics.clusters.local_cluster import Access
from ml_metrics.clusters.pools import configured_pools
from ml_metrics.config.clusters import configured_clusters
from ml_metrics.config.load import load_tests
from ml_metrics.config.policy import current_policy
from ml_metrics.config.problems import did_you_mean
from ml_metrics.config.reading_time import ReadingTime
from ml_metrics.documents_key import documents_keys, key_file
from ml_metrics.efficiency.prices import configured_book
from ml_metrics.errors import ConfigError
from ml_metrics.operators.cluster import first_patience
from ml_metrics.retention.ages import Ages
from ml_metrics.run_folder import listing_limits
from ml_metrics.settings import SECTION, Settings, checked_issue_url, is_on
from ml_metrics.warehouse.bigquery_options import BigQueryOptions

if TYPE_CHECKING:
    from collections.abc import Collection

WHOLE_NUMBERS = ("mails_per_hour", "mass_failure_tests", "mass_failure_percent", "silent_runs", "log_lines_in_mails")
YES_OR_NO = ("kubeconfig_programs", "shared_disk")
ENDS = ("_cmd", "_secret")


def settings_are_valid(settings: Settings) -> str:
    """Return how many settings are not the default. Raises ConfigError for unknown names and wrong values."""
    known = {field.name: field.default for field in fields(Settings)}
    given = {_without_end(name, known) for name in _given_names()}
    if unknown := sorted(given - known.keys()):
        raise ConfigError(
            "; ".join(f"[{SECTION}] {name}: there is no such setting{did_you_mean(name, known)}" for name in unknown)
        )
    _check_values(settings)
    # Airflow writes every default into a new airflow.cfg
    own = sum(bool(text) and text != known[name] for name, text in airflow_options(SECTION, known).items())
    return f"{own} of {len(known)} are not the default; deployment `{settings.deployment}`"


def documents_are_signed() -> str:
    """Return how documents are signed."""
    keys, file = documents_keys(), key_file()
    if not keys:
        return f"nothing is signed yet: the first run makes the key, {file}"
    home = file.parents[1]
    if os.geteuid() == 0 and file.exists() and file.stat().st_uid != home.stat().st_uid:  # root reads any file
        raise ConfigError(f"{file}: cannot be read by the owner of Airflow's home: `chown --reference={home} {file}`")
    return "documents in run folders are signed" + (f"; {len(keys) - 1} earlier keys are believed" if keys[1:] else "")


def files_are_valid(settings: Settings) -> str:
    """Return how many tests there are. Raises ConfigError if files are invalid."""
    root = Path(settings.config_root)
    if not root.is_dir():
        raise ConfigError(f"[{SECTION}] config_root: there is no folder {root}")
    loaded = load_tests(root)
    if loaded.problems:
        raise ConfigError(
            f"{len(loaded.problems)} mistakes, the first: {loaded.problems[0]}. `ml-metrics validate` lists all"
        )
    return f"{len(loaded.tests)} tests in {root}"


def _check_values(settings: Settings) -> None:
    """Read every setting that is not a plain text, as its reader does."""
    _ = settings.limits
    listing_limits(settings)
    Ages.of(settings)
    BigQueryOptions.of(settings, "")
    Access.of(settings)
    ReadingTime.of_settings()
    first_patience()
    configured_pools(settings.pools)
    configured_clusters()
    configured_book()
    current_policy()
    checked_issue_url(settings)
    for name in YES_OR_NO:
        is_on(getattr(settings, name), name)
    for name in WHOLE_NUMBERS:
        if not (text := getattr(settings, name)).isdecimal():
            raise ConfigError(f"[{SECTION}] {name}: {text!r} is not a whole number of at least 0")


def _given_names() -> set[str]:
    prefix = f"AIRFLOW__{SECTION}__".upper()
    in_environment = {name.removeprefix(prefix).lower() for name in os.environ if name.startswith(prefix)}
    return in_environment | section_keys(SECTION)


def _without_end(name: str, known: Collection[str]) -> str:
    return next((short for end in ENDS if (short := name.removesuffix(end)) in known), name)
