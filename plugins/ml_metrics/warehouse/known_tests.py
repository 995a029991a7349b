"""The tests that a deployment knows: their owner, their file, their schedule, and their problems.

All tests are one row, which a pass reads and replaces as a whole: what it reported and what it knows change together.
A test that is written in Python has a row of its own, which each run of it keeps up to date.
"""

from __future__ import annotations

import json
import zlib
from base64 import b64decode, b64encode
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING

import msgspec

from ml_metrics.config.definition import longest_run
from ml_metrics.core.values import as_utc, end_of_day, short_hash
from ml_metrics.judge import history_needs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ml_metrics.config.definition import TestDefinition
    from ml_metrics.warehouse.database import Database


WATCHED = "watched"
PYTHON = "python:"
"""Begins the part of a test that is written in Python."""

UNREADABLE, VANISHED, RENAMED = "file:unreadable", "file:vanished", "file:renamed"
PAUSED, MISSING, IMPORT_ERROR, MISSED = "dag:paused", "dag:missing", "dag:import_error", "schedule:missed"
"""The names of the problems of a test that does not run."""
DEFINITION = "definition:"
"""Begins the name under which the incident about a test's file, DAG or schedule is kept. No test has such a name."""

MAX_PLAIN = 2_000_000
"""The characters of a document that is stored as JSON."""
COMPRESSED = "zlib:"
"""Begins a longer one."""

READ = "SELECT part, version, document FROM known_tests WHERE deployment = :deployment ORDER BY part"

READ_ALL = "SELECT deployment, document FROM known_tests"

READ_PART = "SELECT part, version, document FROM known_tests WHERE deployment = :deployment AND part = :part"

ADD = """
INSERT INTO known_tests (deployment, part, version, timestamp, document)
SELECT :deployment, :part, 1, :at, :document
FROM (SELECT 1 AS one) AS alone
WHERE NOT EXISTS (
  SELECT 1 FROM known_tests AS earlier WHERE earlier.deployment = :deployment AND earlier.part = :part
)
"""

REPLACE = """
UPDATE known_tests SET version = version + 1, timestamp = :at, document = :document
WHERE deployment = :deployment AND part = :part AND version = :version
"""

FORGET = "DELETE FROM known_tests WHERE deployment = :deployment AND part = :part"


@dataclass(frozen=True, slots=True)
class KnownTest:
    """A test as it was when its definition was last read."""

    test: str
    owner: str = "unowned"
    emails: tuple[str, ...] = ()
    sender: str = ""
    tags: tuple[str, ...] = ()
    file: str = ""
    """The test file, or the DAG file of a test that is written in Python."""
    in_python: bool = False
    dag_file: str = ""
    """The DAG file below the DAGs folder, as Airflow knows it; empty if that is unknown."""
    schedule: str = ""
    longest: float = 0.0
    """How many seconds all attempts of a run may take."""
    recorded: bool = True
    """Whether its runs are rows of the warehouse."""
    quiet_until: str = ""
    """The last day of the quarantine in its file, or empty."""
    fingerprint: str = ""
    """What the definition is apart from its names."""
    since: float = 0.0
    """From when its scheduled runs are expected, in seconds since 1970."""
    started: bool = False
    """Whether its DAG was ever seen unpaused. A new DAG is paused until somebody starts it."""
    problems: dict[str, str] = field(default_factory=dict)
    """The current problems: names, each with a sentence."""
    reported: tuple[str, ...] = ()
    """The names of the problems that a message was sent about since the last one that everything is in order."""
    ignored: tuple[str, ...] = ()
    """The names of problems that the test had when it was first seen, about which no message is sent."""
    window: int | None = None
    """The longest baseline of its conditions, in runs; None if they are unknown."""
    compared_with: tuple[tuple[str, str], ...] = ()
    """The other tests whose runs are such baselines, each with its deployment, which is empty for the same one."""

    @property
    def is_paused(self) -> bool:
        return PAUSED in self.problems

    def is_quiet(self, now: datetime) -> bool:
        """Whether the quarantine in its file is in effect."""
        return bool(self.quiet_until) and as_utc(now) < end_of_day(date.fromisoformat(self.quiet_until))


@dataclass(frozen=True, slots=True)
class KnownState:
    """All known tests."""

    version: int = 0
    """0 if nothing was recorded yet."""
    tests: dict[str, KnownTest] = field(default_factory=dict)
    in_python: dict[str, KnownTest] = field(default_factory=dict)
    """Tests that are written in Python, as their last runs found them."""


