"""The faults of the campaign are the same for the same seed, and its table shows what was wrong."""

from __future__ import annotations

import subprocess
from collections import Counter
from typing import TYPE_CHECKING

from campaigns.machines.deployment import LAYOUTS, deploy, from_overrides
from campaigns.machines.ends import End, WaveEnd
from campaigns.machines.faults import KINDS, LONGEST_OUTAGE, planned, short
from campaigns.machines.machine import Machine, mounts_of, prepare
from campaigns.machines.tables import BEGIN, COLUMNS, DOCS, END, classes, into_docs, summary, table
from missing import missing
from servers.own_disk import namespace

if TYPE_CHECKING:
    from pathlib import Path


def test_a_hundred_faults_are_every_kind_in_every_layout() -> None:
    waves = list(planned(1, 100))
    assert waves == list(planned(1, 100))
    assert waves != list(planned(2, 100))
    assert [wave.number for wave in waves] == list(range(len(waves)))
    faults = [(wave.layout, fault) for wave in waves for fault in wave.faults]
    assert len(faults) == 100
    drawn = Counter((layout, fault.what, fault.how) for layout, fault in faults)
    assert {(layout, *kind) for layout in LAYOUTS for kind in KINDS} == set(drawn)
    assert all(fault.lasts <= LONGEST_OUTAGE for _, fault in faults)


def test_the_short_form_has_the_same_faults_at_other_moments() -> None:
    one, other = short(1), short(2)
    assert one == short(1)
    assert one != other
    assert {(each.what, each.how) for each in one.faults} == {(each.what, each.how) for each in other.faults}


def test_the_tables_count_runs_by_fault_and_name_the_waves_of_what_was_wrong() -> None:
    waves = [wave for wave in planned(1, 100) if wave.number in {0, 3}]
    right, wrong = End("steady", "0.97", "key", "folder"), End("steady", "0.97", "key", "folder", {"rows": "[]"})
    ends = [WaveEnd(waves[0], [right, right], 1.0).record(), WaveEnd(waves[1], [right, wrong], 1.0).record()]
    lines = table(ends).splitlines()
    first, *both = (fault for wave in waves for fault in wave.faults)
    assert f"| {first.what} | {first.how} | 1 | 2 | 2 |" in lines
    assert all(f"| {fault.what} | {fault.how} | 1 | 2 | 1 |" in lines for fault in both)
    assert lines[-1] == "| all |  | 3 | 4 | 3 |"
    assert f"| rows | 1 | as deployed, 3 ({both[0]}; {both[1]}): steady: [] |" in classes(ends)
    assert classes(ends[:1]) == "Nothing was wrong."
    page = "before\n<!-- machines -->\nold\n<!-- /machines -->\nafter\n"
    made = into_docs(ends, page)
    assert made == f"before\n<!-- machines -->\n{summary(ends)}\n<!-- /machines -->\nafter\n"
    assert into_docs(ends, made) == made


def test_the_table_of_the_docs_is_one_of_the_campaign() -> None:
    lines = DOCS.read_text().partition(BEGIN)[2].partition(END)[0].splitlines()
    heading, _, *rows, total = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert tuple(heading) == COLUMNS
    shown = {(what, how) for whats, hows, *_ in rows for what in whats.split(", ") for how in hows.split(", ")}
    assert shown <= {(what, str(how)) for what, how in KINDS}
    assert sum(int(faults) for _, _, faults, *_ in rows) == int(total[2])
    assert all(int(right) <= int(runs) for *_, runs, right in (*rows, total))


def test_runs_belong_to_the_deployment_that_the_campaign_looks_for(tmp_path: Path) -> None:
    variables = from_overrides(deploy(tmp_path, "gs://my-bucket/here", "of-this-layout"))
    assert variables["AIRFLOW__ML_METRICS__DEPLOYMENT"] == "of-this-layout"


def test_a_machine_that_ended_has_no_processes_of_others(tmp_path: Path) -> None:
    if not namespace():
        missing("no process may have file systems of its own here (unshare -m)")
    prepare(tmp_path)
    (tmp_path / "deployed" / "config").mkdir(parents=True)
    machine = Machine("machine", ("sleep", "60"), tmp_path, {})
    machine.start()
    assert machine.process
    assert machine.process.pid in [one.pid for one in machine.processes()]
    machine.kill()
    with subprocess.Popen([*namespace(), "sh", "-c", "echo; exec sleep 60"], stdout=subprocess.PIPE) as other:
        try:
            assert other.stdout
            other.stdout.readline()  # it has mounts of its own now
            assert mounts_of(other.pid) not in {None, machine.mounts}
            assert machine.processes() == []
        finally:
            other.kill()
