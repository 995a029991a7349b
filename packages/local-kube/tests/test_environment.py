"""Variables, `$(VAR)`, field references and mounts, as functions and in real pods."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from local_kube.pods.environment import Mounts, expand

if TYPE_CHECKING:
    from harness import Pods

MOUNTS = Mounts({"/data": Path("/pod/v/data"), "/data/deep": Path("/pod/v/deep"), "/airflow/xcom": Path("/pod/v/x")})


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("$(A)", "1"),
        ("x$(A)y$(B)z", "x1y2z"),
        ("$(GHOST)", "$(GHOST)"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$1"),
        ("$A ${A} $", "$A ${A} $"),
        ("$(A", "$(A"),
        ("$(A))", "1)"),
        ("$()", "$()"),
    ],
)
def test_variables_are_expanded_as_in_kubernetes(text: str, expanded: str) -> None:
    assert expand(text, {"A": "1", "B": "2"}) == expanded


@given(st.text(alphabet=st.characters(exclude_characters="$")))
def test_text_without_a_dollar_does_not_change(text: str) -> None:
    assert expand(text, {"A": "1"}) == text


@given(st.text())
def test_doubled_dollars_escape_any_text(text: str) -> None:
    assert expand(text.replace("$", "$$"), {"A": "1"}) == text


@pytest.mark.parametrize(
    ("text", "translated"),
    [
        ("/data", "/pod/v/data"),
        ("--out=/data/x", "--out=/pod/v/data/x"),
        ("echo 1 > /airflow/xcom/return.json", "echo 1 > /pod/v/x/return.json"),
        ("/data/deep/x:/data", "/pod/v/deep/x:/pod/v/data"),
        ("/database /my/data ./data data/ /data-set /data.txt", "/database /my/data ./data data/ /data-set /data.txt"),
        ("'/data' \"/data\"", "'/pod/v/data' \"/pod/v/data\""),
        ("gs://bucket/data", "gs://bucket/data"),
    ],
)
def test_only_whole_mounted_paths_are_translated(text: str, translated: str) -> None:
    assert MOUNTS.translate(text) == translated


def test_a_pod_sees_its_variables(pods: Pods) -> None:
    field = {"fieldRef": {"fieldPath": "metadata.name"}}
    label = {"fieldRef": {"fieldPath": "metadata.labels['test']"}}
    limit = {"resourceFieldRef": {"resource": "limits.memory"}}
    name = pods.create(
        *("sh", "-c", "echo $(B) $C $NAME $LABEL $LIMIT $HOSTNAME $LATER"),
        args=["$(A)"],
        env=[
            {"name": "A", "value": "1"},
            {"name": "B", "value": "$(A)2"},
            {"name": "C", "value": "$(LATER)"},
            {"name": "LATER", "value": "x"},
            {"name": "NAME", "valueFrom": field},
            {"name": "LABEL", "valueFrom": label},
            {"name": "LIMIT", "valueFrom": limit},
        ],
        resources={"limits": {"memory": "1Gi"}},
    )
    pods.ended(name)
    assert pods.log(name) == f"12 $(LATER) {name} yes 1Gi {name} x\n"


def test_volumes_are_shared_by_the_containers_of_a_pod(pods: Pods, tmp_path: Path) -> None:
    mounts = [{"name": "scratch", "mountPath": "/scratch/"}, {"name": "host", "mountPath": "/host"}]
    script = "while [ ! -e /scratch/ready ]; do sleep 0.05; done; cp /scratch/ready /host/copied"
    reader = {"name": "reader", "image": "x", "command": ["sh", "-c", script], "volumeMounts": mounts}
    writer = {"name": "writer", "image": "x", "command": ["sh", "-c", "echo hi > $(PLACE)"], "volumeMounts": mounts}
    writer["env"] = [{"name": "PLACE", "value": "/scratch/ready"}]  # type: ignore[assignment]
    volumes = [{"name": "scratch", "emptyDir": {}}, {"name": "host", "hostPath": {"path": str(tmp_path / "new")}}]
    pod = pods.run("true", spec={"containers": [reader, writer], "volumes": volumes})
    assert pod.status.phase == "Succeeded"
    assert (tmp_path / "new" / "copied").read_text() == "hi\n"


def test_a_variable_holds_the_real_path_of_a_volume(pods: Pods) -> None:
    name = pods.create(
        *("sh", "-c", "echo x > $LOCAL_KUBE_MOUNT_MY_DATA/file; cat /my-data/file"),
        volumeMounts=[{"name": "my-data", "mountPath": "/my-data"}],
        spec={"volumes": [{"name": "my-data", "emptyDir": {}}]},
    )
    assert pods.ended(name).status.phase == "Succeeded"
    assert pods.log(name) == "x\n"


@pytest.mark.parametrize(
    ("folder", "ends"), [("/tmp", "/tmp"), ("/no/such/app", "/base"), ("sub/folder", "/sub/folder")]
)
def test_the_working_folder(pods: Pods, folder: str, ends: str) -> None:
    name = pods.create("pwd", workingDir=folder)
    assert pods.ended(name).status.phase == "Succeeded"
    assert pods.log(name).rstrip("\n").endswith(ends)


def test_python_is_that_of_the_server(pods: Pods) -> None:
    name = pods.create("python", "-c", "import kubernetes, sys; print(sys.prefix != sys.base_prefix)")
    assert pods.ended(name).status.phase == "Succeeded"
