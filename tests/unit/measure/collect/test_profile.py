"""Profiles of a CPU, two TPU cores and a GPU's allocator, and damaged ones, read by the real XProf."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ml_metrics.core.limits import Limits
from ml_metrics.measure.readers import xprof
from unit.measure.collect.run_folders import by_name, collected, values, write

PROFILES = Path(__file__).with_name("profiles")


def session(run: Path, kind: str, when: str = "2026_01_01_00_00_00", host: str = "host") -> Path:
    """Put a profile where jax.profiler puts it."""
    folder = run / "logs" / "plugins" / "profile" / when
    folder.mkdir(parents=True, exist_ok=True)
    return Path(shutil.copy(PROFILES / f"{kind}.xplane.pb", folder / f"{host}.xplane.pb"))


def test_the_overview_of_a_tpu(tmp_path: Path) -> None:
    path = session(tmp_path, "tpu")
    found = collected(tmp_path)
    assert found.warnings == ()
    assert values(found) == {
        "profile/average_step_time_ms": 2.0,
        "profile/device_core_count": 2,
        "profile/flops_utilization_percent": pytest.approx(100 * 100e9 * 4 / (8e-3 * 197e12)),
        "profile/hbm_bandwidth_utilization_percent": pytest.approx(100 * 0.5 * 4 / (8e-3 * 819)),
        "profile/device_duty_cycle_percent": pytest.approx(75, abs=5),
    }
    assert found.metadata == {"profile/device_type": "TPU v5 lite"}
    assert found.files == 1
    assert by_name(found)["profile/device_core_count"].strategy == "as_written"
    assert [one.name for one in path.parent.iterdir()] == [path.name], "nothing is left in the run folder"


def test_a_cpu_has_steps_and_programs_but_no_utilization(tmp_path: Path) -> None:
    session(tmp_path, "cpu")
    found = collected(tmp_path)
    assert set(values(found)) == {"profile/average_step_time_ms", "profile/peak_program_memory_bytes"}
    assert 0 < values(found)["profile/average_step_time_ms"] < 100
    assert 2 * 256 * 256 * 4 <= values(found)["profile/peak_program_memory_bytes"] < 3 * 256 * 256 * 4
    assert found.metadata == {"profile/device_type": "CPU"}


def test_peak_memory_of_an_allocator(tmp_path: Path) -> None:
    session(tmp_path, "gpu")
    assert values(collected(tmp_path)) == {"profile/peak_memory_bytes": 500 << 20}


def test_all_hosts_of_the_newest_session_count(tmp_path: Path) -> None:
    session(tmp_path, "cpu", "2026_01_01_00_00_00")
    session(tmp_path, "tpu", "2026_01_01_00_10_00", "host-0")
    session(tmp_path, "tpu", "2026_01_01_00_10_00", "host-1")
    found = collected(tmp_path)
    assert values(found)["profile/device_core_count"] == 4
    assert found.files == 2
    assert found.warnings == ("of 2 profiles, the newest counts: logs/plugins/profile/2026_01_01_00_10_00",)


WHOLE = (PROFILES / "tpu.xplane.pb").read_bytes()


@pytest.mark.parametrize("content", [b"", b"no profile", b"\xff" * 1000, WHOLE[:700], WHOLE[:-1]])
def test_a_damaged_profile_is_a_warning_and_does_not_affect_other_sources(tmp_path: Path, content: bytes) -> None:
    session(tmp_path, "tpu").write_bytes(content)
    write(tmp_path, loss=[1])
    found = collected(tmp_path)
    assert set(values(found)) == {"loss_final"}
    assert len(found.warnings) == 1
    assert "XProf could not read the profile" in found.warnings[0]


def test_a_damaged_profile_of_one_host_is_a_warning(tmp_path: Path) -> None:
    session(tmp_path, "cpu", host="host-0")
    session(tmp_path, "cpu", host="host-1").write_bytes(b"no profile")
    assert any("XProf could not" in warning for warning in collected(tmp_path).warnings)


def test_a_reader_that_crashes_or_hangs_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session(tmp_path, "tpu")
    program = tmp_path / "reader.py"
    monkeypatch.setattr(xprof, "PROGRAM", program)
    program.write_text("import os; os.abort()")
    assert "XProf could not read the profile: it exited with -6" in collected(tmp_path).warnings[0]
    program.write_text("import time; time.sleep(60)")
    monkeypatch.setattr(xprof, "TIMEOUT_SECONDS", 0.2)
    assert "it took longer than 0.2 s" in collected(tmp_path).warnings[0]


def test_a_profile_with_too_many_bytes_is_not_copied_whole(tmp_path: Path) -> None:
    with session(tmp_path, "tpu").open("r+b") as file:
        file.truncate(1 << 40)
    found = collected(tmp_path, limits=Limits(profile_bytes=4 << 20))
    assert "its files have more than 4,194,304 bytes (setting max_profile_bytes)" in found.warnings[0]


def test_the_reader_knows_nothing_of_this_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session(tmp_path, "tpu")
    program = tmp_path / "reader.py"
    monkeypatch.setattr(xprof, "PROGRAM", program)
    monkeypatch.setenv("AIRFLOW__CORE__FERNET_KEY", "a-key")
    program.write_text("import os, sys; sys.exit(' '.join(sorted(os.environ)))")
    assert collected(tmp_path).warnings[0].endswith("HOME LC_CTYPE PATH TMPDIR")


def test_the_kernel_holds_the_memory_and_time_of_the_reader() -> None:
    code = "import runpy, resource, sys; one = runpy.run_path(sys.argv[1]); one['hold'](); "
    code += "print(*resource.getrlimit(resource.RLIMIT_AS), *resource.getrlimit(resource.RLIMIT_CPU))"
    done = subprocess.run([sys.executable, "-c", code, str(xprof.PROGRAM)], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(32 << 30)] * 2 + ["1200"] * 2
    assert "\n    hold()\n" in xprof.PROGRAM.read_text().partition("__main__")[2]


def test_without_xprof_there_is_one_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session(tmp_path, "tpu", host="host-0")
    session(tmp_path, "tpu", host="host-1")
    write(tmp_path, loss=[1])
    monkeypatch.setattr(xprof, "find_spec", lambda _: None)
    found = collected(tmp_path)
    assert set(values(found)) == {"loss_final"}
    assert len(found.warnings) == 1
    assert (
        "not installed; install the extra `profiles`: pip install 'airflow-provider-ml-metrics[profiles]'"
        in found.warnings[0]
    )
    assert collected(tmp_path, sources={"profile": False}).warnings == ()