@dataclass(frozen=True, slots=True)
class KnownTests:
    """Reading and replacing the known tests."""

    database: Database

    def read(self) -> KnownState:
        version = 0
        tests: dict[str, KnownTest] = {}
        in_python: dict[str, KnownTest] = {}
        for row in self.database.query(READ):
            if row["part"] == WATCHED:
                version, tests = int(row["version"]), _tests(row["document"])
            else:
                in_python |= _tests(row["document"])
        return KnownState(version, tests, in_python)

    def windows(self) -> dict[str, int]:
        """The longest known baseline of each test's runs, with which tests of other deployments may compare, too."""
        found: dict[str, int] = {}
        unknown = set()
        for row in self.database.query(READ_ALL):
            for test in _tests(row["document"]).values():
                if test.window is None:
                    unknown.update([test.test] if row["deployment"] == self.database.deployment else [])
                    continue
                for deployment, name in (("", test.test), *test.compared_with):
                    if (deployment or row["deployment"]) == self.database.deployment:
                        found[name] = max(found.get(name, 0), test.window)
        return {name: window for name, window in found.items() if name not in unknown}

    def replace(self, tests: Mapping[str, KnownTest], version: int, at: datetime | None = None) -> bool:
        """Replace all known tests. False if another process has replaced this version before."""
        return self._write(WATCHED, tests, version, at)

    def register(self, test: KnownTest, at: datetime | None = None) -> bool:
        """Record a test that is written in Python. False if it is known already, exactly so."""
        part = f"{PYTHON}{test.test}"
        found = self.database.query(READ_PART, part=part)
        if found and _tests(found[0]["document"]) == {test.test: test}:
            return False
        return self._write(part, {test.test: test}, int(found[0]["version"]) if found else 0, at)

    def forget(self, test: str) -> None:
        """Remove a test that is written in Python. The next run of the test adds it again."""
        self.database.change(FORGET, part=f"{PYTHON}{test}")

    def _write(self, part: str, tests: Mapping[str, KnownTest], version: int, at: datetime | None) -> bool:
        row = {"part": part, "document": _packed(tests)}
        moment = as_utc(at or datetime.now(UTC))
        if version == 0:
            return self.database.change(ADD, **row, at=moment) > 0
        return self.database.change(REPLACE, **row, at=moment, version=version) > 0


def _packed(tests: Mapping[str, KnownTest]) -> str:
    """Tests as they are stored. BigQuery takes 10 MB in a request, so those of very many are compressed."""
    document = json.dumps([asdict(test) for _, test in sorted(tests.items())])
    return document if len(document) <= MAX_PLAIN else COMPRESSED + b64encode(zlib.compress(document.encode())).decode()


def _tests(document: str) -> dict[str, KnownTest]:
    if document.startswith(COMPRESSED):
        document = zlib.decompress(b64decode(document.removeprefix(COMPRESSED))).decode()
    # fields of later versions of this package are left out
    return {one.test: one for one in msgspec.json.decode(document, type=list[KnownTest])}


NAMES = {"name", "framework", "model", "mode", "description", "owner", "emails", "sender", "tags"}
"""Keys that a renamed test may change."""


def known_test(test: TestDefinition, now: datetime | None = None, *, file: str = "") -> KnownTest:
    """The part of a definition to store. `file` is the DAG file of a test that is written in Python."""
    definition = test.model_dump_json(exclude=NAMES)
    needs = history_needs(test.regression_test_config, test.name)
    others = [("", name) for name in needs.tests[1:]]
    return KnownTest(
        test.name,
        owner=test.owner,
        emails=test.emails,
        sender=test.sender or "",
        tags=test.tags,
        file=test.source or file,
        in_python=not test.source,
        schedule=test.schedule or "",
        longest=longest_run(test).total_seconds(),
        recorded=test.metric_collection_config.write_to_bigquery,
        quiet_until=str(test.quarantine.until) if test.quarantine else "",
        fingerprint=short_hash(definition),
        since=now.timestamp() if now else 0.0,
        window=needs.window,
        compared_with=(*others, *((other.deployment, other.test) for other in needs.elsewhere)),
    )


def carried_over(test: KnownTest, earlier: KnownTest | None) -> KnownTest:
    """A test as its definition now is, with what is known of it. Runs of a new schedule are expected from now on."""
    if earlier is None:
        return test
    kept = {name: getattr(earlier, name) for name in ("started", "reported", "ignored")}
    since = earlier.since if test.schedule == earlier.schedule else test.since
    return replace(test, since=since, dag_file=test.dag_file or earlier.dag_file, **kept)
