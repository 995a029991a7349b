"""The keys of a test file about its pod, besides image and command."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from ml_metrics.config.naming import as_label
from ml_metrics.config.problems import Found, Where
from ml_metrics.config.strict import OneOf, Strict, checked, matching
from ml_metrics.config.templates import is_template
from ml_metrics.core.model import WORKLOAD_CONTAINER
from ml_metrics.core.text import did_you_mean

if TYPE_CHECKING:
    from ml_metrics.config.definition import TestDefinition


_SET_ELSEWHERE = {
    "metadata.name": "a pod is named after its test",
    "metadata.namespace": "set `namespace` of the test",
    "spec.restartPolicy": "a workload that failed is started again by `retries`, in a new pod",
}


def as_text(value: Any) -> Any:
    """Kubernetes requires text in `env`, `args` and the like."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else value


def _check_label_value(text: str) -> None:
    if not re.fullmatch(r"(?:[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?", text):
        near = as_label(text)
        raise ValueError(
            f"{text!r} is not a label value: use up to 63 letters, digits, '-', '_' and '.'; did you mean {near!r}?"
        )


def _check_mount_path(text: str) -> None:
    if not text.startswith("/") or ":" in text:
        raise ValueError(
            f"{text!r} is not an absolute path in the container; did you mean '/{text.lstrip('/').replace(':', '')}'?"
        )


def _check_override(pod: dict[str, Any]) -> None:
    for key, part in pod.items():
        if key not in {"metadata", "spec"}:
            raise ValueError(f"a pod has `metadata` and `spec`, not {key!r}; did you mean `spec: {{{key}: ...}}`?")
        if not isinstance(part, dict):
            raise ValueError(f"{key} should be a mapping")  # noqa: TRY004  (pydantic shows ValueErrors)
    for path, instead in _SET_ELSEWHERE.items():
        part, _, key = path.partition(".")
        if key in pod.get(part, {}):
            raise ValueError(f"{path} has no effect here: {instead}")
    for container in pod.get("spec", {}).get("containers") or []:
        if not isinstance(container, dict) or not container.get("name"):
            what = "each container under spec.containers needs a name; the workload's is"
            raise ValueError(f"{what} {WORKLOAD_CONTAINER!r}")
        for key in ("image", "command", "args"):
            if container["name"] == WORKLOAD_CONTAINER and key in container:
                raise ValueError(f"{key!r} of the workload's container is set by the test: write `{key}: ...` there")


Text = Annotated[str, BeforeValidator(as_text)]
"""Text; numbers and booleans are converted."""
Quantity = Annotated[
    str,
    BeforeValidator(as_text),
    matching(
        r"([0-9]+(\.[0-9]+)?|\.[0-9]+)(m|k|Ki|M|Mi|G|Gi|T|Ti|P|Pi|E|Ei)?", "a Kubernetes quantity like 2, 500m or 16Gi"
    ),
]
EnvName = Annotated[
    str,
    matching(r"[A-Za-z_][A-Za-z0-9_.-]*", "a variable name: use letters, digits, '_', '-' and '.', and no digit first"),
]
LabelValue = Annotated[str, BeforeValidator(as_text), checked(_check_label_value)]
MountPath = Annotated[str, checked(_check_mount_path)]
PodOverride = Annotated[dict[str, Any], checked(_check_override)]


class Resources(Strict):
    """The resources that the container requests. Its limits are the same, unless `limits` changes them."""

    cpu: Quantity | None = None
    """CPU cores."""
    memory: Quantity | None = None
    """Memory."""
    ephemeral_storage: Quantity | None = None
    """Space on the disk of the node."""
    limits: dict[str, Quantity] = Field(default_factory=dict)
    """Limits that differ from the requests, by their Kubernetes names: `{memory: 32Gi}`."""


class Cluster(Strict):
    """A GKE cluster of your own, or the name of a cluster in the setting `clusters`."""

    project: str | None = None
    """The Google Cloud project of a GKE cluster."""
    location: str | None = None
    """The region or zone of a GKE cluster."""
    name: str
    """The name of the cluster. Without project and location, one of the setting `clusters`; `cluster: tests` is short
    for that."""

    @model_validator(mode="after")
    def whole_address(self) -> Self:
        if (self.project is None) != (self.location is None):
            missing = "project" if self.project is None else "location"
            raise ValueError(f"{missing!r} is missing: give `project` and `location`, or the name of a cluster alone")
        return self

    @property
    def address(self) -> str:
        """The cluster in messages and in policies."""
        return f"{self.project}/{self.location}/{self.name}" if self.project else self.name


