"""The kubeconfig with which clients find the server, and a record of the server's process."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

from local_kube.json_files import read_json, replace_file, write_json

TIMEOUT_SECONDS = 10


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server listens, and its process."""

    port: int
    token: str
    pid: int
    image_folder: Path
    confined: bool
    """Whether the kernel keeps containers to what they may reach."""


def kubeconfig_path(root: Path) -> Path:
    """Return the kubeconfig of the cluster with this root."""
    return root / "kubeconfig"


def write_address(root: Path, address: Address, authority: bytes) -> None:
    """Write the kubeconfig. Only the owner can read it, because a client with the token can start processes."""
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
    write_json(kubeconfig_path(root), config)
    record = {
        "port": address.port,
        "pid": address.pid,
        "image_folder": str(address.image_folder),
        "confined": address.confined,
    }
    write_json(root / "server.json", record)


def copy_kubeconfig(root: Path, copy: Path) -> None:
    """Copy the kubeconfig to where other users of our group find it, who may read it and not change it."""
    replace_file(copy, kubeconfig_path(root).read_bytes(), mode=0o640)


def read_address(root: Path) -> Address | None:
    """Return the address of the last server of this root; None if there was none, or its files cannot be read."""
    try:
        record = read_json(root / "server.json")
        config = read_json(kubeconfig_path(root))
        if record is None or config is None:
            return None
        token = config["users"][0]["user"]["token"]
        confined = bool(record.get("confined"))
        return Address(int(record["port"]), str(token), int(record["pid"]), Path(record["image_folder"]), confined)
    except (OSError, KeyError, IndexError, TypeError, ValueError):
        return None


def responds(root: Path, address: Address) -> bool:
    """Return whether the server that the kubeconfig describes responds at an address."""
    import ssl
    from http.client import HTTPException, HTTPSConnection

    try:
        config = read_json(kubeconfig_path(root)) or {}
        authority = base64.b64decode(config["clusters"][0]["cluster"]["certificate-authority-data"]).decode()
        context = ssl.create_default_context(cadata=authority)
        connection = HTTPSConnection("127.0.0.1", address.port, timeout=TIMEOUT_SECONDS, context=context)
    except (KeyError, IndexError, TypeError, ValueError, ssl.SSLError):
        return False
    try:
        connection.request("GET", "/readyz", headers={"Authorization": f"Bearer {address.token}"})
        return connection.getresponse().status == HTTPStatus.OK
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()
