"""Folders of result files, one for each run: asv, pytest-benchmark and Google Benchmark."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from ml_metrics.config.collection import MetricCollectionConfig
from ml_metrics.core.errors import UnreadableInputError
from ml_metrics.core.limits import Allowance
from ml_metrics.measure.aggregation import aggregate, by_tag
from ml_metrics.measure.histories.history import History, PastRun, Reading, moment_of
from ml_metrics.measure.readers import asv, google_benchmark, pytest_benchmark
from ml_metrics.measure.readers.format import parse
from ml_metrics.measure.readers.registry import read_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ml_metrics.core.limits import Limits
    from ml_metrics.core.model import Metric
    from ml_metrics.measure.readers.format import Format
    from ml_metrics.store import storage


class Identity(NamedTuple):
    """What a document states about its run."""

    key: str
    series: str
    time: Any


def _asv(document: Any) -> Identity:
    names = (document["params"]["machine"], document.get("env_name"))
    return Identity(str(document["commit_hash"]), " ".join(str(one) for one in names if one), document.get("date"))


def _pytest_benchmark(document: Any) -> Identity:
    machine, time = document["machine_info"], document.get("datetime")
    version = ".".join(str(machine.get("python_version", "")).split(".")[:2])
    names = (machine.get("system"), machine.get("python_implementation"), version, machine.get("machine"))
    commit = document["commit_info"].get("id") if isinstance(document["commit_info"], dict) else ""
    return Identity(f"{commit} {time}", "-".join(str(one) for one in names if one), time)


def _google_benchmark(document: Any) -> Identity:
    context = document["context"]
    return Identity(str(context.get("date")), str(context.get("host_name") or ""), context.get("date"))


def metrics_of(
    format_: Format, files: Iterable[storage.File], limits: Limits, where: str
) -> tuple[tuple[Metric, ...], dict[str, str]]:
    """Return the metrics that a run with these files would have had, and the texts that describe it.

    The names are those of a test that reads the format without further settings, so that its runs continue the history.

    Raises:
        UnreadableInputError: The files hold no number.
    """
    config, allowance = MetricCollectionConfig(), Allowance(limits)
    found = read_files(format_, files, allowance)
    metrics = aggregate(by_tag({format_.name: found.series}, config), config, allowance).metrics
    if not metrics:
        why = "; ".join(found.warnings) or f"no number of the format {format_.name} is in it"
        raise UnreadableInputError(f"{where}: cannot be imported: {why}")
    return tuple(metrics), dict(found.metadata)


def _read(
    format_: Format, identity_of: Callable[[Any], Identity], files: Sequence[storage.File], reading: Reading
) -> Iterator[PastRun]:
    for file in files:
        document = parse(file.read(reading.limits.json_bytes), reading.limits.json_nesting)
        try:
            key, series, time = identity_of(document)
        except (AttributeError, KeyError, TypeError) as error:
            raise UnreadableInputError(f"{file.path}: is no whole file of {format_.name}: {error!r}") from error
        metrics, metadata = metrics_of(format_, [file], reading.limits, file.path)
        yield PastRun(key, series, moment_of(time, file.path), metrics, file.path, metadata=metadata)


def _history(format_: Format, identity_of: Callable[[Any], Identity], source: str, series: str) -> History:
    return History(format_.name, source, series, format_.claims, partial(_read, format_, identity_of))


HISTORIES = (
    _history(asv.FORMAT, _asv, "the folder `results` of asv", "machine and environment"),
    _history(
        pytest_benchmark.FORMAT,
        _pytest_benchmark,
        "the folder `.benchmarks` of pytest-benchmark, or files of `--benchmark-json`",
        "system, Python and processor, as in the names of pytest-benchmark's folders",
    ),
    _history(google_benchmark.FORMAT, _google_benchmark, "a folder of files of Google Benchmark", "the host"),
)
