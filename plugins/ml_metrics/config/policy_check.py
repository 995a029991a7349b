"""What a policy refuses in a test, by the keys of its file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from ml_metrics.config.airflow_namespace import beside_airflow
from ml_metrics.config.pod_security import DEFAULT_ACCOUNT, TOKEN, PodRules, is_at_most, uses_default_account
from ml_metrics.config.templates import TEMPLATED, is_template, rendered, template_problem
from ml_metrics.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ml_metrics.config.definition import TestDefinition
    from ml_metrics.config.document import Where
    from ml_metrics.config.pod_security import Found
    from ml_metrics.config.policy import Policy

DEADLINE = "activeDeadlineSeconds"
KUBERNETES_NAMES = {
    "claim": "persistentVolumeClaim",
    "config_map": "configMap",
    "secret": "secret",
    "host_path": "hostPath",
    "bucket": "csi",
    "memory": "emptyDir",
    "scratch": "emptyDir",
}


def refused_in(test: TestDefinition, policy: Policy, namespace: str | None = None) -> Iterator[Found]:
    """Yield the place and the reason of everything in a test that the policy refuses.

    `namespace` is that of its pods, None if it is unknown. It is checked in each run, before the cluster gets the pod,
    and so is what a template makes.
    """
    rules = PodRules(policy.in_namespace(namespace), final=False)
    if refused := refused_namespace(namespace, policy):
        yield ("namespace",), refused
    yield from _names(test, rules)
    yield from _image(test, rules)
    yield from _volumes(test, rules)
    yield from _pod(test, rules)
    for number, address in enumerate(test.emails):
        yield from rules.listed("recipients", address, ("emails", number))
    for number, word in enumerate(test.by_hand):
        if policy.by_hand is not None and word not in policy.by_hand:
            yield ("by_hand", number), f"{word!r} is not in `by_hand` of the policy"
    if test.sender:
        yield from rules.listed("senders", test.sender, ("sender",))


def refused_namespace(namespace: str | None, policy: Policy) -> str:
    """Return why no workload starts in a namespace; empty if workloads may."""
    here = policy.in_namespace(namespace)
    if namespace is None or here is policy or here.allows("namespaces", namespace):
        return ""
    return beside_airflow(namespace)


def templates_in(test: TestDefinition) -> Iterator[Found]:
    """Yield the place and the reason of every template that a run could not fill in."""
    for key in [key for key in TEMPLATED if key in test.model_fields_set]:
        for where, text in _templates(getattr(test, key), (key,)):
            if problem := template_problem(text):
                yield where, problem
    if test.namespace and is_template(test.namespace):
        yield ("namespace",), f"{test.namespace!r} has a template, but a namespace is taken as it is"


def _names(test: TestDefinition, rules: PodRules) -> Iterator[Found]:
    named = {"namespaces": "namespace", "service_accounts": "service_account", "priority_classes": "priority_class"}
    for kind, key in named.items():
        if value := getattr(test, key):
            yield from rules.listed(kind, value, (key,))
    for name, secret in test.secrets.items():
        yield from rules.listed("secrets", secret.secret, ("secrets", name))
    for number, name in enumerate(test.image_pull_secrets):
        yield from rules.listed("secrets", name, ("image_pull_secrets", number))
    if test.cluster is not None:
        yield from rules.listed("clusters", test.cluster.address, ("cluster",))
    for where, what in rules.of_labels(test.labels):
        yield ("labels", *where), what


def _image(test: TestDefinition, rules: PodRules) -> Iterator[Found]:
    image = test.image
    if is_template(image):
        try:
            image = rendered(image, {"params": {name: one.default for name, one in test.params.items()}}, "image")
        except ConfigError:
            return  # it needs what only a run has
    yield from rules.listed("images", image, ("image",))


def _volumes(test: TestDefinition, rules: PodRules) -> Iterator[Found]:
    for path, volume in test.volumes.items():
        if rules.policy.volumes is not None:
            yield from rules.listed("volumes", KUBERNETES_NAMES[volume.kind], ("volumes", path, volume.kind))
        if volume.host_path is not None:
            yield from rules.of_host_path(volume.host_path, ("volumes", path, "host_path"))
        if volume.secret is not None:
            yield from rules.listed("secrets", volume.secret, ("volumes", path, "secret"))


def _pod(test: TestDefinition, rules: PodRules) -> Iterator[Found]:
    if test.init_containers:
        prefix = ("spec", "initContainers")
        part = {"metadata": {"annotations": test.annotations}, "spec": {"initContainers": test.init_containers}}
        for where, what in rules.of_pod(part):
            yield ("init_containers", *where[2:]) if where[:2] == prefix else where[1:], what
    elif test.annotations:
        for where, what in rules.of_pod({"metadata": {"annotations": test.annotations}}):
            yield where[1:], what
    if test.pod:
        for where, what in rules.of_pod(test.pod):
            yield ("pod", *where), what
        spec, metadata = test.pod.get("spec", {}), test.pod.get("metadata", {})
        deadline, timeout = spec.get(DEADLINE, 0), int(test.timeout.total_seconds())
        if not is_at_most(deadline, timeout):
            yield ("pod", "spec", DEADLINE), f"{deadline!r} is not a number of seconds up to the `timeout`, {timeout}"
        token = {TOKEN: False} if spec.get(TOKEN) is None else {}
        if not test.service_account and uses_default_account({**spec, **token}):
            yield from rules.listed("service_accounts", DEFAULT_ACCOUNT, ("pod", "spec", TOKEN))
        for where, what in rules.of_labels(metadata.get("labels")):
            yield ("pod", "metadata", "labels", *where), what


def _templates(value: Any, where: Where) -> list[tuple[Where, str]]:
    """Return every text with a template and its place. Thousands of tests are looked at whenever Airflow parses."""
    found: list[tuple[Where, str]] = []
    waiting = [(where, value)]
    while waiting:
        place, value = waiting.pop()
        if isinstance(value, str):
            inner: Iterable[tuple[Any, Any]] = ()
            if is_template(value):
                found.append((place, value))
        elif isinstance(value, dict):
            inner = value.items()
        elif isinstance(value, list | tuple):
            inner = enumerate(value)
        else:
            inner = value.__dict__.items() if isinstance(value, BaseModel) else ()
        for key, one in inner:
            if not isinstance(one, str):
                waiting.append(((*place, key), one))
            elif "{" in one:
                found += _templates(one, (*place, key))
    return found
