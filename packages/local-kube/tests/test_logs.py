"""Logs, with each of their options."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from kubernetes.client import ApiException

from harness import NAMESPACE, wait_for

if TYPE_CHECKING:
    from harness import Pods


def test_a_log_is_followed_until_the_container_ends(pods: Pods) -> None:
    name = pods.create("sh", "-c", "echo first; while [ ! -e go ]; do sleep 0.05; done; echo second")
    pods.until(name, "Running")
    response = pods.core.read_namespaced_pod_log(name, NAMESPACE, follow=True, _preload_content=False)
    lines = iter(response)
    assert next(lines) == b"first\n"
    next(pods.root.glob(f"pods/{pods.get(name).metadata.uid}/files/base")).joinpath("go").touch()
    assert list(lines) == [b"second\n"]
    state = pods.terminated(pods.get(name))
    assert state is not None, "clients read the status when a log ends"


def test_standard_error_is_part_of_the_log(pods: Pods) -> None:
    name = pods.create("sh", "-c", "echo out; echo err >&2")
    pods.ended(name)
    assert pods.log(name) == "out\nerr\n"


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"tail_lines": 2}, "4\n5\n"),
        ({"tail_lines": 0}, ""),
        ({"tail_lines": 99}, "1\n2\n3\n4\n5\n"),
        ({"limit_bytes": 5}, "1\n2\n3"),
        ({"since_seconds": 3600}, "1\n2\n3\n4\n5\n"),
    ],
)
def test_a_part_of_a_log(pods: Pods, options: dict[str, int], text: str) -> None:
    name = pods.create("seq", "5")
    pods.ended(name)
    assert pods.log(name, **options) == text


def test_since_leaves_out_older_lines(pods: Pods) -> None:
    name = pods.create("sh", "-c", "echo old; sleep 2; echo new")
    pods.ended(name)
    stamped = pods.log(name, timestamps=True).splitlines()
    new = stamped[1].split(" ")[0]
    query = f"/api/v1/namespaces/{NAMESPACE}/pods/{name}/log"
    answer = pods.core.api_client.call_api(
        query, "GET", query_params=[("sinceTime", new)], auth_settings=["BearerToken"], _preload_content=False
    )
    assert answer.data == b"new\n"


def test_each_line_has_its_timestamp(pods: Pods) -> None:
    name = pods.create("sh", "-c", "echo a; echo b")
    pods.ended(name)
    times, lines = zip(*(line.split(" ", 1) for line in pods.log(name, timestamps=True).splitlines()), strict=True)
    assert lines == ("a", "b")
    assert list(times) == sorted(times)
    assert all(time.endswith("Z") and len(time) == len("2026-11-21T09:00:00.123456789Z") for time in times)


def test_logs_are_binary_safe(pods: Pods) -> None:
    script = "import os; os.write(1, bytes(range(256)) * 300 + b'\\n' + b'x' * 100_000 + b'\\nno end')"
    name = pods.create("python3", "-c", script)
    pods.ended(name)
    response = pods.core.read_namespaced_pod_log(name, NAMESPACE, _preload_content=False)
    assert response.data == bytes(range(256)) * 300 + b"\n" + b"x" * 100_000 + b"\nno end"


def test_a_large_log_is_complete(pods: Pods) -> None:
    name = pods.create("seq", "200000")
    pods.ended(name)
    assert pods.log(name).split() == [str(number) for number in range(1, 200_001)]


def test_the_log_of_the_previous_attempt(pods: Pods) -> None:
    script = "echo $HOSTNAME; test -e /data/again && sleep 60; touch /data/again; exit 1"
    volume = {"volumes": [{"name": "data", "emptyDir": {}}]}
    name = pods.create(
        *("sh", "-c", script),
        spec={"restartPolicy": "OnFailure", **volume},
        volumeMounts=[{"name": "data", "mountPath": "/data"}],
    )
    wait_for(lambda: pods.get(name).status.container_statuses[0].restart_count == 1)
    wait_for(lambda: pods.log(name))
    assert pods.log(name, previous=True) == pods.log(name) == f"{name}\n"
    pods.delete(name)


def test_a_missing_log_is_an_error_with_the_reason(pods: Pods) -> None:
    name = pods.create("true", image="registry.invalid/x")
    with pytest.raises(ApiException, match="is waiting to start"):
        pods.log(name)
    with pytest.raises(ApiException, match="container unknown is not valid"):
        pods.log(name, container="unknown")
    with pytest.raises(ApiException, match="previous terminated container"):
        pods.log(name, previous=True)
    pods.delete(name)
