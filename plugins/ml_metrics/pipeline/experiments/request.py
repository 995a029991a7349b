"""The input of an experiment's trigger form, checked before any run starts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ml_metrics.config.loading import load_test
from ml_metrics.config.params import RUN_OVERRIDES, TRIAL, allowed_by_hand, check_given, check_program
from ml_metrics.config.policy import current_policy, refused_by_hand
from ml_metrics.core.errors import ConfigError
from ml_metrics.core.text import did_you_mean
from ml_metrics.judge.bisect import Search
from ml_metrics.judge.compare import Plan
from ml_metrics.pipeline.experiments.comparison import Comparison
from ml_metrics.pipeline.experiments.search import TestSearch
from ml_metrics.pipeline.experiments.trial import conf_of
from ml_metrics.pipeline.experiments.versions import IMAGE, Places, Source, Span, candidates_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ml_metrics.config.definition import TestDefinition
    from ml_metrics.core.settings import Settings


MOST_TEXT = 1_000
"""The characters of a version."""


def comparison_of(form: Mapping[str, Any], places: Places) -> Comparison:
    """Raises ConfigError for invalid input."""
    test, parameter = load_test(places.settings.config_root, _text(form, "test")), _parameter(form)
    base, candidate = _text(form, "base"), _text(form, "candidate")
    for version in (base, candidate):
        check_version(test, parameter, version, places.settings)
    plan = Plan(_effect(form), _whole(form, "max_runs"), tuple(_lines(form, "metrics")))
    facts = test.metric_collection_config.facts
    return Comparison(test.name, parameter, base, candidate, plan, form.get("same_node") is True, facts)


def search_of(form: Mapping[str, Any], places: Places) -> TestSearch:
    """Raises ConfigError for invalid input."""
    test, parameter = load_test(places.settings.config_root, _text(form, "test")), _parameter(form)
    source, metric = str(form.get("source") or "list"), _text(form, "metric")
    if source not in set(Source):
        known = [str(one) for one in Source]
        raise ConfigError(f"source: {source!r} is not one of {', '.join(known)}{did_you_mean(source, known)}")
    good, bad = (str(form.get(name) or "").strip() for name in ("good", "bad"))
    span = Span(test.name, parameter, metric, good, bad)
    chosen = candidates_of(source, form.get("candidates"), test.image or "", span, places)
    for version in chosen.versions:
        check_version(test, parameter, version, places.settings)
    search = Search(chosen.versions, _whole(form, "max_runs"), chosen.good, chosen.bad, _effect(form))
    return TestSearch(test.name, parameter, metric, search, form.get("same_node") is True)


def check_version(test: TestDefinition, parameter: str, version: str, settings: Settings) -> None:
    """Raise ConfigError if a trial of the test may not have this version: all of its runs would break."""
    given = conf_of(parameter, version)
    if TRIAL in test.params:
        raise ConfigError(
            f"test {test.name} has a parameter {TRIAL!r}, so that none of its runs can be marked as a trial"
        )
    if parameter != IMAGE and parameter not in test.params:
        near = did_you_mean(parameter, test.params)
        raise ConfigError(f"parameter: test {test.name} has no parameter {parameter!r}{near}")
    if parameter == IMAGE and IMAGE not in test.params:
        check_program(given, test.params, allowed_by_hand(test.by_hand, settings.by_hand))
    check_given(given, test.params)
    if refused := list(refused_by_hand(test, given, current_policy())):
        raise ConfigError("; ".join(refused))


def _parameter(form: Mapping[str, Any]) -> str:
    parameter = str(form.get("parameter") or IMAGE).strip()
    if parameter in RUN_OVERRIDES and parameter != IMAGE:
        raise ConfigError(f"parameter: {parameter!r} cannot be compared; name `image` or a parameter of the test")
    return parameter


def _text(form: Mapping[str, Any], name: str) -> str:
    text = str(form.get(name) or "").strip()
    if not text:
        raise ConfigError(f"{name}: is empty")
    if len(text) > MOST_TEXT or not text.isprintable():
        raise ConfigError(f"{name}: should be one line of at most {MOST_TEXT:,} characters")
    return text


def _lines(form: Mapping[str, Any], name: str) -> list[str]:
    given = form.get(name) or []
    lines = given.replace(",", "\n").splitlines() if isinstance(given, str) else map(str, given)
    return list(dict.fromkeys(line.strip() for line in lines if line.strip()))


def _effect(form: Mapping[str, Any]) -> float:
    effect = form.get("effect")
    if isinstance(effect, bool) or not isinstance(effect, int | float) or not 0 < effect <= MOST_TEXT:
        raise ConfigError(f"effect: {effect!r} should be a percentage above 0, such as 2")
    return float(effect)


def _whole(form: Mapping[str, Any], name: str) -> int:
    value = form.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ConfigError(f"{name}: {value!r} should be a whole number above 0")
    return value
