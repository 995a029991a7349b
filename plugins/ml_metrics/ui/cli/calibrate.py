"""Choose conditions by the history of a test. For each metric, print its noise, and a condition that has at most one
false alarm in 1,000 runs, with its verdicts about the past (docs/conditions.md).

With --apply, comments and layout of the test file stay. Conditions with a fixed value, fixed bounds or `compare_to` are
left alone, and metrics without any condition too, unless --metric names them.

examples:
  ml-metrics calibrate tf-mnist-example-cpu
  ml-metrics calibrate vision.yaml --history history.jsonl --metric loss_final
  ml-metrics calibrate tf-mnist-example-cpu --metric total_wall_time --apply
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from typing import Any

from ml_metrics.config.conditions import WORSE_SIDE, Comparison, RegressionTestConfig
from ml_metrics.config.editing import FileEdit, as_yaml, edited
from ml_metrics.config.loading import load_file
from ml_metrics.core.kinds import kind_of
from ml_metrics.core.model import SWEEP
from ml_metrics.core.text import counted, did_you_mean, printable
from ml_metrics.core.units import readable
from ml_metrics.judge import WITHIN_RUNS, Calibration, calibrate, calibrate_curve, is_measured
from ml_metrics.ui.cli.arguments import Arguments, Parser, UsageError, add_flag, add_value
from ml_metrics.ui.cli.inputs import PastRuns, add_past_runs, past_runs
from ml_metrics.ui.cli.output import Progress, give, minute, table, wrapped

BETTER = {
    Comparison.LESS: "less is better",
    Comparison.GREATER: "greater is better",
    Comparison.WITHIN: "both directions count",
}
CHOSEN, LEVEL = "* ", "change_point"


def _metric_lines(calibration: Calibration, source: str) -> Iterator[str]:
    noise, since, unit = calibration.noise, calibration.since, kind_of(calibration.metric).unit
    head = f"{calibration.metric}: {counted(calibration.runs, 'run')}, {BETTER[calibration.comparison]} ({source})"
    yield from wrapped(head, rest="    ")
    yield from wrapped(f"noise: {noise.text}", "  ", "    ")
    used = "all" if noise.runs == calibration.runs else f"the newest {noise.runs}"
    if since is None:
        yield f"  from {used} runs, in which the level never changed"
    else:
        last = f"run {since.run_key[:8]} of {minute(since.timestamp)}"
        yield f"  from {used} runs; the level last changed in {last}"
    if calibration.reason:
        yield from wrapped(calibration.reason, "  ", "    ")
        return
    rule, condition = calibration.rule, calibration.condition
    if rule is None or condition is None:
        yield f"  {LEVEL}: {rule.reason if rule else ''}"
        return
    smallest = f", min_change: {condition['min_change']}" if "min_change" in condition else ""
    change, percent = rule.smallest_change, calibration.percent(rule.smallest_change)
    share = "" if percent is None else f" ({percent:.2g} %)"
    finds = "-" if change is None else f"{readable([change], unit, 3)[0]}{share}"
    judged, *counts = (rule.past.judged, rule.past.failing, rule.past.alerts) if rule.past else (0, "-", "-")
    columns = (f"{' ' * len(CHOSEN)}rule", f"finds in {WITHIN_RUNS} runs", f"fails of {judged}", "alerts")
    row = (f"{CHOSEN}{LEVEL}: {condition['success_threshold'][LEVEL]}{smallest}", finds, *map(str, counts))
    yield from table(columns, [row], right=(1, 2, 3)).splitlines()


def calibration_document(calibration: Calibration, source: str) -> dict[str, Any]:
    noise, since, rule = calibration.noise, calibration.since, calibration.rule
    return {
        "runs": calibration.runs,
        "comparison": str(calibration.comparison),
        "comparison_from": source,
        "noise": {
            **asdict(noise),
            "kind": noise.kind.name.lower(),
            "percent": noise.percent,
            "text": noise.text,
            "since": None if since is None else {"uuid": since.run_key, "timestamp": since.timestamp.isoformat()},
        },
        "rules": [
            {"name": LEVEL, **asdict(each), "smallest_change_percent": calibration.percent(each.smallest_change)}
            for each in ([rule] if rule else [])
        ],
        "proposed": LEVEL if calibration.condition else None,
        "reason": calibration.reason,
    }


NOT_REPLACED = {"fixed_value": "a fixed value", "within_bounds": "fixed bounds"}


def add_arguments(parser: Parser) -> None:
    add_past_runs(parser)
    add_value(parser, "--metric", "NAME", "only this metric; repeatable", action="append")
    parser.add_argument(
        "--comparison", choices=("less", "greater", "within"), help="default: as in the condition, else within"
    )
    add_flag(parser, "--apply", "write the conditions into the test file")


def run(arguments: Arguments) -> int:
    past = past_runs(arguments, config_required=False)
    if arguments.apply and past.file is None:
        raise UsageError("--apply needs the test file: give it as CONFIG")
    found = list(_calibrations(past, _metrics(past, arguments.metric), arguments))
    proposed = {each.metric: each.condition for each, _ in found if each.condition}
    edit, notes = _edit(past, proposed, arguments) if arguments.apply else (None, [])
    if edit is not None:
        edit.save()
    metrics = {each.metric: calibration_document(each, source) for each, source in found}
    applied = None if edit is None else {"file": str(edit.path), "diff": edit.diff, "notes": notes}
    lines = [line for calibration, source in found for line in ("", *_metric_lines(calibration, source))][1:]
    if proposed and not arguments.apply:
        shown = as_yaml(proposed).splitlines()
        lines += ["", "The proposed rule (*) of each metric, for the test file:", "", *shown]
    if edit is not None:
        lines += [f"\nWritten into {printable(str(edit.path))}:"]
        lines += map(printable, edit.diff.splitlines() or ["(it has these conditions already)"])
    lines += [f"note: {printable(note)}" for note in notes]
    give(arguments, {"test": past.test, "metrics": metrics, "applied": applied}, lines)
    return 0


def _metrics(past: PastRuns, wanted: Sequence[str] | None) -> list[str]:
    recorded = sorted(metric for metric, rows in past.by_metric().items() if any(map(is_measured, rows)))
    for metric in wanted or ():
        if metric not in recorded:
            near = did_you_mean(metric, recorded)
            raise UsageError(f"--metric {metric}: no past run of {past.test!r} has a value of it{near}")
    if not recorded:
        raise UsageError(f"no past run of {past.test!r} has a value of any metric")
    return list(dict.fromkeys(wanted or recorded))


def _calibrations(past: PastRuns, metrics: Sequence[str], arguments: Arguments) -> Iterator[tuple[Calibration, str]]:
    rows, curves = past.by_metric(), None
    with Progress() as progress:
        for number, metric in enumerate(metrics, start=1):
            if not arguments.json:
                progress.show(f"calibrating {number} of {len(metrics)}: {metric}")
            comparison, source = _direction(past.config, metric, arguments.comparison)
            if metric.startswith(SWEEP):
                curves = curves or replace(past, config=RegressionTestConfig(curves=past.config.curves)).replayed()
                yield calibrate_curve(metric, comparison, curves), source
                continue
            found = calibrate(metric, rows[metric], comparison, test=past.test, acceptances=past.acceptances)
            reference = past.reference_for(metric)
            if found.condition and reference:
                found.condition["relative_to"] = reference
            yield found, f"{source}, relative to {reference}" if reference else source


def _direction(config: RegressionTestConfig, metric: str, given: str | None) -> tuple[Comparison, str]:
    """A comparison without its equality, and where it is from."""
    if given is not None:
        return Comparison(given), "--comparison"
    condition = config.condition_for(metric)
    better = config.known_about(metric).better
    if condition is None and better in WORSE_SIDE:
        return Comparison(WORSE_SIDE[better]), f"no condition covers it; {better} values are better"
    if condition is None:
        return Comparison.WITHIN, "no condition covers it, so both directions count; --comparison chooses one"
    key = config.key_for(metric)
    source = "its condition" if key == metric else f"the condition `{key}`"
    if condition.comparison.bounds_above and condition.comparison.bounds_below:
        return Comparison.WITHIN, source
    return (Comparison.LESS if condition.comparison.bounds_above else Comparison.GREATER), source


def _edit(
    past: PastRuns, proposed: dict[str, dict[str, Any]], arguments: Arguments
) -> tuple[FileEdit | None, list[str]]:
    if past.file is None:
        return None, []
    chosen, notes = _applicable(past.config, proposed, arguments.metric or ())
    if not chosen:
        return None, [*notes, "no condition to write"]
    tests = len(load_file(past.file).tests)
    if tests > 1:
        notes.append(f"{past.file} defines {tests} tests, to all of which the conditions apply")
    if tests == 0:
        notes.append(f"the conditions apply to every test that uses {past.file}")
    return edited(past.file, chosen), notes


def _applicable(
    config: RegressionTestConfig, proposed: dict[str, dict[str, Any]], named: Sequence[str]
) -> tuple[dict[str, dict[str, Any]], list[str]]:
    chosen, notes = {}, []
    for metric, condition in proposed.items():
        old = config.condition_for(metric)
        if old is not None and old.compare_to is not None:
            notes.append(f"{metric}: is compared with the {old.compare_to}; left alone")
        elif metric in named:
            chosen[metric] = condition
        elif old is None:
            notes.append(f"{metric}: has no condition; --metric {metric} adds one")
        elif old.success_threshold.kind in NOT_REPLACED:
            kind = NOT_REPLACED[old.success_threshold.kind]
            notes.append(f"{metric}: its condition has {kind}; --metric {metric} replaces it")
        else:
            chosen[metric] = condition
        if metric in chosen and old is not None and metric not in config.metric_success_conditions:
            notes.append(f"{metric}: was covered by `{config.key_for(metric)}`, which stays for the other metrics")
    return chosen, notes
