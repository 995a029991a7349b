"""Kubeconfigs of one context."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml


def kubeconfig(cluster: dict[str, Any] | None = None, user: dict[str, Any] | None = None) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "clusters": [{"name": "k", "cluster": {"server": "https://k:6443", **(cluster or {})}}],
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u", "namespace": "n"}}],
        "users": [{"name": "u", "user": user or {"token": "the-token"}}],
    }


def written(path: Path, document: Any, mode: int = 0o600) -> Path:
    path.write_text(yaml.safe_dump(document))
    path.chmod(mode)
    return path
