"""Files that programs write by path, in a folder and in a bucket."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import fsspec
import pytest

import ml_metrics_telemetry as telemetry
from ml_metrics_telemetry import local_files
from ml_metrics_telemetry.uploads import Uploads

PROGRAM = """
import sys, time
from ml_metrics_telemetry import local_folder

folder = local_folder()
assert local_folder() == folder
(folder / "train").mkdir()
with (folder / "train" / "events").open("w") as events:
    events.write("first")
    events.flush()
    print(folder, flush=True)
    sys.stdin.readline()
    events.write(" second")
    events.flush()
    if sys.argv[1] == "killed":
        print("written", flush=True)
        time.sleep(60)
"""


def test_a_path_is_the_folder_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ML_METRICS_RUN_DIR", f"{tmp_path}/run")
    assert telemetry.local_folder() == tmp_path / "run"
    monkeypatch.setenv("MODEL_DIR", f"file://{tmp_path}/attempt")
    assert telemetry.local_folder() == tmp_path / "attempt"
    assert telemetry.local_folder(tmp_path / "own").is_dir()


def test_a_folder_that_is_not_known_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MODEL_DIR", "ML_METRICS_RUN_DIR"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ValueError, match="set MODEL_DIR"):
        telemetry.local_folder()
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(ModuleNotFoundError, match=r"gs://my-bucket/run: .* install fsspec"):
        local_files.local_folder("gs://my-bucket/run")


@pytest.mark.parametrize("how", ["ends", "killed"])
def test_files_reach_the_bucket_while_the_program_runs_and_when_it_has_ended(
    how: str, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MODEL_DIR", bucket)
    monkeypatch.setenv("PYTHONPATH", str(Path(telemetry.__file__).parents[1]))
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, how], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert program.stdin is not None
    assert program.stdout is not None
    with program:
        folder = Path(program.stdout.readline().strip())
        wait_for(f"{bucket}/train/events", b"first")
        print(file=program.stdin, flush=True)
        if how == "killed":
            assert program.stdout.readline() == "written\n"
            program.kill()
        assert program.wait(300) == (-signal.SIGKILL if how == "killed" else 0)
    if how == "ends":
        assert read(f"{bucket}/train/events") == b"first second", "the program waits until its files are uploaded"
    wait_for(f"{bucket}/train/events", b"first second")
    deadline = time.monotonic() + 60
    while folder.exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not folder.exists()


def test_a_file_is_uploaded_when_it_has_changed_and_again_after_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    memory = fsspec.filesystem("memory")
    copied: list[str] = []
    is_away = [True]

    def put(source: str, target: str, **_: Any) -> None:
        copied.append(target)
        if is_away[0]:
            raise OSError("no answer")
        memory.pipe_file(target, Path(source).read_bytes())

    monkeypatch.setattr(memory, "put_file", put)
    (tmp_path / "one").write_text("1")
    (tmp_path / "secret").symlink_to("/etc/hostname")
    uploads = Uploads(str(tmp_path), "memory://files/run/")
    assert not uploads.upload()
    assert capsys.readouterr().err == "memory://files/run/one: OSError: no answer\n"
    is_away.clear()
    is_away.append(False)
    for _ in range(2):
        assert uploads.upload(everything=True)
    assert copied == 2 * ["memory://files/run/one"]
    (tmp_path / "one").write_text("12")
    assert uploads.upload(everything=True)
    assert memory.cat_file("memory://files/run/one") == b"12"


def read(url: str) -> bytes | None:
    filesystem, path = fsspec.core.url_to_fs(url, use_listings_cache=False)
    filesystem.invalidate_cache()
    try:
        found: bytes = filesystem.cat_file(path)
    except FileNotFoundError:
        return None
    return found


def wait_for(url: str, content: bytes) -> None:
    deadline = time.monotonic() + 60
    while read(url) != content:
        assert time.monotonic() < deadline, read(url)
        time.sleep(0.1)
