from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kubeconfigs import kubeconfig, written
from ml_metrics import ConfigError
from ml_metrics.airflow.operators.cluster import kubeconfig_file, kubeconfig_text


def test_data_is_kept_and_the_rest_is_not(tmp_path: Path) -> None:
    document = kubeconfig(
        {"certificate-authority-data": "Q0E=", "extensions": [{"name": "x"}]}, {"token": "t", "as": "admin"}
    )
    document["users"].append({"name": "other", "user": {"exec": {"command": "evil"}}})
    kept = kubeconfig_file(written(tmp_path / "k", document))
    assert kept["clusters"][0]["cluster"] == {"server": "https://k:6443", "certificate-authority-data": "Q0E="}
    assert [user["user"] for user in kept["users"]] == [{"token": "t"}], "another context's program is never seen"
    assert kept["contexts"][0]["context"]["namespace"] == "n"


@pytest.mark.parametrize(
    ("cluster", "user"),
    [
        ({}, {"exec": {"command": "touch"}}),
        ({}, {"auth-provider": {"config": {"cmd-path": "touch"}}}),
        ({}, {"tokenFile": "/etc/shadow"}),
        ({}, {"client-certificate": "/etc/shadow"}),
        ({}, {"client-key": "/etc/shadow"}),
        ({"certificate-authority": "/etc/shadow"}, {}),
    ],
)
def test_programs_and_files_need_a_setting(cluster: dict[str, Any], user: dict[str, Any], tmp_path: Path) -> None:
    path = written(tmp_path / "k", kubeconfig(cluster, user))
    with pytest.raises(ConfigError, match="kubeconfig_programs = yes"):
        kubeconfig_file(path)
    with pytest.raises(ConfigError, match="kubeconfig_programs = yes"):
        kubeconfig_text(json.dumps(kubeconfig(cluster, user)), "connection `x`")
    kept = kubeconfig_file(path, programs=True)
    assert {**kept["clusters"][0]["cluster"], **kept["users"][0]["user"]}.items() >= {**cluster, **user}.items()


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_others_could_have_written_it(mode: int, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="chmod go-w"):
        kubeconfig_file(written(tmp_path / "k", kubeconfig(), mode))


def test_another_user_owns_it(tmp_path: Path, become_somebody: Callable[[], None]) -> None:
    path = written(tmp_path / "k", kubeconfig(), 0o644)
    if os.geteuid() == 0:
        os.chown(path, 12345, -1)
    else:
        pytest.skip("only root can give a file away")
    become_somebody()
    with pytest.raises(ConfigError, match="belongs to the user 12345"):
        kubeconfig_file(path)


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "k", 0o600)
    with pytest.raises(ConfigError, match="is not a file"):
        kubeconfig_file(tmp_path / "k")


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "{",
        "a: &a [*a]",
        "{contexts: 3, current-context: c}",
        "\0",
        "x" * 10,
        "{current-context: [1]}",
        "- " * 500,
    ],
)
def test_nonsense_is_an_error_without_its_content(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^where: ") as error:
        kubeconfig_text(text, "where")
    assert "xxx" not in str(error.value)


@pytest.mark.parametrize("server", ["http://k:8080", "file:///etc/passwd", "", "unix:///x"])
def test_a_token_is_sent_over_tls_only(server: str) -> None:
    with pytest.raises(ConfigError, match="https"):
        kubeconfig_text(kubeconfig({"server": server}), "where")
    assert kubeconfig_text(kubeconfig({"server": "http://127.0.0.1:8001"}), "where")


def test_a_value_of_another_type_is_refused() -> None:
    with pytest.raises(ConfigError, match="'token'"):
        kubeconfig_text(kubeconfig(user={"token": {"exec": 1}}), "where")


@pytest.mark.parametrize("place", ["clusters", "contexts", "users"])
def test_an_entry_that_is_no_mapping_is_refused_or_has_no_credentials(place: str) -> None:
    damaged = kubeconfig()
    damaged[place][0][place.removesuffix("s")] = "text"
    if place == "users":
        assert "token" not in str(kubeconfig_text(damaged, "where"))
    else:
        with pytest.raises(ConfigError, match=f"^where: the kubeconfig has no {place.removesuffix('s')}"):
            kubeconfig_text(damaged, "where")
