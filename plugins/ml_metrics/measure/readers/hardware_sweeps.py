"""Benchmarks of networks, storage and whole systems, whose results are curves over a size, a depth or accelerators."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ml_metrics.core.kinds import HIGHER, LOWER
from ml_metrics.core.model import Stated
from ml_metrics.measure.readers.format import Format, has, keys_of
from ml_metrics.measure.readers.serving_sweeps import IN_BRACKETS, count_of, dotted
from ml_metrics.measure.sweeps import Axis, Value, number

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ml_metrics.measure.readings import Readings

SIZES = Axis(("size",), {"size": "B"}, by_file=True)
TIME, BANDWIDTH = Stated("us", LOWER), Stated("GB/s", HIGHER)

# nccl-tests, rccl-tests

NCCL_COLUMNS = {"time": TIME, "algbw": BANDWIDTH, "busbw": BANDWIDTH}
NCCL_SIDES = ("out_of_place", "in_place")
STARTS = re.compile(r"# Collective test starting: (\S+)")
RANK = re.compile(r"^\s*\d+:\s(?=\s*[#\d])")
"""What `srun -l` puts before each line."""
MIN_CELLS, SIDE_CELLS = 11, 4


def read_nccl(found: Readings) -> None:
    """Cells are counted from the right: columns on the left differ between versions and collectives."""
    collective, table = "", 0
    for line in (RANK.sub("", one) for one in found.text_lines()):
        if starts := STARTS.search(line):
            collective = starts[1]
        if "out-of-place" in line:
            table += 1
        cells = line.split()
        if line.lstrip().startswith("#") or len(cells) < MIN_CELLS or not (cells[0].isdigit() and cells[1].isdigit()):
            continue
        sides = (cells[-2 * SIDE_CELLS : -SIDE_CELLS], cells[-SIDE_CELLS:])
        values = {
            f"{side}.{name}": Value.of(number(cell), stated)
            for side, side_cells in zip(NCCL_SIDES, sides, strict=True)
            for (name, stated), cell in zip(NCCL_COLUMNS.items(), side_cells, strict=False)
        }
        if all(value.y is None for value in values.values()):
            continue
        settings = {"size": cells[0], "collective": collective or None, "table": None if collective else table}
        found.measured(settings, values, failed=any((number(side[-1]) or 0) >= 1 for side in sides))


NCCL_KEYS = {"time": "time", "cpu_time": "time", "alg_bw": "algbw", "bus_bw": "busbw", "p50_us": "p50", "p99_us": "p99"}


def read_nccl_json(found: Readings) -> None:
    for row in found.document()["results"]:
        values, wrong = {}, False
        for side in NCCL_SIDES:
            part = keys_of(row, side)
            wrong = wrong or bool(number(part.get("nwrong")))
            for name, y in dotted(part):
                if name in NCCL_KEYS:
                    known = BANDWIDTH if name.endswith("_bw") else TIME
                    values[f"{side}.{NCCL_KEYS[name]}"] = Value(
                        y, known.unit, known.better, number(part.get("stdev_us"))
                    )
        settings = {"size": row["size"], "collective": row.get("experiment_name"), "type": row.get("type")}
        settings |= {"redop": row.get("redop"), "root": str(row.get("root", "")).strip()}
        found.measured(settings, values, samples=count_of(row.get("actual_iterations")), failed=wrong)


# OSU Micro-Benchmarks

OSU_COLUMN = re.compile(r"(Size|[A-Z][\w ]*?)\s*(?:\(([^)]+)\)|(?=\s{2,}|$))")


def read_osu(found: Readings) -> None:
    title = ""
    columns: list[tuple[str, str]] = []
    for line in found.text_lines():
        if line.startswith("# OSU"):
            title, columns = line.removeprefix("#").strip(), []
        elif line.startswith("# Size"):
            columns = [(name.strip(), unit) for name, unit in OSU_COLUMN.findall(line.removeprefix("#").strip())][1:]
        cells = line.split()
        if not columns or not cells or not cells[0].isdigit() or len(cells) <= 1:
            continue
        values, samples = {}, None
        for (name, unit), cell in zip(columns, cells[1:], strict=False):
            if name == "Iterations":
                samples = count_of(cell)
                continue
            short = name.removeprefix("Avg ").lower().replace(" ", "_")
            values[short] = Value(number(cell), unit, HIGHER if "/s" in unit else LOWER)
        found.measured({"size": cells[0], "title": title}, values, samples=samples)


# perftest: ib_write_bw, ib_read_lat, ...

PERFTEST_UNITS = {"MB/sec": "MiB/s", "Gb/sec": "Gb/s", "usec": "us"}
"""The MB of perftest are 2^20 bytes."""


def read_perftest(found: Readings) -> None:
    columns: list[tuple[str, str]] = []
    for line in found.text_lines():
        if line.lstrip().startswith("#bytes"):
            columns = list(_columns_of_perftest(line))
            continue
        cells = line.split()
        if not columns or len(cells) != len(columns) or number(cells[0]) is None:
            continue
        row = dict(zip(columns, cells, strict=True))
        values = {
            name: Value(number(cell), unit, LOWER if unit == "us" else HIGHER)
            for (name, unit), cell in row.items()
            if unit
        }
        found.measured({"bytes": cells[0]}, values, samples=count_of(cells[1]))


def _columns_of_perftest(line: str) -> Iterator[tuple[str, str]]:
    for column in re.split(r"\s{2,}|\t+", line.strip()):
        unit = IN_BRACKETS.search(column)
        yield (column[: unit.start()], PERFTEST_UNITS.get(unit[1], unit[1])) if unit else (column, "")


# fio

DEPTHS = ("iodepth", "numjobs", "bs", "blocksize", "rate_iops")
FIO = Axis(DEPTHS, {"bs": "B", "blocksize": "B"})
SIDES = ("read", "write", "trim")
SIZE = re.compile(r"(\d+)([kmgt]?)(?:i?b)?", re.IGNORECASE)
OF_SIDE = {"iops": Stated("1/s", HIGHER), "bw_bytes": Stated("B/s", HIGHER)}


def read_fio(found: Readings) -> None:
    """Read the curves: a direction without any input or output has none."""
    document = found.document()
    shared = keys_of(document, "global options")
    for job in document["jobs"]:
        options = {**shared, **keys_of(job, "job options")}
        settings: dict[str, Any] = {name: options[name] for name in ("rw", "ioengine", "direct") if name in options}
        settings |= {name: bytes_of(options[name]) for name in DEPTHS if name in options}
        settings["job"] = job.get("jobname")
        values, samples = {}, 0
        for side in SIDES:
            part = keys_of(job, side)
            if not number(part.get("total_ios")) and not number(part.get("iops")):
                continue
            samples += count_of(part.get("total_ios")) or 0
            for name, known in OF_SIDE.items():
                spread = number(part.get("iops_stddev")) if name == "iops" else None
                values[f"{side}.{name}"] = Value(number(part.get(name)), known.unit, known.better, spread)
            for kind in ("clat_ns", "lat_ns"):
                latency = keys_of(part, kind)
                for name, y in (("mean", latency.get("mean")), *_percentiles(keys_of(latency, "percentile"))):
                    if (time := number(y)) is not None:
                        values[f"{side}.{kind}.{name}"] = Value(time, "ns", LOWER)
        found.measured(settings, values, samples=samples, failed=bool(number(job.get("error"))))


def _percentiles(given: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in given.items():
        percent = number(name)
        if percent in {50, 90, 95, 99, 99.9}:
            yield f"percentile.{percent:g}", value


def bytes_of(text: Any) -> Any:
    """`4k` as 4096; what is no size stays as it is."""
    found = SIZE.fullmatch(str(text).strip())
    return text if found is None else int(found[1]) * 1024 ** " kmgt".index(found[2].lower() or " ")


# MLPerf Storage, MLPerf Inference


OF_STORAGE = {
    "percentage": Stated("%", HIGHER), "MB_per_second": Stated("MB/s", HIGHER),
    "samples_per_second": Stated("samples/s", HIGHER),
}  # fmt: skip


def read_storage(found: Readings) -> None:
    document = found.document()
    values = {}
    for name, y in dotted({"metric": document["metric"]}):
        known = next((one for end, one in OF_STORAGE.items() if name.endswith(end)), None)
        if known is not None:
            spread = number(document["metric"].get(name.removeprefix("metric.").replace("_mean_", "_stdev_")))
            better = "" if "_stdev_" in name else known.better
            values[name] = Value(y, known.unit, better, spread if "_mean_" in name else None)
    settings = {name: document[name] for name in ("num_accelerators", "num_hosts") if name in document}
    found.measured(settings, values)


LOADGEN_SETTINGS = ("Scenario", "Mode")
OF_LOADGEN = {
    "okens per second": Stated("tokens/s", HIGHER), "per second": Stated("1/s", HIGHER), "(ns)": Stated("ns", LOWER),
    "target_qps": Stated("1/s"),
}  # fmt: skip
"""By what its names contain."""
SYSTEM = re.compile(r"(?:^|[/_-])(\d+)x[A-Z]")
"""The number of accelerators in the name of a system: `8xH100_2xEPYC`."""


def read_loadgen(found: Readings) -> None:
    settings: dict[str, Any] = {}
    values: dict[str, Value] = {}
    valid = True
    for line in found.text_lines():
        name, colon, text = (part.strip() for part in line.partition(":"))
        y = number(text)
        if not colon:
            continue
        if name in LOADGEN_SETTINGS:
            settings[name] = text
        elif name == "Result is":
            valid = text == "VALID"
        elif y is not None and (known := next((one for end, one in OF_LOADGEN.items() if end in name), None)):
            plain = IN_BRACKETS.sub("", name).removeprefix("Completed ")
            values[plain[0].lower() + plain[1:]] = Value.of(y, known)
    if system := SYSTEM.search(found.lines.file.name):
        settings["accelerators"] = int(system[1])
    if target := values.get("target_qps"):
        settings["target_qps"] = target.y
    found.measured(settings, values, failed=not valid)


FORMATS = (
    Format("nccl-tests", (b"busbw", b"algbw", b"(GB/s)"), read_nccl, axis=SIZES),
    Format("nccl-tests-json", (b'"nccl_version"',), read_nccl_json, has("results", "nccl_version"), SIZES),
    Format(
        "osu",
        (b"# OSU",),
        read_osu,
        lambda file: re.search(rb"^# OSU .*Test", file.head, re.MULTILINE) is not None,
        SIZES,
    ),
    Format(
        "perftest",
        (b"#bytes",),
        read_perftest,
        lambda file: b"BW average" in file.head or b"t_typical" in file.head,
        Axis(("bytes",), {"bytes": "B"}, by_file=True),
    ),
    Format(
        "mlperf-storage",
        (b'"num_accelerators"', b'"metric"'),
        read_storage,
        has("num_accelerators", "metric"),
        Axis(("num_accelerators", "num_hosts")),
    ),
    Format(
        "mlperf-loadgen",
        (b"MLPerf Results Summary", b"Scenario"),
        read_loadgen,
        axis=Axis(("accelerators", "target_qps"), {"target_qps": "1/s"}),
    ),
)
