"""What the campaign counts: attacks, the variants of each that were tried, and whether all of them were held off."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self, TypeVar

VARIANTS = int(os.environ.get("ML_METRICS_HOSTILE_VARIANTS", "0"))
"""How many variants of an attack are generated; 0 outside the campaign."""
SEED = int(os.environ.get("ML_METRICS_HOSTILE_SEED", "1"))
NOT_RUN = "NOT RUN: minutes of attacks; `make campaign NAME=hostile`"
LONGEST_SHOWN = 5
ENOUGH = 20
"""An attack ends after so many variants that were not held off: each may cost a minute."""
Shape = TypeVar("Shape")
WHOLE, SHORT_SHAPES = 200, 3


@dataclass
class Attack:
    """One way to reach beyond what is one's own, in variants."""

    name: str
    kind: str = ""
    """What is attacked: the name of the file that plays it."""
    tried: int = 0
    broken: list[str] = field(default_factory=list)
    """What each variant that was not held off has reached."""

    def variant(self, what: str, *, held: bool, reached: object = "") -> None:
        """Count a variant, and whether it was held off."""
        self.tried += 1
        if not held:
            self.broken.append(f"{what}: {reached}"[:2000])
            assert len(self.broken) < ENOUGH, f"{self.name}: so many variants reach something:\n" + "\n".join(
                self.broken
            )

    def none(self, what: str, found: Iterable[object]) -> None:
        """Count a variant that is held off if nothing is found."""
        reached = list(found)
        self.variant(what, held=not reached, reached=reached[:LONGEST_SHOWN])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> None:
        if error is not None:
            if len(self.broken) < ENOUGH:
                self.broken.append(f"the attack itself ended with {error!r}"[:2000])
            return
        assert self.tried, f"{self.name}: no variant was tried"
        shown = "\n".join(self.broken[:LONGEST_SHOWN])
        assert not self.broken, f"{self.name}: {len(self.broken)} of {self.tried} variants reached something:\n{shown}"


def table(attacks: Sequence[Attack]) -> str:
    """Return the figures as a table of Markdown, and below it what they come to."""
    rows = ["| kind | attack | variants | held |", "| --- | --- | --- | --- |"]
    rows += [f"| {one.kind} | {one.name} | {one.tried:,} | {_held(one)} |" for one in attacks]
    return "\n".join([*rows, "", *_in_words(attacks)])


def _in_words(attacks: Sequence[Attack]) -> Iterator[str]:
    kinds = Counter(one.kind for one in attacks)
    each = ", ".join(f"{kind} {count}" for kind, count in kinds.items())
    tried = sum(one.tried for one in attacks)
    yield f"{len(attacks)} attacks of {len(kinds)} kinds ({each}) in {tried:,} variants, seed {SEED}."
    through = [one for one in attacks if one.broken or not one.tried]
    yield from (f"NOT HELD: {one.name}" for one in through)
    if not through:
        yield "None got through."


def _held(attack: Attack) -> str:
    return f"not {len(attack.broken):,}" if attack.broken else "all" if attack.tried else "not played"


def some_of(shapes: Mapping[str, Shape]) -> dict[str, Shape]:
    """Return every shape in the whole campaign, and some in the short one, where each is a run of a DAG."""
    return {name: shapes[name] for name in sample(list(shapes), SHORT_SHAPES, "")}


def sample(every: Sequence[Shape], few: int, of_what: object) -> Sequence[Shape]:
    """Return all of them in the whole campaign, and a few in the short one: of another thing, others."""
    if VARIANTS >= WHOLE:
        return every
    return random.Random(f"{SEED} {of_what}").sample(every, min(few, len(every)))
