"""The versions that a search tries: a list, those of past runs, tags of an image, or lists of packages of two runs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from ml_metrics.core.errors import ConfigError
from ml_metrics.core.model import SWEEP, Sweep
from ml_metrics.core.text import did_you_mean
from ml_metrics.core.values import finite
from ml_metrics.judge import reference_of
from ml_metrics.pipeline.experiments import registry

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from ml_metrics.core.model import StoredMetric
    from ml_metrics.core.settings import Settings
    from ml_metrics.warehouse import Warehouse


MOST_CANDIDATES = 10_000
IMAGE = "image"
RUNS = 200
"""The newest runs among which the good and the bad one are searched."""
PAST_RUNS = 50
"""The newest runs whose values show the noise."""
PACKAGE = "package."
"""How the metadata of a run names the version of a package."""


class Source(StrEnum):
    """Where the candidates are from."""

    LIST = "list"
    HISTORY = "history"
    TAGS = "tags"
    PACKAGES = "packages"


@dataclass(frozen=True, slots=True)
class Candidates:
    """The candidates, oldest first; the first is good and the last is bad."""

    versions: tuple[str, ...]
    good: tuple[float | Sweep, ...] = ()
    """Values or curves of regular runs of the first one."""
    bad: tuple[float | Sweep, ...] = ()
    """Those of the last one."""


@dataclass(frozen=True, slots=True)
class Span:
    """Where in the history of a test versions are searched."""

    test: str
    parameter: str
    """What differs between versions: `image`, or a parameter of the test."""
    metric: str
    good: str = ""
    """The key of a good run; empty for the newest before the level of the metric changed."""
    bad: str = ""
    """The key of a bad run; empty for the newest that broke."""


@dataclass(frozen=True, slots=True)
class Places:
    """Where an experiment finds tests and past runs."""

    settings: Settings
    warehouse: Callable[[], AbstractContextManager[Warehouse]]
    """Opens the warehouse."""


def candidates_of(source: str, listed: Any, image: str, span: Span, places: Places) -> Candidates:
    """Of a `Source`: those that a form lists, or between the versions, tags or runs of a span.

    Raises ConfigError if there are none. `image` is that of the test.
    """
    if source == Source.LIST:
        found = Candidates(_between(_listed(listed), span.good, span.bad))
    elif source == Source.TAGS:
        if span.parameter != IMAGE:
            raise ConfigError("source: tags are those of an image, so `parameter` should be `image`")
        found = Candidates(_tags(image, span.good, span.bad))
    else:
        past = versions_between if source == Source.HISTORY else packages_between
        with places.warehouse() as warehouse:
            found = past(warehouse, span)
    if len(found.versions) > MOST_CANDIDATES:
        raise ConfigError(f"candidates: {len(found.versions):,} given, at most {MOST_CANDIDATES:,} are searched")
    return found


def _listed(text: Any) -> list[str]:
    lines = [line.strip() for line in text.splitlines()] if isinstance(text, str) else [str(one) for one in text or ()]
    found = [line for line in lines if line]
    if not found:
        raise ConfigError("candidates: is empty; list them in the order of time, one a line")
    return found


def _tags(image: str, good: str, bad: str) -> tuple[str, ...]:
    name, tags = registry.tags_of(image)
    return tuple(f"{name}:{tag}" for tag in _between(tags, _tag(good), _tag(bad)))


def _tag(version: str) -> str:
    """The tag of a reference to an image, or what is a tag already."""
    return version.rpartition("/")[2].rpartition(":")[2]


def _between(versions: list[str], good: str, bad: str) -> tuple[str, ...]:
    """The ends default to the first and the last."""
    for name, version in (("good", good), ("bad", bad)):
        if version and version not in versions:
            raise ConfigError(f"{name}: {version!r} is not among the {len(versions):,} candidates")
    first = versions.index(good) if good else 0
    last = versions.index(bad) if bad else len(versions) - 1
    if first >= last and len(versions) > 1:
        raise ConfigError(f"good: {versions[first]} is not before {versions[last]}")
    return tuple(versions[first : last + 1])


def versions_between(warehouse: Warehouse, span: Span) -> Candidates:
    """Of the runs from a good to a bad one, with the values of both ends."""
    test, parameter = span.test, span.parameter
    rows = _runs(warehouse, span)
    first, last = _ends(warehouse, rows, span)
    names = [_version(warehouse.runs.metadata(row.run_key), parameter) for row in rows[: last + 1]]
    between = list(dict.fromkeys(name for name in names[first:] if name))
    if not names[first] or not names[last]:
        raise ConfigError(f"the runs of {test} do not record their {parameter}; list the candidates")
    if between[0] == names[last]:
        raise ConfigError(
            f"the good and the bad run of {test} have the same {parameter}, {names[last]}: something else changed"
        )
    versions = (*(name for name in between if name != names[last]), names[last])
    values: list[tuple[str, float | Sweep | None]]
    values = [(name, finite(row.value)) for name, row in zip(names, rows, strict=False)]
    if span.metric.startswith(SWEEP):
        times, curve = {row.run_key: row.timestamp for row in rows}, span.metric.removeprefix(SWEEP)
        curves = warehouse.curves.sweeps_of_runs(list(times), [curve], tests=[test], ends=times)
        values = [(name, curves.get((row.run_key, curve))) for name, row in zip(names, rows, strict=False)]
    ends = (
        [value for name, value in values if name == end and value is not None] for end in (versions[0], names[last])
    )
    good_values, bad_values = map(tuple, ends)
    return Candidates(versions, good_values, bad_values)


def values_of(warehouse: Warehouse, test: str, metrics: Sequence[str] = ()) -> dict[str, list[float]]:
    """The newest values, oldest first; without names, of the metrics of the newest run."""
    newest = [] if metrics else warehouse.runs.newest(test, 1)
    names = metrics or [row.metric for job in newest for row in warehouse.metrics.of_run(job.place)]
    rows = {name: warehouse.metrics.values(test, name, PAST_RUNS) for name in names}
    return {
        name: [number for row in reversed(found) if (number := finite(row.value)) is not None]
        for name, found in rows.items()
    }


def good_run(warehouse: Warehouse, span: Span) -> str:
    """The key of the good run with which a search begins."""
    rows = _runs(warehouse, span)
    return rows[_ends(warehouse, rows, span)[0]].run_key


def packages_between(warehouse: Warehouse, span: Span) -> Candidates:
    """Lists for `pip install`, each with one more package in the version of the bad run."""
    if span.parameter == IMAGE:
        raise ConfigError("parameter: name the parameter of the test that takes packages, as for `pip install`")
    rows = _runs(warehouse, span)
    ends = [_packages(warehouse.runs.metadata(rows[place].run_key)) for place in _ends(warehouse, rows, span)]
    changed = sorted(name for name in ends[0].keys() & ends[1].keys() if ends[0][name] != ends[1][name])
    if not changed:
        raise ConfigError(f"no package that both runs record in their metadata as {PACKAGE}NAME has another version")
    steps = range(len(changed) + 1)
    lists = ((f"{name}=={ends[at < count][name]}" for at, name in enumerate(changed)) for count in steps)
    return Candidates(tuple(map(" ".join, lists)))


def _runs(warehouse: Warehouse, span: Span) -> list[StoredMetric]:
    test, metric = span.test, span.metric
    rows = list(reversed(warehouse.metrics.values(test, metric, RUNS)))
    if not rows:
        newest = warehouse.runs.newest(test, 1)
        names = [row.metric for row in warehouse.metrics.of_run(newest[0].place)] if newest else []
        raise ConfigError(f"metric: no run of {test} has {metric!r}{did_you_mean(metric, names)}")
    return rows


def _ends(warehouse: Warehouse, rows: Sequence[StoredMetric], span: Span) -> tuple[int, int]:
    good, bad = span.good, span.bad
    keys = [row.run_key for row in rows]
    for name, key in (("good", good), ("bad", bad)):
        if key and key not in keys:
            raise ConfigError(
                f"{name}: {key!r} is none of the newest {len(keys)} runs with this metric: give a run key"
            )
    broken = [place for place, row in enumerate(rows) if row.outcome is not None and row.outcome.broken]
    if not bad and not broken:
        raise ConfigError("bad: no recent run broke by this metric; give the key of a bad run")
    last = keys.index(bad) if bad else broken[-1]
    if not good:
        good = _good_before(warehouse, rows[last], [row for place, row in enumerate(rows) if place not in broken])
    if not good:
        raise ConfigError("good: no run passed before the bad one; give the key of a good run")
    first = keys.index(good)
    if first >= last:
        swapped = "; `good` and `bad` seem to be swapped" if first > last else ""
        raise ConfigError(f"good: the good run is not before the bad one{swapped}")
    return first, last


def _good_before(warehouse: Warehouse, bad: StoredMetric, passed: Sequence[StoredMetric]) -> str:
    """The newest run that passed before the level changed; shifted runs may have passed, too."""
    accepted = {one.run_key for one in warehouse.acceptances.of_test(bad.test) if one.metric == bad.metric}
    reference = reference_of(bad, passed, accepted)
    if reference is not None and reference.good is not None:
        return reference.good.run_key
    earlier = [row.run_key for row in passed if (row.timestamp, row.run_key) < (bad.timestamp, bad.run_key)]
    return earlier[-1] if earlier else ""


def _version(metadata: Mapping[str, str], parameter: str) -> str:
    """A parameter, or else the metadata of that name; or the image, by its digest."""
    if parameter != IMAGE:
        return metadata.get(f"param.{parameter}") or metadata.get(parameter, "")
    digest = metadata.get("image_digest", "").rpartition("://")[2]
    return digest if "@sha256:" in digest else metadata.get("image", "")


def _packages(metadata: Mapping[str, str]) -> dict[str, str]:
    return {name.removeprefix(PACKAGE): value for name, value in metadata.items() if name.startswith(PACKAGE)}
