"""The rule by which a run is a trial: a user started it with something changed."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ml_metrics.config.address import is_address
from ml_metrics.config.params import same

if TYPE_CHECKING:
    from collections.abc import Mapping

TRIAL, NOTIFY = "trial", "notify"
"""Fields of the trigger form that state how a run is treated. They change nothing that it runs."""
NODE = "trial_node"
"""What a trial is started with if it should run on the node of an earlier one. It is no field of the form."""
NOT_BY_HAND = frozenset({"scheduled", "backfill", "asset_triggered", "asset_materialization"})
"""The types that Airflow gives to runs that nobody started with values of their own."""
SCHEDULED = "scheduled"
YES, NO = "yes", "no"
_SEPARATORS = re.compile(r"[,;\s]+")


@dataclass(frozen=True, slots=True)
class Usual:
    """What a scheduled run of a test would use."""

    image: str | None = None
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    params: Mapping[str, Any] = field(default_factory=dict)
    """The defaults of the test's parameters."""


def trial_of(run_type: str, given: Mapping[str, Any], usual: Usual) -> tuple[str, ...]:
    """Return what was changed in a run if that makes it a trial; nothing for a regular run.

    In a manual run, the field `trial` decides if it has a value. A trial in which nothing was changed has the name of
    that field.
    """
    choice = None if TRIAL in usual.params else given.get(TRIAL)
    if run_type == SCHEDULED or choice == NO or (run_type in NOT_BY_HAND and choice != YES):
        return ()
    return changed_keys(given, usual) or ((TRIAL,) if choice == YES else ())


def changed_keys(given: Mapping[str, Any], usual: Usual) -> tuple[str, ...]:
    """Return the overrides and parameters whose values differ from those of a scheduled run.

    A parameter of the test takes precedence over an override of the same name.
    """
    overrides = [name for name in ("image", "command") if name not in usual.params and _overrides(name, given, usual)]
    own = [name for name, default in usual.params.items() if name in given and not same(given[name], default)]
    return (*overrides, *own)


def addresses_in(text: Any) -> tuple[str, ...]:
    """Return the mail addresses of the field `notify`, each once. Anything else in it is left out."""
    found = _SEPARATORS.split(text) if isinstance(text, str) else ()
    return tuple(dict.fromkeys(one for one in found if is_address(one)))


def _overrides(name: str, given: Mapping[str, Any], usual: Usual) -> bool:
    """Whether an override has another value than the test. A command replaces the arguments, too."""
    value = given.get(name)
    if not value:
        return False
    if name == "image":
        return not same(value, usual.image)
    return not usual.command or not same(list(value), [*usual.command, *usual.args])
