"""How clients find the server: a kubeconfig, and a record of the process behind it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from ml_metrics.clusters.local.records import read_record, write_record


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server listens, and who it is."""

    port: int
    token: str
    pid: int
    image_folder: Path


def kubeconfig_path(root: Path) -> Path:
    """The kubeconfig of the cluster with this root."""
    return root / "kubeconfig"


def write_address(root: Path, address: Address) -> None:
    """Tell clients where the server is. Only the owner can read it: who has the token can start processes."""
    url = f"http://127.0.0.1:{address.port}"
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "local",
        "clusters": [{"name": "local", "cluster": {"server": url}}],
        "contexts": [{"name": "local", "context": {"cluster": "local", "user": "local", "namespace": "default"}}],
        "users": [{"name": "local", "user": {"token": address.token}}],
    }
    write_record(kubeconfig_path(root), config)
    record = {"port": address.port, "pid": address.pid, "image_folder": str(address.image_folder)}
    write_record(root / "server.json", record)


def read_address(root: Path) -> Address | None:
    """Where the newest server of this root is, or was; None if there was none, or its files are damaged."""
    try:
        record = read_record(root / "server.json")
        config = read_record(kubeconfig_path(root))
        if record is None or config is None:
            return None
        token = config["users"][0]["user"]["token"]
        return Address(int(record["port"]), str(token), int(record["pid"]), Path(record["image_folder"]))
    except (json.JSONDecodeError, KeyError, IndexError, TypeError, ValueError):
        return None
