"""How often the rule `curve` fails healthy runs, and how often it finds a training that went otherwise.

Healthy runs differ by noise that remembers from step to step, by an offset that stays, by their pace, and by single
values far off. A wrong learning rate changes the pace, and from three times the right one on also the level at the end.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ml_metrics.config.conditions import Curve
from ml_metrics.core.model import Series
from ml_metrics.judge.curves import envelope_of, worst_excursion
from ml_metrics.measure.curves import curve_of

if TYPE_CHECKING:
    from ml_metrics.core.model import TagCurve

Values = NDArray[np.float64]

STEPS = np.arange(0, 3_000, 10, dtype=np.int64)
PAST = (5, 8, 12, 30)
KINDS = ("independent", "remembering", "offset", "pace", "early", "outliers")
FAULTS = ("rate x10", "rate x3", "rate /3", "slower, same end", "plateau", "spike of 10 %", "spike of 1 %")
RULE = Curve(within=3, from_step=100)
PLATEAU, SPIKE = 700, 1_500
"""The steps at which they begin."""
MOST_FALSE_ALARMS = 0.01


def loss(rng: np.random.Generator, kind: str, fault: str = "") -> Values:
    """Return the loss of one run."""
    rate = {"rate x10": 10.0, "rate x3": 3.0, "rate /3": 1 / 3}.get(fault, 1.0)
    pace = np.exp(rng.normal() * 0.05) if kind == "pace" else 1.0
    values = _level(STEPS * pace * rate) + 0.12 * max(0.0, rate - 1) ** 1.5
    if fault == "slower, same end":
        end = np.clip((STEPS - 2_100) / 450, 0, 1)
        values = _level(STEPS * 0.6) * (1 - end) + values * end
    if fault == "plateau":
        values = np.maximum(values, values[STEPS == PLATEAU])
    if fault.startswith("spike"):
        length = 300 if "10" in fault else 30
        values = values + 4 * ((STEPS >= SPIKE) & (SPIKE + length > STEPS))
    return values + _noise(rng, kind)


def distances(rng: np.random.Generator, kind: str, fault: str = "") -> list[float]:
    """Return the distances of a run from the envelopes of few and of many healthy ones."""
    own, *others = (_curve(loss(rng, kind, fault if number == 0 else "")) for number in range(max(PAST) + 1))
    return [worst_excursion(envelope_of(own, others[:past], RULE), 1, RULE.within).distance for past in PAST]


def _level(at: Values) -> Values:
    return 2.0 + 8.0 * np.exp(-at / 300) + 1.5 / np.sqrt(1 + at / 50)


def _noise(rng: np.random.Generator, kind: str) -> Values:
    count = len(STEPS)
    if kind == "independent":
        return rng.normal(size=count) * 0.05
    remembered = np.convolve(rng.normal(size=count + 59), 0.436 * 0.9 ** np.arange(60), "valid")
    if kind == "offset":
        return rng.normal() * 0.03 + remembered * 0.03
    if kind == "early":
        return remembered * (0.02 + 0.5 * np.exp(-STEPS / 100))
    if kind == "outliers":
        return remembered * 0.03 + rng.standard_t(3, size=count) * 0.04
    return remembered * 0.05


def _curve(values: Values) -> TagCurve:
    return curve_of(Series(".", "loss", STEPS, STEPS.astype(np.float64), values))


def _failing(found: list[list[float]]) -> list[float]:
    """Return the share of failing runs by the number of past runs."""
    return [float(share) for share in np.mean(np.array(found) > RULE.within, axis=0)]


def main(runs: int) -> int:
    """Print the shares, and return 1 if too many healthy runs fail."""
    rng = np.random.default_rng(20_261_122)
    print(f"{'':18}" + "".join(f"{f'{past} runs':>10}" for past in PAST))
    worst = 0.0
    for kind in KINDS:
        shares = _failing([distances(rng, kind) for _ in range(runs)])
        worst = max(worst, *shares)
        print(f"{kind:18}" + "".join(f"{share:10.2%}" for share in shares), flush=True)
    for fault in FAULTS:
        shares = _failing([distances(rng, "offset", fault) for _ in range(runs // 10)])
        print(f"{fault:18}" + "".join(f"{share:10.0%}" for share in shares), flush=True)
    return int(worst > MOST_FALSE_ALARMS)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000))
