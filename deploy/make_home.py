"""Make Airflow's home on a laptop, where it is missing or older than what it is made of: `make install` runs this.

Usage: AIRFLOW_HOME=... python deploy/make_home.py [--configuration-only]

The configuration is include/laptop.cfg with the folders of this machine, which may have blanks in their names.
"""

from __future__ import annotations

import base64
import os
import re
import secrets
import sqlite3
import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
TEMPLATE, TASKS = PROJECT / "include" / "laptop.cfg", PROJECT / "deploy" / "tasks-at-once.sh"
KEY = re.compile(r"^fernet_key = *(\S+)$", re.MULTILINE)
MEANS_MORE = set("?$\n")
"""What a folder cannot have in its name: a question mark ends the path in the address of a SQLite file, and Airflow
replaces variables in its configuration."""
LOG_LINES = 20


def main(*arguments: str) -> None:
    """Make what is missing in the folder that AIRFLOW_HOME names, readable for its owner only."""
    os.umask(0o077)
    home = Path(os.environ["AIRFLOW_HOME"]).expanduser().absolute()
    for folder in (home, PROJECT):
        if found := MEANS_MORE & set(str(folder)):
            sys.exit(
                f"Airflow cannot work in {str(folder)!r}: rename what has {' or '.join(sorted(found))} in its name"
            )
    home.mkdir(parents=True, exist_ok=True)
    keep_to_owner(home)
    configuration, database = home / "airflow.cfg", home / "airflow.db"
    if is_older(configuration, TEMPLATE, TASKS):
        old = configuration.read_text(encoding="utf-8") if configuration.exists() else ""
        new = configuration.with_suffix(".new")
        new.write_text(laptop(home, KEY.search(old)), encoding="utf-8")
        new.replace(configuration)
    if "--configuration-only" not in arguments and is_older(database, configuration):
        make_database(home, database)


def laptop(home: Path, key: re.Match[str] | None = None) -> str:
    """Return the configuration of a home. A key that there is stays: connections and documents depend on it."""
    values = {
        "PROJECT": str(PROJECT),
        "HOME": str(home),
        "TASKS": subprocess.run(["sh", TASKS], check=True, capture_output=True, text=True).stdout.strip(),
        "SECRET": secrets.token_hex(32),
        "FERNET": key[1] if key else base64.urlsafe_b64encode(secrets.token_bytes(32)).decode(),
    }

    def filled(line: str) -> str:
        """Fill in a line of the template; a comment only names the places."""
        if line.startswith("#"):
            return line
        return re.sub("@([A-Z]+)@", lambda place: values[place[1]].replace("%", "%%"), line)

    return "".join(map(filled, TEMPLATE.read_text(encoding="utf-8").splitlines(keepends=True)))


def keep_to_owner(home: Path) -> None:
    """Let only the owner read what is in a home, also if it is older than this rule."""
    home.chmod(0o700)
    for file in home.iterdir():
        if file.is_file() and not file.is_symlink():
            file.chmod(file.stat().st_mode & 0o700)


def is_older(file: Path, *sources: Path) -> bool:
    """Say whether a file has to be made: it is missing, or one of its sources has changed since."""
    return not file.exists() or file.stat().st_mtime < max(source.stat().st_mtime for source in sources)


def make_database(home: Path, database: Path) -> None:
    """Make or migrate the database, with a log that it keeps: processes read while one of them writes."""
    print("Making Airflow's database ...", flush=True)
    log = home / "migrate.log"
    with log.open("w") as output:
        done = subprocess.run(["airflow", "db", "migrate"], stdout=output, stderr=output, check=False)
    if done.returncode:
        lines = log.read_text(errors="replace").splitlines()[-LOG_LINES:]
        sys.exit("\n".join([*lines, f"`airflow db migrate` failed; its last lines are above, all are in {log}"]))
    with sqlite3.connect(database) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
    database.touch()


if __name__ == "__main__":
    main(*sys.argv[1:])
