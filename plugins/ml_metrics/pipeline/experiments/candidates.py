"""The candidates of a search: a list, versions in the test's history, the tags of an image, or packages of two runs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from ml_metrics.core.errors import ConfigError
from ml_metrics.pipeline.experiments import registry
from ml_metrics.pipeline.experiments.past_versions import packages_between, versions_between

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from ml_metrics.core.settings import Settings
    from ml_metrics.pipeline.experiments.past_versions import Span
    from ml_metrics.warehouse import Warehouse


MOST_CANDIDATES = 10_000


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
    good: tuple[float, ...] = ()
    """Values of regular runs of the first one."""
    bad: tuple[float, ...] = ()
    """Values of regular runs of the last one."""


def candidates_of(source: str, listed: Any, image: str, span: Span, places: Places) -> Candidates:
    """Return the candidates of a `Source`: those that a form lists, or between the versions, tags or runs of a span.

    Raises ConfigError if there are none. `image` is that of the test.
    """
    if source == Source.LIST:
        found = Candidates(_between(_listed(listed), span.good, span.bad))
    elif source == Source.TAGS:
        if span.parameter != "image":
            raise ConfigError("source: tags are those of an image, so `parameter` should be `image`")
        found = Candidates(_tags(image, span.good, span.bad))
    else:
        past = versions_between if source == Source.HISTORY else packages_between
        with places.warehouse() as warehouse:
            found = Candidates(*past(warehouse, span))
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


@dataclass(frozen=True, slots=True)
class Places:
    """Where an experiment finds tests and past runs."""

    settings: Settings
    warehouse: Callable[[], AbstractContextManager[Warehouse]]
    """Opens the warehouse."""
