"""Find the worker, the stage or the kind of work that slows a training job down. Exit code 1: PATH has no steps that
can be compared.

PATH is a trace of operations, a Parquet file in the format of ByteDance's StragglerAnalysis; or a goodput log that
several hosts wrote, or a folder with one (docs/goodput.md).

examples:
  ml-metrics stragglers trace.parquet --meta meta.yaml --json
  ml-metrics stragglers runs/my-test/5f0c
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ml_metrics.config.yaml import parse_yaml
from ml_metrics.core.errors import UnreadableInputError
from ml_metrics.core.text import counted, printable
from ml_metrics.measure.efficiency import Explanation, Trace, explain, read_trace
from ml_metrics.measure.goodput import measure
from ml_metrics.store import storage
from ml_metrics.ui.cli.arguments import Arguments, Parser, UsageError, add_json, add_value
from ml_metrics.ui.cli.output import give, warn

PARQUET = b"PAR1"
"""The first bytes of a Parquet file."""
SHOWN = 5
"""How many ranks, stages and types of operation are listed."""


def add_arguments(parser: Parser) -> None:
    add_value(parser, "path", "PATH", "a trace, a goodput log, or a folder with one")
    add_value(parser, "--meta", "FILE", "the sizes of the job of a trace, as YAML")
    add_json(parser)


def run(arguments: Arguments) -> int:
    if _is_trace(arguments.path):
        return _explain_trace(arguments)
    if arguments.meta is not None:
        raise UsageError(f"--meta: is for traces of operations, and {arguments.path} is none")
    report = measure(arguments.path)
    for warning in report.warnings:
        warn(warning)
    hosts = report.hosts
    line = hosts.summary if hosts else "no two hosts recorded the same steps: nothing can be compared"
    give(arguments, hosts.document() if hosts else {"steps": 0, "hosts": []}, [printable(line)])
    return 0 if hosts else 1


def _is_trace(path: str) -> bool:
    if storage.is_local(path):
        place = storage.local_path(path)
        if not place.exists():
            raise UnreadableInputError(f"{path}: there is no such file or folder")
        if place.is_dir():
            return False
    elif not storage.exists(path):  # a folder in a bucket
        return False
    with storage.named_file(path).open() as file:
        return file.read(len(PARQUET)) == PARQUET


def _explain_trace(arguments: Arguments) -> int:
    trace = read_trace(arguments.path)
    meta = _meta(arguments.meta, trace) if arguments.meta is not None else {}
    if trace.left_out:
        warn(f"{counted(trace.left_out, 'step')} of the trace left out: incomplete, or with other operations than most")
    try:
        found = explain(trace)
    except UnreadableInputError as error:
        raise UnreadableInputError(f"{arguments.path}: {error}") from error
    document = {"job": meta.get("trial_name"), "left_out_steps": trace.left_out, **found.document()}
    give(arguments, document, map(printable, _lines(found)))
    return 0


def _meta(path: str, trace: Trace) -> Mapping[str, Any]:
    """The sizes of a job. Raises UnreadableInputError if they are not those of the trace."""
    content = storage.named_file(path).read(100_000).decode("utf-8", "replace")
    meta, _, _ = parse_yaml(content, path)
    if not isinstance(meta, dict):
        raise UnreadableInputError(f"{path}: should be a mapping with the sizes of the job, such as dp_size: 2")
    for name, value in meta.items():
        if str(name).endswith("_size") and (type(value) is not int or value < 1):
            raise UnreadableInputError(f"{path}: {name} should be a whole number from 1")
    for name, own in (("dp_size", trace.data_ranks), ("pp_size", trace.stages)):
        if meta.get(name, own) != own:
            raise UnreadableInputError(f"{path}: {name} is {meta[name]}, but the trace has {own}")
    return meta


def _lines(found: Explanation) -> Iterator[str]:
    yield (
        f"{counted(found.steps, 'step')} of {counted(found.workers, 'worker')}: {found.replayed_seconds:.4g} s a step, "
        f"{found.ideal_seconds:.4g} s without stragglers: slowdown {found.slowdown:.4g}"
    )
    if found.slowdown > 1:
        named = ", ".join(f"rank {rank}" for rank in found.slowest[:SHOWN])
        yield f"fixing the slowest workers ({named}) would remove {found.slowest_workers:.1%} of the slowdown"
        yield f"fixing the last stage would remove {found.last_stage:.1%} of it"
    for title, shares in (
        ("data-parallel rank", found.by_data_rank),
        ("stage", found.by_stage),
        ("type of operation", found.by_type),
    ):
        most = sorted(shares.items(), key=lambda one: -one[1])[:SHOWN]
        yield f"slowdown by {title} alone: {', '.join(f'{name} {value:.4g}' for name, value in most)}"
    yield f"cause: {'; '.join(found.causes) or 'none stands out'}"
