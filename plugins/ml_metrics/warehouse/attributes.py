"""The recorded attributes of runs: columns of `job_history`, and their rows of `metadata_history`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ml_metrics.judge.attributes import without_unique
from ml_metrics.values import as_utc, by_storable_name, storable_name, storable_text
from ml_metrics.warehouse.deployment import OF_DEPLOYMENT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import datetime

    from ml_metrics.warehouse.database import Database

    Own = tuple[str, Callable[[], Mapping[str, str]]]

MAX_VALUE_LENGTH = 500
"""The part of a text that is compared. Long texts are reports rather than attributes."""

RESULTS = ("cost.", "mfu.")
"""Metadata about how a result was computed, which does not explain a change."""

COLUMNS = f"""
SELECT uuid, image, accelerator, framework_version AS framework FROM job_history
WHERE {OF_DEPLOYMENT} AND uuid IN :runs AND test_name IN :tests AND timestamp >= :since
"""  # noqa: S608  (constants)

METADATA = f"""
SELECT uuid, metadata_key, SUBSTR(metadata_value, 1, {MAX_VALUE_LENGTH}) AS metadata_value
FROM metadata_history
WHERE uuid IN :runs AND (timestamp IS NULL OR timestamp >= :since) AND uuid IN (
  SELECT uuid FROM job_history
  WHERE uuid IN :runs AND {OF_DEPLOYMENT} AND test_name IN :tests AND timestamp >= :since
)
"""  # noqa: S608  (constants)


class RunAttributes(Mapping[str, Mapping[str, str]]):
    """The attributes of runs by run key, read with two queries at the first request.

    Most judgements find no change that attributes could explain, so they read nothing.
    """

    def __init__(
        self,
        database: Database,
        tests: Sequence[str],
        ends: Mapping[str, datetime],
        own: Own | None = None,
        deployments: Sequence[str] = (),
    ) -> None:
        """Describe the runs of some tests.

        Args:
            database: where they are stored.
            tests: the tests that they belong to.
            ends: when each run ended, by its key.
            own: the key of a run that may not be stored yet, and a function that returns its attributes.
            deployments: the other deployments that some of the runs are of.
        """
        self._databases = database.with_others(deployments)
        self._tests, self._ends, self._own = list(tests), ends, own

    def __getitem__(self, run_key: str) -> Mapping[str, str]:
        return self._read[run_key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)

    @property
    def _keys(self) -> list[str]:
        return list(dict.fromkeys([*self._ends, *([self._own[0]] if self._own else [])]))

    @cached_property
    def _read(self) -> dict[str, dict[str, str]]:
        found: dict[str, dict[str, str]] = {key: {} for key in self._keys}
        stored = [key for key in self._ends if self._own is None or key != self._own[0]]
        if stored:
            since = min(as_utc(self._ends[key]) for key in stored)
            for row in self._rows(COLUMNS, runs=stored, tests=self._tests, since=since):
                found[row["uuid"]] = {k: v for k, v in row.items() if k != "uuid" and v}
            metadata: dict[str, dict[str, str]] = defaultdict(dict)
            for row in self._rows(METADATA, runs=stored, tests=self._tests, since=since):
                name = storable_name(row["metadata_key"])  # older versions stored other names
                if not name.startswith(RESULTS):
                    metadata[row["uuid"]][name] = row["metadata_value"] or ""
            for key, stored_texts in metadata.items():
                found[key] = {**stored_texts, **found[key]}
        if self._own is not None:
            key, attributes = self._own
            named, _ = by_storable_name(attributes().items())
            found[key] = {name: storable_text(text)[:MAX_VALUE_LENGTH] for name, text in named.items() if text}
        return without_unique(found)

    def _rows(self, query: str, **parameters: Any) -> Iterator[dict[str, Any]]:
        for database in self._databases:
            yield from database.query(query, **parameters)
