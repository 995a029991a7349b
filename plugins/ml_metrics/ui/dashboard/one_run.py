"""The page of one run: times, metrics beside their references, alerts, metadata and files."""

from __future__ import annotations

import email
import email.policy
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from itertools import islice
from operator import itemgetter
from typing import Any

from ml_metrics.alerts import fault_sentences, folder_of
from ml_metrics.alerts.charts import (
    OTHER,
    PRODUCTIVE,
    colours_of,
    curve_chart,
    host_chart,
    run_curves_chart,
    sweep_chart,
    with_flags,
)
from ml_metrics.core.errors import MlMetricsError
from ml_metrics.core.faults import RECOVERY
from ml_metrics.core.kinds import cost_in, cost_metric, kind_of
from ml_metrics.core.limits import Allowance, Limits
from ml_metrics.core.model import (
    BROKEN,
    CURVE_SUFFIX,
    SWEEP,
    Bounds,
    CurveBand,
    JobStatus,
    Outcome,
    StoredMetric,
    Sweep,
    TagCurve,
)
from ml_metrics.core.money import CURRENCIES, money, units_of
from ml_metrics.core.settings import Settings
from ml_metrics.core.text import logger_of
from ml_metrics.core.units import change, readable
from ml_metrics.core.values import BEGINNING_OF_TIME
from ml_metrics.judge import Reference, differences, run_again
from ml_metrics.measure import failing_log, lines_of, listed_logs
from ml_metrics.measure.goodput import MAX_COLUMNS, MAX_HOSTS
from ml_metrics.pipeline.experiments import experiment_of
from ml_metrics.store import storage
from ml_metrics.store.markers import file_name
from ml_metrics.store.run_folder import RunFolder
from ml_metrics.ui.dashboard.experiments import last_search_of
from ml_metrics.ui.dashboard.links import BadQueryError, page_in, text, with_query
from ml_metrics.ui.dashboard.one_test_page import charts_document, charts_script, time_parts
from ml_metrics.ui.dashboard.page import (
    Columns,
    NotFoundError,
    Page,
    Reader,
    shown_of,
    without_folders,
    without_unreadable,
)
from ml_metrics.ui.dashboard.status_letters import letter_of, runs_beside_change, status_and_links, why_of
from ml_metrics.warehouse import MAX_METRICS as MAX_METRICS_WITH_REFERENCE
from ml_metrics.warehouse import JobRow, Warehouse, curves_before, good_before, metric_columns, references_of

FIGURES = {"chip_hours": "chip hours", "mfu": "MFU", "hfu": "HFU", "tokens_per_second": "tokens/s"}


