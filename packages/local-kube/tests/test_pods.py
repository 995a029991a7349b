"""The status of a pod, for each way in which its process can end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from harness import Pods


def test_exit_code_0_succeeds(pods: Pods) -> None:
    pod = pods.run("true")
    assert pod.status.phase == "Succeeded"
    ended = pods.terminated(pod)
    assert (ended.exit_code, ended.reason) == (0, "Completed")
    assert ended.started_at is not None
    assert ended.started_at <= ended.finished_at


@pytest.mark.parametrize(
    ("script", "code"), [("exit 3", 3), ("exit 255", 255), ("kill -9 $$$$", 137), ("kill $$$$", 143)]
)
def test_an_exit_code_or_a_signal_fails_the_pod(pods: Pods, script: str, code: int) -> None:
    pod = pods.run("sh", "-c", script)
    assert pod.status.phase == "Failed"
    assert (pods.terminated(pod).exit_code, pods.terminated(pod).reason) == (code, "Error")


@pytest.mark.parametrize("argv", [["no-such-program"], ["/"], []])
def test_a_start_error_has_a_message(pods: Pods, argv: list[str]) -> None:
    pod = pods.run(*argv)
    ended = pods.terminated(pod)
    assert (pod.status.phase, ended.exit_code, ended.reason) == ("Failed", 128, "StartError")
    assert ended.message


def test_a_file_of_the_image_folder_is_found_in_the_working_folder(pods: Pods) -> None:
    name = pods.create("python3", "include/hello.py", "world")
    assert pods.ended(name).status.phase == "Succeeded"
    assert pods.log(name) == "hello world\n"


def test_a_pod_cannot_change_the_image_folder(pods: Pods, image_folder: Path) -> None:
    pods.run("sh", "-c", "echo x > mine.txt; rm -r include")
    assert [entry.name for entry in image_folder.iterdir()] == ["include"]


@pytest.mark.parametrize(("image", "image_id"), [("python:3.11", ""), (DIGEST := f"team/x@sha256:{'a' * 64}", DIGEST)])
def test_only_an_image_that_names_its_digest_has_an_id(pods: Pods, image: str, image_id: str) -> None:
    pod = pods.ended(pods.create("true", image=image))
    assert [one.image_id for one in pod.status.container_statuses] == [image_id]


def test_the_deadline_ends_the_pod(pods: Pods) -> None:
    pod = pods.run("sleep", "600", spec={"activeDeadlineSeconds": 1})
    assert (pod.status.phase, pod.status.reason) == ("Failed", "DeadlineExceeded")
    assert pods.terminated(pod).exit_code == 143


def test_peak_memory_is_annotated(pods: Pods) -> None:
    pod = pods.run("python3", "-c", "import time; x = b'x' * 100_000_000; time.sleep(0.3)")
    peak = int(pod.metadata.annotations["local-kube/peak-memory-bytes.base"])
    assert 100_000_000 < peak < 200_000_000
