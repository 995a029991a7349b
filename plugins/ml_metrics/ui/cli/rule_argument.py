"""Rules on a command line: `less 4 sd`, `less 5 % of best`, `NAME={comparison: less, success_threshold: {...}}`."""

from __future__ import annotations

import argparse
import re
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from ml_metrics.config.conditions import Comparison, Condition
from ml_metrics.config.document import Document
from ml_metrics.config.problems import InvalidFileError
from ml_metrics.config.validation import problems_of
from ml_metrics.config.yaml import parse_yaml
from ml_metrics.ui.cli.arguments import UsageError

_NUMBER = r"(?P<{}>\d{{1,15}}(?:\.\d*)?|\.\d+)"
_WORDS = re.compile(
    rf"""(?P<comparison>less|greater|within)?\s*
    (?: (?:than\s+)(?P<fixed>[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?)
      | {_NUMBER.format("size")}\s*(?P<unit>sd|sigma|mad|%|percent)
      | (?P<change>change[_ ]points?)
    )?
    (?:\s*of\s+(?:the\s+)?(?P<against>best|mean|median)(?:\s+level)?)?
    (?:\s*and\s+{_NUMBER.format("least")}\s*%)?
    (?:\s*(?:wait\s+(?P<wait>\d{{1,9}})|window\s+(?P<window>\d{{1,9}})))*""",
    re.VERBOSE | re.IGNORECASE,
)
_UNITS = {"sigma": "sd", "percent": "%"}
_THRESHOLDS = {"sd": "stddevs_from_mean", "mad": "mads_from_median", "%": "percent_difference"}
_LEVELS = {"sd": "mean", "mad": "median", "%": "mean"}


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule to try."""

    name: str
    content: dict[str, Any]
    """The keys of a condition, perhaps without `comparison`."""

    def condition(self, own: Condition | None) -> Condition:
        """Return the rule as a condition of a metric, in the direction of its own one if the rule has none."""
        way = Comparison.WITHIN if own is None else own.comparison
        directed = Comparison(way.removesuffix("_or_equal"))
        comparison = Comparison.WITHIN if directed is Comparison.EQUAL else directed
        try:
            return Condition.model_validate({"comparison": comparison, **self.content})
        except ValidationError as error:
            raise UsageError(
                f"--rule {self.name!r}: begin it with `less` or `greater`: a metric has no direction of its own"
            ) from error


def rule(argument: str) -> Rule:
    """A rule in words, or a name with the keys of a condition."""
    name, equals, rest = argument.partition("=")
    named = equals and not re.search(r"[{:]", name)
    name, text = (name.strip(), rest.strip()) if named else (argument.strip(), argument.strip())
    content = _mapping(text) if text.startswith("{") else _in_words(text)
    if not name or content is None:
        raise argparse.ArgumentTypeError(
            f"{argument!r} is not a rule; write one like 'less 4 sd', 'within 5 MAD', 'less 5 % of best', "
            "'less' or NAME={comparison: less, success_threshold: {...}}"
        )
    _check(argument, content)
    return Rule(" ".join(name.split()), content)


def _mapping(text: str) -> dict[str, Any] | None:
    try:
        content, _, _ = parse_yaml(text, "--rule")
    except InvalidFileError as error:
        raise argparse.ArgumentTypeError(f"{text!r}: {error.problems[0].what}") from error
    return content if isinstance(content, dict) else None


def _in_words(text: str) -> dict[str, Any] | None:
    found = _WORDS.fullmatch(text.strip())
    if found is None or not text.strip():
        return None
    word = found.groupdict()
    unit = (word["unit"] or "").lower()
    unit = _UNITS.get(unit, unit)
    content: dict[str, Any] = {"comparison": word["comparison"].lower()} if word["comparison"] else {}
    if word["fixed"]:
        content["success_threshold"] = {"fixed_value": float(word["fixed"])}
    elif unit:
        content["success_threshold"] = {_THRESHOLDS[unit]: float(word["size"])}
    elif word["change"]:
        content["success_threshold"] = {"change_point": {}}
    against = (word["against"] or "").lower()
    if against == "best":
        content["against"] = "best"
    elif against and against != _LEVELS.get(unit):
        return None
    if word["least"]:
        content["min_change"] = {"percent": float(word["least"])}
    counts = {"wait_for_n_points_of_history": word["wait"], "window": word["window"]}
    return content | {key: int(value) for key, value in counts.items() if value}


def _check(argument: str, content: dict[str, Any]) -> None:
    """Raise ArgumentTypeError if no metric could be judged by the rule."""
    try:
        Condition.model_validate({"comparison": "less", **content})
    except ValidationError as error:
        problems = problems_of(error, Document(argument, content), Condition)
        found = "; ".join(": ".join(part for part in (each.path, each.what) if part) for each in problems)
        raise argparse.ArgumentTypeError(f"{argument!r}: {found}") from error
