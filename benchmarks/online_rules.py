"""How the rules do run by run: on a zoo of noises with planted changes, and on real windows that people marked.

The zoo (`run_by_run/noise.py`, `run_by_run/stories.py`) has 27 families of noise and 17 stories, 365 nights each, with
fixed seeds. Six of the stories serve to compare the rules. Higher is worse. Reported for each rule, and for
`change_point` in each family:

- found within 5 and within 15 runs: the share of losses of which one of the first 5 (15) runs fails; ever: one fails;
- delay: how many runs of a loss passed before the first one failed, of the losses that were found;
- false starts: healthy runs that fail after a run that did not, in 1,000 healthy runs;
- failing healthy runs, in 1,000, without the five runs after a recovery;
- stuck: metrics that fail for 30 healthy runs in a row; blind: losses of 20 runs or more of which no run fails;
- creeps (0.3 % a week) that were found, and at which rise of the level (the median).

Then, for `change_point`: losses that could pass for ever with their quiet twins, levels that wander
(`run_by_run/silent.py`), and whether it tells the changes of which `ml-metrics changes` is certain.

`run_by_run/stories.py` defines losses and healthy runs, `run_by_run/real_windows.py` the real windows. A rule is judged
by failing verdicts, whether or not they alert. apache-otava reports places instead of verdicts: each new place for the
worse is one failing run. It runs if `OTAVA_PYTHON`, or .venv-otava, has it.

    python benchmarks/online_rules.py            # five minutes; apache-otava, if there, adds two
    python benchmarks/online_rules.py --short    # two stories, no real windows; a minute
    python benchmarks/online_rules.py --docs     # also store the figures and rewrite the tables in docs/semantics.md
    python benchmarks/online_rules.py --own      # change_point only; the others keep their stored figures
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from run_by_run.noise import FAMILIES
from run_by_run.real_windows import LABELLED, SMALL_PERCENT, real_figures, windows
from run_by_run.rules import OTAVA_PYTHON, Rule, rules
from run_by_run.scores import Score
from run_by_run.silent import agreement_figures, silent_figures, wandering_figures
from run_by_run.stories import cases
from run_by_run.tables import in_docs, tables

if TYPE_CHECKING:
    from run_by_run.stories import Case

ROOT = Path(__file__).parents[1]
MEASURED = Path(__file__).parent / "run_by_run" / "measured.json"
PAGE = ROOT / "docs" / "semantics.md"
SEED = 2026
"""The seed by which the rules are compared."""
SEEDS = range(7001, 7009)
"""The seeds of the table for each family. No constant was chosen on them."""
SILENT_SEEDS = range(7001, 7017)
COMPARED = ("nothing", "step", "recovery", "gain, then loss", "creep", "bad nights")
"""The stories that every rule judges; `change_point` alone judges all of them."""


def main() -> None:
    """Measure, print and store."""
    parser = argparse.ArgumentParser(description="compare rules run by run")
    parser.add_argument("--short", action="store_true", help="two stories, one seed, no real windows")
    parser.add_argument("--own", action="store_true", help="measure change_point; the others keep their stored figures")
    parser.add_argument("--docs", action="store_true", help="store the figures and rewrite docs/semantics.md")
    arguments = parser.parse_args()
    if arguments.short and (arguments.docs or arguments.own):
        parser.error("--short measures too little for the docs")
    figures = measure([rules()[0]] if arguments.own else rules(), short=arguments.short)
    if arguments.own:
        stored = json.loads(MEASURED.read_text())
        figures = {**figures, **{table: {**stored[table], **figures[table]} for table in ("zoo", "real")}}
    print(tables(figures))
    if arguments.docs:
        MEASURED.write_text(json.dumps(figures, indent=1) + "\n")
        PAGE.write_text(in_docs(PAGE.read_text(), figures))


def measure(compared: list[Rule], *, short: bool = False) -> dict[str, Any]:
    """Return the figures of every table. The first rule is the one whose families are shown."""
    found = windows() if LABELLED.exists() and not short else []
    for name, path in {"apache-otava": OTAVA_PYTHON, "the labelled series": LABELLED}.items():
        if not path.exists():
            print(f"{name}: absent, since there is no {path}")
    many = cases(SEED, stories=COMPARED[:2] if short else COMPARED)
    seeds = SEEDS[:1] if short else SEEDS
    return {
        "seeds": len(seeds),
        "zoo": {rule.name: _zoo_figures(rule, many) for rule in compared},
        "real": {rule.name: real_figures(rule, found) for rule in compared} if found else {},
        "small": real_figures(compared[0], windows(least=SMALL_PERCENT)) if found else {},
        "families": _families(compared[0], [case for seed in seeds for case in cases(seed)]),
        "silent": silent_figures(SILENT_SEEDS[:2] if short else SILENT_SEEDS),
        "wandering": wandering_figures(SILENT_SEEDS[:2] if short else SILENT_SEEDS),
        "agreement": agreement_figures() if found else {},
    }


def _zoo_figures(rule: Rule, many: list[Case]) -> dict[str, Any]:
    started = time.process_time()
    score = _score(rule, many)
    print(f"{rule.name}: {len(many)} metrics, {time.process_time() - started:.1f} s", flush=True)
    return score.figures()


def _families(rule: Rule, many: list[Case]) -> dict[str, Any]:
    scores = {family: _score(rule, [case for case in many if case.family == family]) for family in FAMILIES}
    return {family: score.figures() for family, score in scores.items()}


def _score(rule: Rule, many: list[Case]) -> Score:
    score = Score()
    for case, failing in zip(many, rule.fails([case.values for case in many]), strict=True):
        score.add(case, failing)
    return score


if __name__ == "__main__":
    main()