ClusterOfTest = Annotated[Cluster, BeforeValidator(lambda given: {"name": given} if isinstance(given, str) else given)]


class JobSet(Strict):
    """Several Jobs of `hosts` pods each that run together, such as the slices of a TPU multislice."""

    slices: int = Field(ge=1, le=1024)
    """The number of Jobs."""
    restarts: int = Field(0, ge=0, le=100)
    """How often all Jobs start again after a failure, within one attempt and its `timeout`."""
    exclusive: Annotated[str, Field(max_length=316)] | None = None
    """A label: nodes with one value run pods of one Job only."""
    success: Literal["all", "any"] = "all"
    """Whether `all` Jobs must succeed, or `any`; the others then end."""


class SecretKey(Strict):
    """One value of a Kubernetes secret."""

    secret: str
    """The name of the secret."""
    key: str
    """The key in it."""


def _secret_key(value: Any) -> Any:
    """Accept the short form `my-secret/api-key`."""
    if not isinstance(value, str):
        return value
    secret, slash, key = value.partition("/")
    if not (secret and slash and key):
        raise ValueError(f"{value!r} is not a reference to a secret; write its name and key, like my-secret/api-key")
    return {"secret": secret, "key": key}


Secrets = dict[EnvName, Annotated[SecretKey, BeforeValidator(_secret_key)]]


class Volume(OneOf):
    """A volume that is mounted at a path. Exactly one source is given."""

    noun = "source"
    modifiers = frozenset({"read_only"})

    claim: str | None = None
    """A persistent volume claim."""
    config_map: str | None = None
    """A config map; each entry becomes a file."""
    secret: str | None = None
    """A secret; each entry becomes a file."""
    host_path: str | None = None
    """A folder on the node."""
    bucket: str | None = None
    """A Cloud Storage bucket, mounted by GKE's Cloud Storage FUSE driver."""
    memory: Quantity | None = None
    """A file system of this size in memory, for data loaders at `/dev/shm`."""
    scratch: Quantity | None = None
    """An empty folder of this size on the node, deleted with the pod."""
    read_only: bool = False
    """Whether it is read-only."""


MODELS = {"pod": "V1PodTemplateSpec", "init_containers": "list[V1Container]", "tolerations": "list[V1Toleration]"}
"""The keys of a test whose values are parts of a pod, with their models."""
METRIC_CONFIG = "METRIC_CONFIG"
"""The variable in which the older system's container `publisher` had conditions, for Pub/Sub."""


def unknown_in(test: TestDefinition) -> Iterator[Found]:
    """Everything in the pod that Kubernetes' own client does not know, and leaves out, or that nothing would read."""
    for key in ("env", "init_containers", "pod"):
        if METRIC_CONFIG in str(getattr(test, key)):
            what = "`metric_collection_config` and `regression_test_config` of this file replace it, and Pub/Sub"
            yield (key,), f"nothing reads {METRIC_CONFIG}: remove it; {what}"
    for key, model in MODELS.items():
        if value := getattr(test, key):
            yield from _unknown(value, model, (key,))


def _unknown(value: Any, model: str, where: Where) -> Iterator[Found]:
    if value is None or (isinstance(value, str) and is_template(value)):
        return  # null removes what the test states; what a template makes is text
    if of_list := re.fullmatch(r"list\[(.+)\]", model):
        if isinstance(value, list | tuple):
            for number, item in enumerate(value):
                yield from _unknown(item, of_list[1], (*where, number))
        else:
            yield where, "should be a list"
        return
    of_mapping, keys = re.fullmatch(r"dict[\[(]str, (.+)[\])]", model), _keys_of(model)
    if not of_mapping and keys is None:
        return  # a single value, or one of any kind
    if not isinstance(value, dict):
        yield where, "should be a mapping"
        return
    for key, item in value.items():
        inner = of_mapping[1] if of_mapping else (keys or {}).get(key)
        if inner is None:
            yield (*where, key), f"Kubernetes has no such key here{did_you_mean(str(key), keys or ())}"
        else:
            yield from _unknown(item, inner, (*where, key))


@cache
def _keys_of(model: str) -> dict[str, str] | None:
    """With the models of their values; None for a single value."""
    if not model[0].isupper():
        return None
    # by name: only a test that states a part of its pod pays for the import
    found = getattr(import_module("kubernetes.client.models"), model)
    return {found.attribute_map[name]: inner for name, inner in found.openapi_types.items()}
