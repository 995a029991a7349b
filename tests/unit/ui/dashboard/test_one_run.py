"""The page of one run: metrics, mails, files, and hostile names."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from ml_metrics.core.model import JobStatus, Sweep, SweepPoint
from ml_metrics.measure import ContainerLog, Role, write_logs
from ml_metrics.store.run_folder import RunFolder
from ml_metrics.warehouse import ChannelResult, StoredMessage, Warehouse
from unit.ui.dashboard.sample_runs import SHIFTED, TODAY, recorded, run_of

KEY = run_of(SHIFTED, 0).key
PAGE = f"/run?run={KEY}"


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AIRFLOW__ML_METRICS__STORAGE_ROOT", f"{tmp_path}/runs")
    monkeypatch.setenv("AIRFLOW__ML_METRICS__OUTBOX", f"{tmp_path}/outbox")
    return tmp_path


def test_a_run_is_compared_with_the_good_one_before_it(shown: TestClient) -> None:
    text = shown.get(f"/run?run={run_of(SHIFTED, 0).key}").text
    assert run_of(SHIFTED, 4).key in text
    assert "image:1 → image:2" in text
    assert "+38.6 %" in text
    assert "<td>below 11</td>" in text
    assert "made up" in text
    document = shown.get(f"/run?run={run_of(SHIFTED, 0).key}&format=json").json()
    assert document["last_good_run"] == run_of(SHIFTED, 4).key


def test_all_that_is_recorded_about_both_runs_is_compared(browser: TestClient, warehouse: Warehouse) -> None:
    both = {
        1: {"image_digest": f"sha256:{'a' * 64}", "param.batch": "8", "param.api_token": "first", "mfu.peak": "1"},
        0: {"image_digest": f"sha256:{'b' * 64}", "param.batch": "9", "param.api_token": "second", "mfu.peak": "2"},
    }
    for day, about in both.items():
        warehouse.load(replace(recorded("t", day, owner="ab"[day]), metadata=about))
    page = browser.get(f"/run?run={run_of('t', 0).key}").text
    found = page.split("<h2>Differences from the good run before</h2>")[1].split("</ul>")[0]
    assert re.findall("<li>(.*?)</li>", found) == [
        f"image_digest: sha256:{'a' * 12}… → sha256:{'b' * 12}…",
        "owner: b → a",
        "param.api_token (values not shown)",
        "param.batch: 8 → 9",
    ]


def test_the_mail_is_shown_as_it_was_sent(shown: TestClient, filled: Warehouse, state: Path) -> None:
    mail = EmailMessage()
    mail["Subject"], mail["To"] = "tf-shifted is failing", "vera@example.com"
    mail.set_content("loss_final <b>was</b> out of bounds")
    (state / "outbox").mkdir()
    (state / "outbox" / f"{KEY}-001-broken-ab.eml").write_bytes(mail.as_bytes())
    row = StoredMessage(f"{KEY}-001-broken-ab", KEY, SHIFTED, "vera", "broken", "ab", TODAY, (), "x", ())
    filled.messages.add(replace(row, channels={"smtp": ChannelResult("failed", 3, "<b>refused")}))
    text = shown.get(PAGE).text
    assert "tf-shifted is failing" in text
    assert "loss_final &lt;b&gt;was&lt;/b&gt; out of bounds" in text
    assert "vera@example.com" in text
    assert "broken: pending" in text
    assert "smtp failed (&lt;b&gt;refused)" in text


@pytest.mark.parametrize(
    ("document", "shown_notes"),
    [
        ({"notes": ["step_time: <b>the first</b>"]}, ["step_time: &lt;b&gt;the first"]),
        ({"notes": 3}, []),
        ("{", []),
    ],
)
def test_the_notes_of_the_run_are_shown(
    shown: TestClient, state: Path, document: dict[str, Any] | str, shown_notes: list[str]
) -> None:
    folder = RunFolder.of(run_of(SHIFTED, 0), f"{state}/runs")
    folder.write("metrics", document if isinstance(document, dict) else {})
    if isinstance(document, str):
        Path(folder.document_path("metrics")).write_text(document)
    response = shown.get(PAGE)
    text = response.text
    assert response.status_code == 200
    assert [note for note in shown_notes if note not in text] == []


def test_a_run_folder_that_became_a_link_shows_nothing_of_another_team(shown: TestClient, state: Path) -> None:
    other = state / "another-team" / "_ml_metrics" / "logs"
    other.mkdir(parents=True)
    (other / "attempt-1-base.log").write_text("a secret of another team\n")
    (state / "runs" / SHIFTED).mkdir(parents=True)
    (state / "runs" / SHIFTED / KEY).symlink_to(state / "another-team")
    assert "a secret of another team" not in shown.get(PAGE).text
    (state / "runs" / SHIFTED / KEY).unlink()
    (state / "another-team").rename(state / "runs" / SHIFTED / KEY)
    assert "a secret of another team" in shown.get(PAGE).text, "as the log of a folder that is no link"


def test_the_log_of_a_failed_container_is_open_and_others_are_folded(
    browser: TestClient, warehouse: Warehouse, state: Path
) -> None:
    run = recorded("pt-failed", 0, status=JobStatus.FAILURE)
    warehouse.load(run)
    folder = RunFolder.of(run_of("pt-failed", 0), f"{state}/runs")
    logs = Path(folder.path, "_ml_metrics", "logs")
    logs.mkdir(parents=True)
    base = ContainerLog(2, "base", Role.WORKLOAD, exit_code=137, reason="OOMKilled", saved=True)
    proxy = ContainerLog(2, "proxy", Role.SIDECAR, exit_code=0, saved=True)
    first = ContainerLog(1, "base", Role.WORKLOAD, note="the pod was deleted before its logs could be read")
    write_logs(folder, [first])
    write_logs(folder, [proxy, base])
    (logs / base.file).write_text("training\n</pre><script>alert(1)</script>\u202e\x1b[31m\n")
    (logs / proxy.file).write_text("listening\n")
    text = browser.get(f"/run?run={run.key}").text
    assert "<details open><summary>Container base, attempt 2 (exit code 137, OOMKilled)</summary>" in text
    assert "training\n&lt;/pre&gt;&lt;script&gt;alert(1)&lt;/script&gt;\\u202e\n</pre>" in text
    assert "<details><summary>Sidecar proxy, attempt 2 (exit code 0)</summary>" in text
    assert "<details><summary>Container base, attempt 1: no lines</summary>" in text
    assert "the pod was deleted before its logs could be read" in text
    assert text.index("training") < text.index("<h2>Judged metrics</h2>") < text.index("<h2>Files</h2>")


def test_a_run_without_alerts_and_files(shown: TestClient, state: Path) -> None:
    assert not (state / "runs").exists()
    text = shown.get(PAGE).text
    assert "No alert was sent about this run" in text
    assert "The run folder is empty, or not on this server" in text


@pytest.mark.parametrize("name", ["..", "../secrets", "/etc", "a/../../secrets", "."])
def test_a_name_that_leads_out_of_the_storage_root_is_not_followed(
    browser: TestClient, warehouse: Warehouse, state: Path, name: str
) -> None:
    (state / "secrets").mkdir()
    (state / "secrets" / "password.txt").write_text("x")
    run = recorded(name, 0)
    warehouse.load(run)
    text = browser.get(f"/run?run={run.key}").text
    assert "password.txt" not in text
    assert "cannot be the name of a folder" in text


def test_run_page_and_test_page_show_the_stored_baseline(shown: TestClient, filled: Warehouse, state: Path) -> None:
    assert state.is_dir()
    run = recorded(SHIFTED, 0, 12.0)
    filled.load(replace(run, metrics=tuple(replace(row, reference=9.5, spread=0.25) for row in run.metrics)))
    assert "<td>9.5, spread 0.25</td>" in shown.get(PAGE).text
    assert "(baseline 9.5, spread 0.25)" in shown.get(f"/test?test={SHIFTED}").text
    assert shown.get(f"{PAGE}&format=csv").text.splitlines()[1].endswith(",9.5,0.25")
    filled.load(run)
    assert "(baseline" not in shown.get(f"/test?test={SHIFTED}").text


def test_a_curve_is_drawn_over_its_envelope(browser: TestClient, warehouse: Warehouse) -> None:
    run = recorded("pt-curve", 0, metric="</script>_curve")
    curve = '{"steps":[0,1],"values":[3.5,2.5],"better":"lower"}'
    band = '{"steps":[1],"low":[1.5],"high":[2.0]}'
    warehouse.load(replace(run, curves={"</script>": (curve, band)}))
    text = browser.get(f"/run?run={run.key}").text
    assert "&lt;/script&gt; over the steps of the run" in text
    assert '"place":"outside"' in text.replace(" ", "")
    assert text.count("</script>") == text.count("<script")
    warehouse.load(replace(run, curves={"</script>": ("{", band)}))
    assert "The curves of this run cannot be shown" in browser.get(f"/run?run={run.key}").text


@pytest.mark.parametrize(
    ("earlier", "shown", "highest"), [(1, "1 run", 3.0), (20, "20 runs", 22.0), (25, "20 runs", 22.0)]
)
def test_a_judged_curve_over_a_load_is_drawn_beside_the_twenty_before(
    browser: TestClient, warehouse: Warehouse, earlier: int, shown: str, highest: float
) -> None:
    for ago in range(earlier, -1, -1):
        run = recorded("serving", ago, metric="curve/</script>")
        sweep = Sweep("</script>", "rate", (SweepPoint(1.0, 2.0 + ago),), "1/s", "ms", "lower")
        warehouse.load(replace(run, sweeps=(sweep,)))
    text = browser.get(f"/run?run={run.key}").text
    assert "&lt;/script&gt; over rate" in text
    assert f"the range of {shown} before" in text
    ends = dict(re.findall(r'"(low|high)": ?([\d.]+)', text))
    assert ends == {"low": "3.0", "high": str(highest)}
    assert "</script> over" not in text


def test_a_curve_in_a_loss_is_drawn_beside_the_runs_before_the_loss(browser: TestClient, warehouse: Warehouse) -> None:
    for ago in range(12, -1, -1):
        level = 14.0 if ago < 4 else 10.0 + ago / 100
        run = recorded("serving", ago, level, metric="curve/ttft", upper=11.0 if ago < 2 else 20.0)
        sweep = Sweep("ttft", "rate", (SweepPoint(1.0, level),), "1/s", "ms", "lower")
        warehouse.load(replace(run, sweeps=(sweep,)))
    text = browser.get(f"/run?run={run.key}").text
    assert "the range of 9 runs before" in text, "the runs at the worse level that passed are not among them"
    assert '"high":10.12' in text.replace(" ", "")


def test_a_run_without_curves_loads_no_script_for_charts(shown: TestClient) -> None:
    assert "vega.js" not in shown.get(PAGE).text


HOSTS = {
    "summary": "2 hosts: <b> is slow",
    "map": {"hosts": ["a", "</script>"], "first_steps": [0, 5], "last_step": 9, "percent": [[0, 1], [50, 2]],
            "hosts_left_out": 3},
}  # fmt: skip


def test_the_step_times_of_hosts_are_drawn(shown: TestClient, state: Path) -> None:
    folder = RunFolder(f"{state}/runs/{SHIFTED}/{KEY}", f"{state}/runs")
    folder.write("goodput", {"host_step_times": HOSTS})
    text = shown.get(PAGE).text
    assert 'id="chart-hosts"' in text
    assert "vega.js" in text
    assert "2 hosts: &lt;b&gt; is slow. 3 hosts that differ less are left out." in text
    assert text.count("</script>") == text.count("<script")
    assert shown.get(f"{PAGE}&format=json").json()["hosts"]["map"] == HOSTS["map"]


@pytest.mark.parametrize(
    "damaged",
    [
        None, [], "text", {}, {"map": None, "summary": ""}, {**HOSTS, "map": {**HOSTS["map"], "percent": [[0]]}},
        {**HOSTS, "map": {**HOSTS["map"], "hosts": ["h"] * 100_000}}, {"summary": "an older document", "steps": 3},
    ],
)  # fmt: skip
def test_without_a_usable_map_of_hosts(shown: TestClient, state: Path, damaged: Any) -> None:
    folder = RunFolder(f"{state}/runs/{SHIFTED}/{KEY}", f"{state}/runs")
    folder.write("goodput", {"host_step_times": damaged})
    assert "chart-hosts" not in shown.get(PAGE).text
    assert shown.get(f"{PAGE}&format=json").json()["hosts"] is None


@pytest.mark.parametrize("runs", [1, 2, 3, 9])
def test_a_shift_that_still_passes_is_shown_beside_the_run_before_it(
    browser: TestClient, warehouse: Warehouse, runs: int
) -> None:
    warehouse.load_all(
        [
            recorded("waits", day, (10.84 if day < runs else 10.0) + day % 3 / 100, metric="step_time",
                     image=f"app@sha256:{'ba'[day >= runs] * 64}")
            for day in range(30)
        ]
    )  # fmt: skip
    before, first = (run_of("waits", day) for day in (runs, runs - 1))
    for day in range(runs):
        run = run_of("waits", day).key
        document = browser.get(f"/run?run={run}&format=json").json()
        assert document["run"]["verdict"] == "pass"
        assert document["last_good_run"] == before.key
        assert document["references"]["step_time"] == {"level": 10.01, "run": before.key, "since": first.key}
        text = browser.get(f"/run?run={run}").text
        since = f"{TODAY - timedelta(days=runs - 1):%Y-%m-%d}"
        assert f"against 10.01; since {since}, image: app@sha256:aaaaaaaaaaaa… → app@sha256:bbbbbbbbbbbb…" in text
        assert float(text.split('<p class="why">')[1].split("+")[1].split(" %")[0]) > 8
        assert f"compare?kind=runs&amp;base={before.key}&amp;candidate={run}" in text
    compared = browser.get("/compare?test=waits&format=json").json()
    assert (compared["base"], compared["candidate"]) == (before.key, run_of("waits", 0).key)


def test_judged_metrics_come_first_and_the_others_are_folded(browser: TestClient, warehouse: Warehouse) -> None:
    more = {"eval_loss": 3.5, "restarts": 0.0}
    warehouse.load_all([recorded("t", 1, more=more), (run := recorded("t", 0, 14.0, more=more))])
    text = browser.get(f"/run?run={run.key}").text
    places = ("<h2>Judged metrics</h2>", ">loss_final ", "1 other metric<", ">eval_loss<", "1 metric of 0<", "restarts")
    assert [text.index(one) for one in places] == sorted(text.index(one) for one in places)


def test_bounds_of_a_run_without_values_have_the_unit_of_the_good_run(
    browser: TestClient, warehouse: Warehouse
) -> None:
    good = recorded("t", 1, 0.5, upper=0.8, metric="step_time")
    failed = recorded("t", 0, 0.5, upper=0.8, metric="step_time", status=JobStatus.FAILURE)
    with_unit = tuple(replace(row, unit="s") for row in good.metrics)
    without = tuple(replace(row, value=None, unit="") for row in failed.metrics)
    warehouse.load_all([replace(good, metrics=with_unit), replace(failed, metrics=without)])
    assert "<td>below 800 ms</td>" in browser.get(f"/run?run={failed.key}").text
