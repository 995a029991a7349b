"""The dashboard in a real Airflow API server, over five million metric rows in SQLite, and in a real Chromium.

The heatmap is compared with the same page over a tenth of the rows: its cost must depend on what it shows. The page of
many metrics has no peer, so its target is in milliseconds and depends on the machine.

`--rows FOLDER` keeps the warehouses, which take minutes to fill, and uses those that are there.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import httpx

sys.path.insert(0, str(Path(__file__).parents[1] / "plugins"))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from ml_metrics.warehouse import open_warehouse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_home import Home

TESTS, METRICS = 1_000, 167
DAYS = 30
YEAR = 365
SLICE = 10
"""The small warehouse has a tenth of the metrics of each run. The heatmap shows the same."""
MANY_METRICS, MANY_RUNS = 40, 365
OPEN = 200
"""The open incidents."""
ROUNDS = 9
NOW = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
JOB = """
INSERT INTO job_history (
  uuid, test_name, test_type, accelerator, framework_version, job_status, num_failures, job_duration_sec, timestamp,
  stackdriver_logs_link, dag_id, run_id, owner, verdict
) VALUES (?, ?, 'train', 'v5litepod-16', 'tf', ?, 0, 1800, ?, '', ?, ?, ?, ?)
"""
METRIC = """
INSERT INTO metric_history (
  uuid, test_name, timestamp, metric_name, metric_value, metric_lower_bound, metric_upper_bound, verdict, rule,
  baseline_points
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'within 3 sd', 30)
"""


def main() -> None:
    """Print the measurements."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=Path, help="a folder that keeps the warehouses")
    with tempfile.TemporaryDirectory() as folder:
        rows = parser.parse_args().rows or Path(folder, "rows")
        rows.mkdir(parents=True, exist_ok=True)
        sizes = {"few": (METRICS // SLICE, DAYS), "whole": (METRICS, DAYS), "year": (1, YEAR)}
        few, whole, year = (_measured(Path(folder, name), rows / f"{name}.db", *size) for name, size in sizes.items())
    count = TESTS * DAYS * METRICS + MANY_METRICS * MANY_RUNS
    print(f"\n{count:,} metric rows, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    print(f"{'measurement':<58}{'ours':>10}{'peer':>10}{'ratio':>8}{'target':>10}  met")
    _row(f"tests, {TESTS} x {DAYS} days: first byte, ms", whole["first byte"], 150, few["first byte"])
    _row(f"tests, {TESTS} x {YEAR} days of runs: first byte, ms", year["first byte"], 150)
    _row(f"inbox of {OPEN} incidents, the same: first byte, ms", year["inbox"], 150)
    _row("tests: whole page, ms", whole["whole"], None, few["whole"])
    _row("tests: size before compression, kB", whole["kilobytes"], None)
    _row("tests: the small curves of 30 of them, ms", whole["small curves"], None, few["small curves"])
    _row(f"inbox of {OPEN} incidents: first byte, ms", whole["inbox"], 150, few["inbox"])
    _row("one test of a thousand: first byte, ms", whole["one test"], None, few["one test"])
    _row("two runs compared: first byte, ms", whole["compare"], None, few["compare"])
    for name, label, target in (
        ("interactive", f"test page, {MANY_METRICS} metrics x {MANY_RUNS} runs: interactive, ms", 600),
        ("drawn", "test page: every chart in view drawn and idle, ms", None),
        ("test kilobytes", "test page: compressed before the first paint, kB", 100),
        ("tests kilobytes", "tests: compressed before the first paint, kB", 100),
        ("inbox kilobytes", "inbox: compressed before the first paint, kB", 100),
    ):
        if name in whole:
            _row(label, whole[name], target)


def _measured(place: Path, rows: Path, metrics: int, days: int) -> dict[str, float]:
    from airflow_home import Home

    home = Home.make(place)
    if not rows.exists():
        started, part = time.monotonic(), rows.with_suffix(".part")
        part.unlink(missing_ok=True)
        _fill(part, metrics, days)
        part.rename(rows)
        print(f"filled {TESTS * days * metrics:,} rows in {time.monotonic() - started:.0f} s", flush=True)
    (place / "ml_metrics").mkdir(exist_ok=True)
    (place / "ml_metrics" / "warehouse.db").symlink_to(rows.resolve())
    with (
        _server(home) as (url, token),
        httpx.Client(headers={"Authorization": f"Bearer {token}"}, timeout=120) as client,
    ):
        found = _timed(client, f"{url}/ml-metrics/")
        some = "&".join(f"test={_name(test)}" for test in range(30))
        pages = {"inbox": "inbox", "one test": f"test?test={_name(0)}", "compare": f"compare?test={_name(2)}"}
        for name, path in pages.items():
            found[name] = _timed(client, f"{url}/ml-metrics/{path}")["first byte"]
        found["small curves"] = _timed(client, f"{url}/ml-metrics/sparklines?{some}")["whole"]
        if metrics == METRICS and shutil.which("chromium"):
            found |= _in_browser(url, token)
    return found


def _timed(client: httpx.Client, url: str) -> dict[str, float]:
    first, whole, size = [], [], 0
    for _ in range(ROUNDS + 1):
        start = time.perf_counter()
        with client.stream("GET", url, headers={"Accept-Encoding": "identity"}) as answer:
            answer.raise_for_status()
            chunks = answer.iter_raw()
            size = len(next(chunks))
            first.append(time.perf_counter() - start)
            size += sum(map(len, chunks))
            whole.append(time.perf_counter() - start)
    return {
        "first byte": statistics.median(first[1:]) * 1e3,
        "whole": statistics.median(whole[1:]) * 1e3,
        "kilobytes": size / 1e3,
    }


INTERACTIVE = """() => new Promise((done) => requestIdleCallback(() => done(performance.now())))"""
DRAWN = """() => new Promise((done) => {
    const seen = [...document.querySelectorAll('.draw')].filter((e) => e.getBoundingClientRect().top < innerHeight);
    const look = () => seen.every((e) => e.hasAttribute('data-drawn'))
        ? requestIdleCallback(() => done(performance.now())) : setTimeout(look, 5);
    look();
})"""
PAINTED = "() => performance.getEntriesByName('first-contentful-paint').length > 0"
BEFORE_PAINT = """() => {
    const paint = performance.getEntriesByName('first-contentful-paint')[0].startTime;
    const loaded = [...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')];
    return loaded.filter((e) => e.responseStart < paint).reduce((sum, e) => sum + e.transferSize, 0) / 1e3;
}"""


def _in_browser(url: str, token: str) -> dict[str, float]:
    """Return times and sizes in a browser with an empty cache.

    A page is interactive when it is parsed, its scripts have run, and the browser has nothing to do but to wait for its
    reader. A response counts as before the first paint if it had begun by then.
    """
    from browser import chromium, logged_in

    since = (NOW - timedelta(days=MANY_RUNS)).date()
    pages = {"test": f"test?test=many-metrics&since={since}", "tests": "", "inbox": "inbox"}
    found: dict[str, list[float]] = {}
    with chromium() as browser:
        for name, path in [*pages.items()] * 5:
            context = logged_in(browser, url, token)
            page = context.new_page()
            page.goto(f"{url}/ml-metrics/{path}", wait_until="commit")
            page.wait_for_load_state("domcontentloaded")
            if name == "test":
                found.setdefault("interactive", []).append(page.evaluate(INTERACTIVE))
                found.setdefault("drawn", []).append(page.evaluate(DRAWN))
            page.wait_for_load_state("load")
            page.wait_for_function(PAINTED)
            found.setdefault(f"{name} kilobytes", []).append(page.evaluate(BEFORE_PAINT))
            context.close()
    return {name: statistics.median(values) for name, values in found.items()}


def _fill(file: Path, metrics: int, days: int) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with open_warehouse(f"sqlite:///{file}") as warehouse:
        warehouse.ensure_schema()
    database = sqlite3.connect(file)
    database.execute("PRAGMA synchronous = OFF")
    for test in range(TESTS):
        _insert(database, _name(test), test, days, metrics)
    _insert(database, "many-metrics", TESTS, MANY_RUNS, MANY_METRICS)
    database.commit()
    database.close()
    with open_warehouse(f"sqlite:///{file}") as warehouse:
        for test in range(OPEN):
            warehouse.incidents.report(_name(test), f"{test:08x}-0000-5000-8000-{0:012x}", fingerprint="x",
                                       reasons=["metric:metric_000_final"])  # fmt: skip


def _name(test: int) -> str:
    return f"{('tf', 'pt', 'jax')[test % 3]}-model{test:04}-train-v5litepod-16"


def _insert(database: sqlite3.Connection, name: str, number: int, days: int, metrics: int) -> None:
    jobs, values = [], []
    for day in range(days):
        stopped = NOW - timedelta(days=day, minutes=number % 1440 / 2)
        at, key = stopped.strftime("%Y-%m-%d %H:%M:%S.000000"), f"{number:08x}-0000-5000-8000-{day:012x}"
        draw = (number * 31 + day * 7) % 100
        status = {0: "failure", 1: "timeout"}.get(draw, "success")
        bad = draw in {2, 3, 4} and status == "success"
        jobs.append((key, name, status, at, name, f"scheduled__{day}", f"team-{number % 7}", "fail" if bad else "pass"))
        for metric in range(metrics):
            wrong = bad and metric == 0
            value = 100 + (number + day * 13 + metric * 29) % 37 / 10
            values.append((key, name, at, f"metric_{metric:03}_final", 999.0 if wrong else value, 90.0 + day % 5 / 7,
                           110.0 - day % 5 / 7, "fail" if wrong else "pass"))  # fmt: skip
    database.executemany(JOB, jobs)
    database.executemany(METRIC, values)


@contextmanager
def _server(home: Home) -> Iterator[tuple[str, str]]:
    from standalone_airflow import free_port, is_up, stop, token_of, wait_until

    port = free_port()
    url = f"http://127.0.0.1:{port}"
    environment = {**home.environment, "AIRFLOW__API__BASE_URL": url}
    with (home.path / "server.log").open("wb") as log:
        process = subprocess.Popen(["airflow", "api-server", "--port", str(port), "--workers", "1"], env=environment,
                                   stdout=log, stderr=log, start_new_session=True)  # fmt: skip
        try:
            wait_until(lambda: is_up(url), "the API server answers")
            yield url, token_of(home, url)
        finally:
            stop(process)


def _row(what: str, ours: float, target: float | None, peer: float | None = None) -> None:
    beside = "-" if peer is None else f"{peer:.0f}"
    ratio = "-" if peer is None else f"{ours / peer:.2f}"
    met = "-" if target is None else "yes" if ours < target else "NO"
    print(f"{what:<58}{ours:>10.0f}{beside:>10}{ratio:>8}{target or '-':>10}  {met}")


if __name__ == "__main__":
    main()
