"""What a test file says about its pod, beyond image and command."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, model_validator

from ml_metrics.spec.strict import Strict

QUANTITY = r"^([0-9]+(\.[0-9]+)?|\.[0-9]+)(m|k|Ki|M|Mi|G|Gi|T|Ti|P|Pi|E|Ei)?$"
ENV_NAME = r"^[A-Za-z_][A-Za-z0-9_.-]*$"


def as_text(value: Any) -> Any:
    """Numbers and booleans in `env`, `args` and the like, written as Kubernetes wants them: as text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else value


Text = Annotated[str, BeforeValidator(as_text)]
"""Text; a number or boolean is written out."""
Quantity = Annotated[str, BeforeValidator(as_text), Field(pattern=QUANTITY)]
"""An amount as Kubernetes writes it: `2`, `500m`, `16Gi`."""
EnvName = Annotated[str, Field(pattern=ENV_NAME)]


class Resources(Strict):
    """What the container asks for; its limits are the same unless `limits` says otherwise."""

    cpu: Quantity | None = None
    memory: Quantity | None = None
    ephemeral_storage: Quantity | None = None
    limits: dict[str, Quantity] = Field(default_factory=dict)
    """Limits that differ from what is asked for, by Kubernetes' names: `{memory: 32Gi}`."""


class Cluster(Strict):
    """A GKE cluster of one's own."""

    project: str
    location: str
    name: str


class SecretKey(Strict):
    """One value of a Kubernetes secret."""

    secret: str
    key: str


def _secret_key(value: Any) -> Any:
    """`my-secret/api-key` says it, too."""
    if isinstance(value, str) and value.count("/") == 1:
        secret, key = value.split("/")
        return {"secret": secret, "key": key}
    return value


Secrets = dict[EnvName, Annotated[SecretKey, BeforeValidator(_secret_key)]]


class Volume(Strict):
    """What is mounted at a path. Exactly one of the sources is given."""

    claim: str | None = None
    """A persistent volume claim."""
    config_map: str | None = None
    secret: str | None = None
    host_path: str | None = None
    bucket: str | None = None
    """A Cloud Storage bucket, through GKE's Cloud Storage FUSE driver."""
    memory: Quantity | None = None
    """A file system in memory of this size; mount it at `/dev/shm` for data loaders."""
    scratch: Quantity | None = None
    """An empty folder on the node's disk of this size, gone with the pod."""
    read_only: bool = False

    @model_validator(mode="after")
    def one_source(self) -> Self:
        """Two sources at one path would hide one of them."""
        given = self._given()
        if len(given) != 1:
            what = " and ".join(given) if given else "none"
            known = [name for name in type(self).model_fields if name != "read_only"]
            raise ValueError(f"give exactly one source, not {what}; one of {', '.join(known)}")
        return self

    @property
    def kind(self) -> str:
        """Which of the sources is given."""
        return self._given()[0]

    def _given(self) -> list[str]:
        return [name for name, value in self if name != "read_only" and value is not None]