def cost_of_run(warehouse: Warehouse, run: JobRow, metadata: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The known figures about cost and utilisation, with their names, the cost with the prices that it was by."""
    for name, row in warehouse.metrics.named_of_run(run.place, [*FIGURES, *map(cost_metric, CURRENCIES)]).items():
        if row.value is None:
            continue
        if cost := cost_in(name):
            prices = metadata.get("cost.prices", "")
            yield "cost", f"{money(units_of(row.value, cost[0]), cost[0])}{prices and f': {prices}'}"
        else:
            formula = metadata.get("mfu.formula", "") if name == "mfu" else ""
            unit = "" if name in {"chip_hours", "tokens_per_second"} else kind_of(name).unit
            yield FIGURES[name], f"{readable([row.value], unit)[0]}{formula and f' ({formula})'}"


def document_of(folder: RunFolder | None, name: str) -> dict[str, Any]:
    """A document of the run folder; empty if it is missing, damaged, or not on this machine."""
    try:
        return dict((folder.read(name) or {}) if folder else {})
    except (MlMetricsError, OSError):
        return {}


def hosts_of(folder: RunFolder | None) -> dict[str, Any]:
    """What the page shows about the run's hosts; empty if the document is damaged or of an older version."""
    try:
        found = document_of(folder, "goodput")["host_step_times"]
        drawn = found["map"]
        names, steps = [str(one) for one in drawn["hosts"]], [int(one) for one in drawn["first_steps"]]
        percent = [[float(value) for value in row] for row in drawn["percent"]]
        if len(names) > MAX_HOSTS or len(steps) > MAX_COLUMNS:
            return {}
        shown = {"summary": str(found["summary"]), "left_out": int(drawn["hosts_left_out"]), "map": drawn}
        return {**shown, "chart": host_chart(names, steps, percent)}
    except (AttributeError, KeyError, TypeError, ValueError):
        return {}


log = logger_of(__name__)

MAX_FILES, MAX_BYTES = 5000, 256 << 20
LIMITS = Limits(seconds=10, bytes_read=MAX_BYTES, points=2_000_000)
"""The limits of one request on the API server. Data that was read until then is shown, with a note."""
MAX_CURVES = 12
BUCKETS = 250
"""The buckets of steps of a curve: each keeps its least and its greatest value."""
Points = list[tuple[int, float]]


def curves_of_runs(folders: Mapping[str, RunFolder | None], query: Mapping[str, str]) -> dict[str, Any]:
    """Charts of one run or of two, with all tags and notes.

    `folders` is by the name that the legend has; the first run decides about the tags. `tag` in the query is a part of
    the names of the tags to draw.
    """
    part = text(query, "tag").casefold()
    found = {name: _read(folder) for name, folder in folders.items()}
    first, _ = next(iter(found.values()))
    flags = flags_of(faults_of(next(iter(folders.values()))))
    tags = sorted(first, key=lambda tag: ("loss" not in tag.casefold(), tag))
    shown = [tag for tag in tags if part in tag.casefold()]
    charts = []
    for tag in shown[:MAX_CURVES]:
        lines = {name: of_run[tag] for name, (of_run, _) in found.items() if of_run.get(tag)}
        charts.append((tag, with_flags(run_curves_chart(lines, kind_of(tag).unit), flags)))
    notes = [f"{name}: {note}" for name, (_, of_run) in found.items() for note in of_run]
    if len(shown) > MAX_CURVES:
        notes.append(f"{len(shown):,} tags; the first {MAX_CURVES} are drawn. Name a part of a tag to see others.")
    return {**charts_document(charts, {}), "tags": tags[:500], "notes": notes}


def thinned(steps: Sequence[int], values: Sequence[float], buckets: int = BUCKETS) -> Points:
    """By step: all points of a short curve, else the extremes of equal parts of its steps.

    The first and the last point, and the least and the greatest value of each part, are kept: no peak is lost. Values
    that are not finite are left out.
    """
    points = sorted(
        (int(step), float(value)) for step, value in zip(steps, values, strict=True) if math.isfinite(value)
    )
    if len(points) <= 2 * buckets:
        return points
    start, reach = points[0][0], max(1, points[-1][0] - points[0][0] + 1)
    extremes: dict[int, tuple[tuple[int, float], tuple[int, float]]] = {}
    for point in points:
        bucket = (point[0] - start) * buckets // reach
        least, greatest = extremes.get(bucket, (point, point))
        extremes[bucket] = (min(least, point, key=itemgetter(1)), max(greatest, point, key=itemgetter(1)))
    kept = {points[0], points[-1], *(point for pair in extremes.values() for point in pair)}
    return sorted(kept)


def _is_event_file(file: storage.File) -> bool:
    from ml_metrics.measure.events import is_event_file  # needs what an API server may lack

    return is_event_file(file)


def _read(folder: RunFolder | None) -> tuple[dict[str, Points], list[str]]:
    """The scalar tags of a run, thinned, by their names; those of a subfolder begin with its name. And notes."""
    from ml_metrics.measure.events import read_events  # needs what an API server may lack

    if folder is None:
        return {}, ["the name of this test or run cannot be the name of a folder"]
    try:
        files = [file for file in islice(folder.files(), MAX_FILES) if _is_event_file(file)]
        if not files:
            return {}, ["its folder has no event files, or is not on this server"]
        events = read_events(files, supersede=True, allowance=Allowance(LIMITS))
    except (MlMetricsError, OSError) as error:
        log.warning("%s: its event files cannot be read: %s", folder.path, error)
        return {}, ["its event files cannot be read; the log of the API server has the reason"]
    is_cut = sum(file.size for file in files) > MAX_BYTES
    tags = {}
    for one in events.series:
        if points := thinned(one.step.tolist(), one.value.tolist()):
            tags[one.tag if one.run == "." else f"{one.run}/{one.tag}"] = points
    return tags, [f"only the first {MAX_BYTES >> 20} MB were read"] if is_cut else []


def the_other(query: Mapping[str, str], run: str) -> str:
    """The key of the run that is drawn beside a run; empty if there is none."""
    other = text(query, "with")
    if other == run:
        raise BadQueryError("with is the run itself.")
    return "" if other == "none" else other


UNMEASURED = "not measured"


@dataclass(frozen=True, slots=True)
class TimePart:
    """A part of the bar, in percent of the run's time."""

    kind: str
    percent: float
    start: float
    colour: str
    pattern: int


def time_bar(rows: Iterable[StoredMetric]) -> list[TimePart]:
    """Productive time first; nothing if the run did not measure it.

    Time that no kind covers is a part, too. Kinds that together exceed the time, as damaged rows may, are scaled.
    """
    measured = next(iter(time_parts(rows).values()), {})
    kinds = {kind: max(0.0, percent) for kind, percent in measured.items()}
    if PRODUCTIVE not in kinds:
        return []
    rest = 100 - sum(kinds.values())
    if rest > 0.05:  # below is rounding
        kinds[UNMEASURED] = rest
    whole = sum(kinds.values()) or 1.0
    ordered = sorted(kinds, key=lambda kind: (kind != PRODUCTIVE, kind in {OTHER, UNMEASURED}, -kinds[kind], kind))
    colours = {**colours_of(kind for kind in ordered if kind != UNMEASURED), UNMEASURED: "#9aa3af"}
    parts, start = [], 0.0
    for number, kind in enumerate(ordered):
        percent = kinds[kind] / whole * 100
        if percent > 0:
            # the page defines six patterns, and neighbours have different ones
            parts.append(TimePart(kind, percent, start, colours[kind], number % 6))
        start += percent
    return parts


SHOWN_FILES, MAX_LISTED = 200, 5000
MAX_METRICS, MAX_EXPORTED = 500, 5000
"""The metrics of one page, and of one JSON document or CSV file."""
MAX_MISSING, SHOWN_CURVES, MAX_METADATA = 100, 50, 500
TABLE = Columns(
    "metric value lower_bound=lower upper_bound=upper verdict=outcome rule baseline_points step reference spread"
)
MAX_FILE = 4 << 20
"""The bytes of a file that are shown; a larger one is downloaded from the storage."""


def page_of_run(warehouse: Warehouse, run: JobRow, query: Mapping[str, str], reader: Reader) -> Page:
    """The query has the page of the metrics, and `format`, as the page's address."""
    size = MAX_METRICS if text(query, "format") in {"", "html"} else MAX_EXPORTED
    count = warehouse.metrics.count_of_run(run.place)
    page, pages, part = page_in(query, count, size)
    found = warehouse.metrics.page_of_run(run.place, size, part.start)
    first = found if page == 1 else warehouse.metrics.page_of_run(run.place, MAX_METRICS_WITH_REFERENCE)
    rows, hidden = without_unreadable(
        sorted(found, key=lambda row: (row.outcome not in BROKEN, row.metric)), reader.readable
    )
    listed = rows if page == 1 else reader.shown(first)
    references = references_of(warehouse, run.place, listed)
    counted = listed if run.job_status == JobStatus.SUCCESS else ()
    beside = good_before(warehouse, run.place, counted, references)
    good = warehouse.runs.get(beside) if beside else None
    broken = reader.shown([row for row in first if row.outcome in BROKEN])
    ends = {one.uuid: one.timestamp for one in (good, run) if one} | runs_beside_change(counted, references)
    known = warehouse.attributes([run.test_name], ends) if good else {}
    status = status_and_links(run, broken, why_of(warehouse, run, counted, references, known))
    missing = warehouse.metrics.only_in(good.place, run.place, MAX_MISSING + 1) if good else []
    metadata = dict(islice(warehouse.runs.metadata(run.uuid, run.place).items(), MAX_METADATA))
    curves, curves_error = _curves(warehouse, run, rows, hidden)
    since = run.timestamp - timedelta(days=1)
    messages = [one for one in warehouse.messages.since(since, run.test_name, 1000) if one.run_key == run.uuid]
    folder, files, files_error = _files(run)
    with_run = text(query, "with") or (good.uuid if good else "")
    charts_address = with_query("curves", run=run.uuid, tag=text(query, "tag"), **{"with": with_run})
    is_drawn = any(map(_is_event_file, files))
    logs, more_logs = _logs(folder, run)
    hosts, faults = hosts_of(folder), faults_of(folder)
    flags = flags_of(faults)
    charts = [
        (f"chart-{index}", with_flags(curve_chart(curve, band), flags)) for index, (curve, band) in enumerate(curves)
    ]
    sweeps = _sweeps(warehouse, run, rows, hidden)
    charts += [(f"sweep-{index}", sweep_chart(sweep, before)) for index, (sweep, before) in enumerate(sweeps)]
    charts += [("chart-hosts", with_flags(hosts["chart"], flags))] if hosts else []
    notes = document_of(folder, "metrics").get("notes")
    metrics = [_shown(row, references.get(row.metric)) for row in rows]
    judged = [one for one in metrics if one["broken"] or one["row"].rule]
    others = [one for one in metrics if one not in judged]
    return Page(
        "one_run.html",
        {
            "title": f"{run.test_name}: run of {run.timestamp:%Y-%m-%d %H:%M} UTC",
            **status,
            "metrics": metrics,
            "judged": judged,
            "others": [one for one in others if one["row"].value != 0],
            "zeros": [one["row"].metric for one in others if one["row"].value == 0],
            "again": run_again(run.run_id),
            # what a trial was made for, or the search that a broken metric of the test started last
            "experiment": experiment_of(run.run_id or "") or "" if run.trial else last_search_of(run.test_name),
            "time": time_bar(rows),
            "with_run": with_run,
            "others_of_test": list(_beside(warehouse, run, good)) if is_drawn else [],
            "tag": text(query, "tag"),
            "searchable": [] if run.trial else [row.metric for row in broken if row.value is not None],
            "count": count,
            "page": page,
            "pages": pages,
            "notes": [without_folders(str(note)) for note in notes] if isinstance(notes, list) else [],
            "faults": fault_sentences(
                faults, next((row.reference for row in rows if row.metric == RECOVERY and row.baseline_points), None)
            ),
            "missing": missing[:MAX_MISSING],
            "more_missing": len(missing) > MAX_MISSING,
            "good": good,
            "differences": _differences(known, good, run) if good else (),
            "metadata": metadata,
            "cost": sorted(cost_of_run(warehouse, run, metadata)),
            "messages": messages,
            "details": {
                one.message: {name: without_folders(result.detail) for name, result in one.channels.items()}
                for one in messages
            },
            "mails": [] if hidden else _mails(run.uuid, {one.message for one in messages}),
            "hidden": bool(hidden),
            "container_logs": logs,
            "more_logs": more_logs,
            "folder": f"{run.test_name}/{run.uuid}" if folder else "",
            "files": files[:SHOWN_FILES],
            "more_files": max(0, len(files) - SHOWN_FILES),
            "all_listed": len(files) < MAX_LISTED,
            "files_error": files_error,
            "curves_error": curves_error,
            "curves": [(index, curve.tag) for index, (curve, _) in enumerate(curves)],
            "sweeps": [(index, sweep, len(before)) for index, (sweep, before) in enumerate(sweeps)],
            "hosts": hosts,
            "charts": charts_script(charts, {}),
            "curves_address": charts_address if is_drawn else "",
        },
        document=lambda: {
            "run": asdict(run),
            "letter": status["letter"],
            "metrics": [
                {**metric_columns(row), "shown": shown_of(one["row"], change=change(one["change"]))}
                for row, one in zip(rows, metrics, strict=True)
            ],
            "metrics_in_all": count,
            "metadata": metadata,
            "last_good_run": good.uuid if good else None,
            "references": {
                name: {
                    "level": one.level,
                    "run": one.good.run_key if one.good else None,
                    "since": one.since.run_key if one.since else None,
                }
                for name, one in references.items()
            },
            "hosts": {name: hosts[name] for name in ("summary", "map")} if hosts else None,
        },
        table=lambda: TABLE.table(rows),
    )


def _differences(known: Mapping[str, Mapping[str, str]], good: JobRow, run: JobRow) -> tuple[str, ...]:
    """With those for whom a run counts, which explain no result."""
    every = {one.uuid: {**known[one.uuid], "owner": one.owner or "", "test type": one.test_type} for one in (good, run)}
    return differences(every, good.uuid, run.uuid)


def _shown(row: StoredMetric, reference: Reference | None) -> dict[str, Any]:
    """`alone`: whether a value passed out of its bounds, as more runs must show that the level is another."""
    lower, upper = -math.inf if row.lower is None else row.lower, math.inf if row.upper is None else row.upper
    is_outside = row.value is not None and not Bounds(lower, upper, inclusive=True).contains(row.value)
    # a row without a value, as of a run that failed, has no unit: its bounds have that of the good run before
    good = reference.good if reference else None
    return {
        "row": replace(row, unit=good.unit) if good and row.value is None else row,
        "reference": reference,
        "change": reference.percent(row.value) if reference else None,
        "broken": row.outcome in BROKEN,
        "alone": row.outcome is Outcome.PASS and is_outside,
    }


def _beside(warehouse: Warehouse, run: JobRow, good: JobRow | None) -> Iterator[tuple[str, str]]:
    """The runs whose curves may be drawn beside those of a run, each with what a reader chooses it by."""
    before = warehouse.runs.of_test(run.test_name, BEGINNING_OF_TIME, run.timestamp, MOST_BESIDE, run.uuid)
    for one in [*([good] if good and good.uuid not in {each.uuid for each in before} else []), *before]:
        about = ", the good run before" if good and one.uuid == good.uuid else ""
        yield one.uuid, f"{one.timestamp:%Y-%m-%d %H:%M} {letter_of(one)}{about}"


def _curves(
    warehouse: Warehouse, run: JobRow, rows: Sequence[StoredMetric], hidden: Collection[str]
) -> tuple[list[tuple[TagCurve, CurveBand | None]], str]:
    """With the envelopes that they were judged by, and an error if they are damaged."""
    has_curves = any(row.metric.endswith(CURVE_SUFFIX) for row in rows)
    try:
        found = warehouse.curves.of_run(run.place)[:SHOWN_CURVES] if has_curves else []
    except MlMetricsError as error:
        log.warning("run %s: its curves cannot be shown: %s", run.uuid, error)
        return [], "The curves of this run cannot be shown; the log of the API server has the reason."
    return [(curve, None if f"{curve.tag}{CURVE_SUFFIX}" in hidden else band) for curve, band in found], ""


SHOWN_SWEEPS, MOST_BESIDE = 6, 20
"""How many judged curves over a load or a size are drawn, and how many runs can be chosen to be drawn beside a run."""


def _sweeps(
    warehouse: Warehouse, run: JobRow, rows: Sequence[StoredMetric], hidden: Collection[str]
) -> list[tuple[Sweep, list[Sweep]]]:
    """Those that are judged, each with those of the runs before."""
    judged = [row for row in rows if row.metric.startswith(SWEEP) and row.metric not in hidden][:SHOWN_SWEEPS]
    own = {f"{SWEEP}{one.name}": one for one in warehouse.curves.sweeps_of(run.place)} if judged else {}
    before = curves_before(warehouse, run.place, judged) if own else {}
    return [(own[row.metric], before[row.metric]) for row in judged if row.metric in own]


def file_of_run(run: JobRow, name: str) -> tuple[bytes, bool]:
    """The beginning of the file, and whether it is text. It is opened from the folder's listing.

    Raises NotFoundError if the folder has no such file, or it cannot be read from this server.
    """
    folder = folder_of(run)
    try:
        listed: Iterable[storage.File] = islice(folder.files(), MAX_LISTED) if folder else ()
        found = next((file for file in listed if file.name == name), None)
        if found is None:
            raise NotFoundError("The run folder has no such file.")
        with found.open() as opened:
            content = opened.read(MAX_FILE)
    except (MlMetricsError, OSError) as error:
        log.warning("run %s: a file cannot be read: %s", run.uuid, error)
        raise NotFoundError(
            "The file cannot be read from this server; the log of the API server has the reason."
        ) from error
    try:
        content.decode()
    except UnicodeDecodeError as error:
        return content, error.start > len(content) - 4 and len(content) == MAX_FILE
    return content, b"\0" not in content


def _files(run: JobRow) -> tuple[RunFolder | None, list[storage.File], str]:
    """The run folder, its files, and an error if they cannot be listed."""
    folder = folder_of(run)
    if folder is None:
        return None, [], "The name of this test or run cannot be the name of a folder."
    try:
        listed = islice(folder.files(), MAX_LISTED)
        return folder, sorted(listed, key=lambda file: file.name), ""
    except (MlMetricsError, OSError) as error:
        log.warning("run %s: its folder cannot be read: %s", run.uuid, error)
        return folder, [], "The folder cannot be read from this server; the log of the API server has the reason."


def _logs(folder: RunFolder | None, run: JobRow) -> tuple[list[dict[str, Any]], int]:
    """The last lines of each container, that of a failed one first and open, and how many logs are left out."""
    if folder is None:
        return [], 0
    found = listed_logs(folder)
    newest = max((log.attempt for log in found), default=0)
    failing = failing_log(found, newest) if run.job_status is not JobStatus.SUCCESS else None
    ordered = sorted(found, key=lambda log: (log != failing, -log.attempt))
    shown = []
    for log in ordered[:20]:
        reason = f", {log.reason}" if log.reason not in {"", "Error", "Completed"} else ""
        shown.append(
            {
                "title": f"{log.title[0].upper()}{log.title[1:]}" + (f", attempt {log.attempt}" if newest > 1 else ""),
                "end": "" if log.exit_code is None else f"exit code {log.exit_code}{reason}",
                "lines": lines_of(folder, log) if log.saved else (),
                "note": log.note,
                "open": log == failing,
            }
        )
    return shown, len(ordered) - len(shown)


def faults_of(folder: RunFolder | None) -> list[dict[str, Any]]:
    """What became of each planned fault of the run."""
    try:
        found = [dict(one) for one in document_of(folder, "metrics").get("faults", ())]
        fault_sentences(found)
    except (AttributeError, KeyError, TypeError, ValueError):
        return []  # damaged, or of another version
    return found


def flags_of(faults: Iterable[Mapping[str, Any]]) -> list[tuple[int, str]]:
    return [(one["step"], one["what"]) for one in faults if type(one.get("step")) is int]


def _mails(run_key: str, messages: set[str]) -> list[dict[str, str]]:
    outbox = Settings.load().outbox
    keys = sorted(messages | {f"{run_key}-{occasion}" for occasion in ("broken", "worse", "recovered")})
    paths = [storage.join(outbox, f"{file_name(key)}.eml") for key in keys]
    try:
        return [_mail(path) for path in paths if storage.exists(path)]
    except (MlMetricsError, OSError):
        return []  # the outbox may be on another machine; the page still lists the messages


def _mail(path: str) -> dict[str, str]:
    message = email.message_from_bytes(storage.read_bytes(path), policy=email.policy.default)
    body = message.get_body(("plain", "html"))
    content = str(body.get_content()) if body is not None else ""
    headers = {name: str(message[name] or "") for name in ("subject", "to", "date")}
    return {**headers, "text": content[:100_000]}
