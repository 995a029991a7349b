"""Faults on purpose: what breaks in a run, when, and on which of its hosts."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, NamedTuple, Self

from pydantic import Field, model_validator

from ml_metrics.config.pod import Volume
from ml_metrics.config.strict import Strict, checked
from ml_metrics.config.templates import is_template
from ml_metrics.config.times import Duration, parse_duration
from ml_metrics.core.faults import (
    DELETE_POD,
    DISK_FULL,
    EVICT,
    FREEZE,
    LOSE_STORAGE,
    OUT_OF_MEMORY,
    SLOW,
    TERMINATE,
    PlannedFault,
)
from ml_metrics.core.text import did_you_mean
from ml_metrics.store.confined import name_problem

TAKES = {
    "kill": "", TERMINATE: "", DELETE_POD: "", EVICT: "", FREEZE: "30s", SLOW: "2x, 60s", OUT_OF_MEMORY: "",
    DISK_FULL: "30s", LOSE_STORAGE: "checkpoints, 30s",
}  # fmt: skip
"""The kinds, with an example of what each takes in brackets."""
KINDS = tuple(TAKES)
SPELLED = tuple(f"{kind}({takes})" if takes else kind for kind, takes in TAKES.items())
OTHER_WORDS = {
    "sigkill": "kill", "sigterm": "terminate", "delete": "delete_pod", "preempt": "evict", "oom": "out_of_memory",
    "pause": "freeze(30s)", "sigstop": "freeze(30s)",
}  # fmt: skip
"""What others call them."""
REFUSED = {
    "drain": "a drained node takes the pods of others away, and needs the right to `patch nodes`: `evict` does to the "
    "pod of this run what a drain would",
    "no_network": "it needs the right to `create networkpolicies`, and a network that enforces them: `freeze(30s)` of "
    "one host is for the others as if the network were gone",
}
"""What a run cannot do with its own rights to its own pods, and what comes closest."""
BEYOND = "drain (it would need `patch nodes`), no_network (it would need `create networkpolicies`)"
MAX_FACTOR = 100.0
MAX_FAULTS = 100
"""The faults of a run, those that are repeated counted each time."""
ANYWHERE, COORDINATOR, EVERYWHERE = "any", "coordinator", "all"


class At(NamedTuple):
    """When a fault is due: at a step, or at a time after the start, which may be drawn between two."""

    step: int | None = None
    first: float = 0.0
    last: float = 0.0
    seed: int = 0


def parse_at(text: str) -> At:
    if found := re.fullmatch(r"step\s+([0-9]{1,18})", text.strip()):
        return At(step=int(found[1]))
    if found := re.fullmatch(
        r"random\(\s*([^.\s,]+(?:\.[0-9]+[a-z]+)?)\s*\.\.\s*([^\s,]+)\s*[,\s]\s*seed\s+([0-9]{1,18})\s*\)", text.strip()
    ):
        first, last = (parse_duration(part).total_seconds() for part in found.group(1, 2))
        if first >= last:
            raise ValueError(f"{text!r} should name the earlier time first: random(10m..20m seed 7)")
        return At(first=first, last=last, seed=int(found[3]))
    try:
        seconds = parse_duration(text).total_seconds()
    except ValueError:
        raise ValueError(
            f"{text!r} is not a time of a fault: write `step 20`, a duration after the start like `90s`, or "
            "`random(10m..20m seed 7)`"
        ) from None
    return At(first=seconds, last=seconds)


class What(NamedTuple):
    """What breaks."""

    kind: str
    lasts: float | None = None
    factor: float = 1.0
    folder: str = ""


def parse_what(text: str) -> What:
    found = re.fullmatch(r"([a-z_]+)(?:\(\s*([^()]*?)\s*\))?", text.strip())
    kind, given = (found[1], found[2]) if found else (text, None)
    if kind in REFUSED:
        raise ValueError(f"{kind!r} is not possible: {REFUSED[kind]}")
    if kind not in KINDS:
        meant = f"; did you mean {OTHER_WORDS[kind]!r}?" if kind in OTHER_WORDS else did_you_mean(kind, KINDS)
        raise ValueError(f"{text!r} is not a fault; available: {', '.join(SPELLED)}{meant}")
    if not TAKES[kind]:
        if given is not None:
            raise ValueError(f"`{kind}` takes nothing in brackets, not {given!r}")
        return What(kind)
    *first, duration = [part.strip() for part in (given or "").split(",")]
    if not duration or len(first) != TAKES[kind].count(","):
        raise ValueError(f"`{kind}` needs {'its duration' if kind in {FREEZE, DISK_FULL} else 'two values'}: "
                         f"{kind}({TAKES[kind]})")  # fmt: skip
    what = What(kind, parse_duration(duration).total_seconds())
    if kind == SLOW:
        factor = re.fullmatch(r"([0-9]{1,3}(?:\.[0-9]{1,3})?)x", first[0])
        if factor is None or not 1 < float(factor[1]) <= MAX_FACTOR:
            raise ValueError(f"{first[0]!r} is not how many times slower: write `2x`, at most {MAX_FACTOR:g}x")
        return what._replace(factor=float(factor[1]))
    if kind == LOSE_STORAGE:
        problem = name_problem(first[0]) or ("is not of the workload" if first[0].startswith("_ml_metrics") else "")
        if problem:
            raise ValueError(f"{first[0]!r} is not a folder below the run folder, as it {problem}")
        return what._replace(folder=first[0])
    return what


def parse_where(text: str) -> str | int:
    """The number of a host, or a word for some. Raises ValueError."""
    if found := re.fullmatch(r"host\s+([0-9]{1,6})", text.strip()):
        return int(found[1])
    if text not in {ANYWHERE, COORDINATOR, EVERYWHERE}:
        raise ValueError(
            f"{text!r} is not a place of a fault; available: host 0, {ANYWHERE}, {COORDINATOR}, {EVERYWHERE}"
        )
    return text


def _unless_template(parse: Any) -> Any:
    return checked(lambda text: None if is_template(text) else parse(text))


class Fault(Strict):
    """Something that breaks on purpose while the workload runs."""

    at: Annotated[str, _unless_template(parse_at)]
    """`step 20`, `90s` after the start of the workload, or `random(10m..20m seed 7)`, the same for each seed."""
    what: Annotated[str, _unless_template(parse_what)]
    """The kind of fault, with its numbers."""
    where: Annotated[str, _unless_template(parse_where)] = ANYWHERE
    """`host 1`, `any` (one, drawn), `coordinator` (host 0), or `all`."""
    times: int = Field(1, ge=1, le=MAX_FAULTS)
    """How often."""
    every: Duration | None = None
    """The time between faults."""

    @model_validator(mode="after")
    def repeated_at_an_interval(self) -> Self:
        if (self.times > 1) != (self.every is not None):
            raise ValueError("`times` above 1 and `every` belong together: {times: 3, every: 5m}")
        return self


def fault_problems(faults: Sequence[Fault], test: Mapping[str, Any]) -> Iterator[tuple[int, str]]:
    """Yield the number of a fault and why it can never happen. A template is checked when a run has filled it in.

    `test`: the other keys of the test, by name.
    """
    pods = test["hosts"] * (test["job_set"].slices if test["job_set"] else 1)
    timeout, resources = test["timeout"].total_seconds(), test["resources"]
    total = 0
    for number, fault in enumerate(faults):
        total += fault.times
        if total > MAX_FAULTS:
            yield number, f"a run has at most {MAX_FAULTS} faults"
        host = ANYWHERE if is_template(fault.where) else parse_where(fault.where)
        if isinstance(host, int) and host >= pods:
            hosts = f"from host 0 to host {pods - 1}" if pods > 1 else "which is host 0"
            yield number, f"there is no {fault.where}: the test has {pods}, {hosts}"
        what = What("") if is_template(fault.what) else parse_what(fault.what)
        if what.kind == OUT_OF_MEMORY and not (resources.memory or resources.limits.get("memory")):
            yield number, "`out_of_memory` needs `resources: {memory: ...}`: the node would run out of it otherwise"
        if what.kind == DISK_FULL and not disks_of(test["volumes"]):
            yield number, "`disk_full` needs a volume with `memory`: other pods have the disk of the node, too"
        if what.kind == LOSE_STORAGE and host not in {ANYWHERE, EVERYWHERE}:
            yield number, "`lose_storage` takes no `where`: all hosts of a run have the same folder"
        lasts = what.lasts or 0.0
        begins = 0.0 if is_template(fault.at) else parse_at(fault.at).last
        until = begins + (fault.times - 1) * (fault.every.total_seconds() if fault.every else 0.0) + lasts
        if until >= timeout:
            yield (
                number,
                f"ends {until:g} seconds after the start, which the `timeout` of {timeout:g} seconds precludes",
            )


def disks_of(volumes: Mapping[str, Volume]) -> dict[str, str]:
    return {path: volume.memory for path, volume in volumes.items() if volume.memory and not volume.read_only}


def planned(faults: Sequence[Fault]) -> tuple[PlannedFault, ...]:
    """The faults of a run one by one, nothing left to chance. Raises ValueError for what is wrong in one."""
    found: list[PlannedFault] = []
    for fault in faults:
        at, what = parse_at(fault.at), parse_what(fault.what)
        pause = fault.every.total_seconds() if fault.every else 0.0
        place = parse_where(fault.where)
        after = None if at.step is not None else random.Random(at.seed).uniform(at.first, at.last)  # noqa: S311
        for time in range(fault.times):
            follows = len(found) - 1 if time else None
            found.append(
                PlannedFault(
                    number=len(found),
                    at=f"{fault.at}, {time} * {pause:g} s later" if time else fault.at,
                    what=fault.what,
                    kind=what.kind,
                    where=f"host {place}" if isinstance(place, int) else place,
                    lasts=what.lasts,
                    factor=what.factor,
                    folder=what.folder,
                    step=at.step if follows is None else None,
                    after=after if follows is None else pause,
                    follows=follows,
                )
            )
    return tuple(found)
