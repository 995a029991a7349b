"""Options of Airflow's configuration, read without importing Airflow, which takes seconds.

The precedence is Airflow's: the variable `AIRFLOW__<SECTION>__<KEY>`, the output of the command in `..._CMD`, the
value in Airflow's secrets backend that `..._SECRET` names, then the same three in `airflow.cfg`. Airflow has the second
and third for its own secrets only, this package for every option that it reads.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Iterable, Mapping
from configparser import ConfigParser, Error
from datetime import UTC, tzinfo
from functools import cache, lru_cache
from importlib import import_module
from pathlib import Path
from zoneinfo import ZoneInfo

from ml_metrics.core.errors import ConfigError


def airflow_option(section: str, key: str) -> str | None:
    return airflow_options(section, (key,))[key]


def airflow_options(section: str, keys: Iterable[str]) -> dict[str, str | None]:
    in_file = _section(section)
    found: dict[str, str | None] = {}
    for key in keys:
        variable = f"AIRFLOW__{section}__{key}".upper()
        value = _given(os.environ, variable, variable, "_CMD", "_SECRET")
        found[key] = _given(in_file, key, f"[{section}] {key}", "_cmd", "_secret") if value is None else value
    return found


def default_zone() -> tzinfo:
    """Raises ConfigError if Airflow's option names none."""
    name = airflow_option("core", "default_timezone") or "utc"
    if name.lower() == "utc":
        return UTC
    try:
        if name != "system":
            return ZoneInfo(name)
        if key := os.environ.get("TZ", "").lstrip(":"):
            return ZoneInfo(key)
        with Path("/etc/localtime").open("rb") as file:
            return ZoneInfo.from_file(file)
    except FileNotFoundError:  # a machine without a zone is in UTC
        return UTC
    except (KeyError, ValueError, OSError):
        raise ConfigError(f"[core] default_timezone: {name!r} is not a time zone like Europe/Berlin") from None


def section_keys(section: str) -> set[str]:
    return set(_section(section))


def airflow_cfg_path() -> Path:
    given = os.environ.get("AIRFLOW_CONFIG")
    return airflow_home() / "airflow.cfg" if given is None else _expanded(given, os.environ.get("HOME"))


def airflow_home() -> Path:
    return _expanded(os.environ.get("AIRFLOW_HOME", "~/airflow"), os.environ.get("HOME"))


@lru_cache(maxsize=16)  # a DAG file of a thousand tests asks for ten thousand options
def _expanded(path: str, _home_of_user: str | None) -> Path:
    return Path(path).expanduser()


def dags_folder() -> Path:
    configured = os.environ.get("AIRFLOW__CORE__DAGS_FOLDER") or _section("core").get("dags_folder")
    return Path(configured).expanduser() if configured else airflow_home() / "dags"


def version_of(path: Path) -> tuple[int, ...]:
    """Changes when the file changes; empty for a file that cannot be read."""
    try:
        status = path.stat()
    except OSError:
        return ()
    return status.st_ino, status.st_mtime_ns, status.st_size


def _given(options: Mapping[str, str], name: str, shown: str, command: str, secret: str) -> str | None:
    """An option from the variables, or from a section of the file."""
    if name in options:
        return options[name]
    if given := options.get(name + command):
        return _output_of(given, shown + command)
    given = options.get(name + secret)
    return _secret(given, shown + secret) if given else None


def _section(name: str) -> dict[str, str]:
    path = airflow_cfg_path()
    return _sections(path, version_of(path)).get(name, {})


@lru_cache(maxsize=4)
def _sections(path: Path, _version: tuple[int, ...]) -> dict[str, dict[str, str]]:
    parser = ConfigParser(interpolation=None, strict=False)
    try:
        parser.read(path, encoding="utf-8")
    except Error as error:
        raise ConfigError(f"{path}: cannot be read as Airflow's configuration: {error}") from error
    return {section: dict(parser[section]) for section in parser.sections()}


@cache
def _output_of(command: str, where: str) -> str:
    """Run once in a process: it may call a service, and settings are read often."""
    try:
        done = subprocess.run(shlex.split(command), check=True, capture_output=True, text=True, timeout=60)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise ConfigError(f"{where}: the command could not be run ({type(error).__name__})") from None  # it has secrets
    return done.stdout.strip()


@cache
def _secret(name: str, where: str) -> str | None:
    """None if there is no backend, or no such value in it."""
    try:
        # by name: only a deployment with such a setting pays for the import of Airflow
        backend = import_module("airflow.configuration").get_custom_secret_backend()
        value = None if backend is None else backend.get_config(name)
    except Exception as error:  # noqa: BLE001  (a backend is anybody's code)
        raise ConfigError(
            f"{where}: Airflow's secrets backend failed ({type(error).__name__})"
        ) from None  # so may this
    return None if value is None else str(value)
