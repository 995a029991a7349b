"""How clients find the server: a kubeconfig, and a record of the process behind it."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

from local_kube.records import read_record, write_record


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


def write_address(root: Path, address: Address, authority: bytes) -> None:
    """Tell clients where the server is. Only the owner can read it: who has the token can start processes."""
    cluster = {
        "server": f"https://127.0.0.1:{address.port}",
        "certificate-authority-data": base64.b64encode(authority).decode(),
    }
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "local",
        "clusters": [{"name": "local", "cluster": cluster}],
        "contexts": [{"name": "local", "context": {"cluster": "local", "user": "local", "namespace": "default"}}],
        "users": [{"name": "local", "user": {"token": address.token}}],
    }
    write_record(kubeconfig_path(root), config)
    record = {"port": address.port, "pid": address.pid, "image_folder": str(address.image_folder)}
    write_record(root / "server.json", record)


def read_address(root: Path) -> Address | None:
    """Where the newest server of this root is, or was; None if there was none, or its files cannot be read."""
    try:
        record = read_record(root / "server.json")
        config = read_record(kubeconfig_path(root))
        if record is None or config is None:
            return None
        token = config["users"][0]["user"]["token"]
        return Address(int(record["port"]), str(token), int(record["pid"]), Path(record["image_folder"]))
    except (OSError, KeyError, IndexError, TypeError, ValueError):
        return None


def answers(root: Path, address: Address) -> bool:
    """Whether a server answers there, and is the one that the kubeconfig describes."""
    import ssl
    from http.client import HTTPException, HTTPSConnection

    try:
        config = read_record(kubeconfig_path(root)) or {}
        authority = base64.b64decode(config["clusters"][0]["cluster"]["certificate-authority-data"]).decode()
        trusting = ssl.create_default_context(cadata=authority)
        connection = HTTPSConnection("127.0.0.1", address.port, timeout=10, context=trusting)
    except (KeyError, IndexError, TypeError, ValueError, ssl.SSLError):
        return False
    try:
        connection.request("GET", "/readyz", headers={"Authorization": f"Bearer {address.token}"})
        return connection.getresponse().status == HTTPStatus.OK
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()
