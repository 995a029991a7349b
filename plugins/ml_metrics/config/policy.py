"""The policy of the administrator: what test files may request from the cluster, and the addresses in their messages.

The policy is a YAML file that the setting `policy` names. Without one, what Kubernetes' Pod Security Standard
"baseline" refuses is refused, and namespaces and priority classes of the cluster itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal

from pydantic import Field

from ml_metrics.config.definition import TestDefinition
from ml_metrics.config.document import values_in
from ml_metrics.config.params import NOTIFY, RUN_OVERRIDES, addresses_in, same
from ml_metrics.config.problems import Found, Where
from ml_metrics.config.settings_file import read_once, settings_file
from ml_metrics.config.strict import Strict, checked
from ml_metrics.config.templates import TEMPLATED, is_template, rendered, template_problem
from ml_metrics.core.airflow_options import airflow_option
from ml_metrics.core.errors import ConfigError
from ml_metrics.core.settings import SECTION, Settings
from ml_metrics.core.text import listed
from ml_metrics.store.disks import executors

OF_THIS_POD = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
"""The file in which a pod finds its own namespace."""


def airflow_namespaces() -> frozenset[str]:
    """As far as this process knows them; none outside Kubernetes."""
    if given := airflow_option(SECTION, "airflow_namespace"):
        return frozenset(listed(given))
    found = set()
    with suppress(OSError, UnicodeError):
        found.add(OF_THIS_POD.read_text(encoding="ascii").strip())
    if "KubernetesExecutor" in executors():
        found.add(airflow_option("kubernetes_executor", "namespace") or "default")
    return frozenset(found - {""})


def beside_airflow(namespace: str) -> str:
    return (
        f"workloads would start in {namespace!r}, Airflow's own namespace, where a pod can use Airflow's Secrets and "
        f"service accounts: set another one as `[{SECTION}] namespace`, or allow it with `namespaces` of the policy"
    )


Patterns = tuple[str, ...]
"""Texts in which `*` stands for any characters and `?` for one."""


def nights_of(text: str) -> float:
    """The probability in `1 in 7 nights`."""
    found = re.fullmatch(r"(\d{1,4}) in (\d{1,5}) nights?", text.strip())
    if found is None or not 0 < int(found[1]) <= int(found[2]):
        raise ValueError("must be as in `1 in 7 nights`")
    return int(found[1]) / int(found[2])


class Policy(Strict):
    """The policy. Lists hold patterns, in which `*` stands for any characters; an empty list allows nothing."""

    namespaces: Patterns | None = None
    """The namespaces that a test can name. Default: all but `kube-*` and Airflow's."""
    service_accounts: Patterns | None = None
    """The Kubernetes service accounts; beside Airflow, by default none."""
    clusters: Patterns | None = None
    """The clusters, as `project/location/name` or by name."""
    images: Patterns | None = None
    """The images, with their registries."""
    secrets: Patterns | None = None
    """The Kubernetes Secrets that a pod can use; beside Airflow, by default none."""
    priority_classes: Patterns | None = None
    """The priority classes. Default: all but `system-*`."""
    volumes: Patterns | None = None
    """The types of volumes, such as `emptyDir`. Default: all but `flexVolume`, `gitRepo`, and `hostPath` without
    `host_paths`."""
    host_paths: Patterns = ()
    """The folders of the node that can be mounted. Default: none."""
    host_network: bool = False
    """Whether pods can use the network and the ports of their node (Host Ports, Host Probes)."""
    host_processes: bool = False
    """Whether pods can use `hostPID`, `hostIPC` and `hostProcess`."""
    privileged: bool = False
    """Whether containers can be privileged, or change AppArmor, SELinux, Seccomp, Sysctls or `/proc`."""
    capabilities: Patterns = ()
    """Linux capabilities that containers can add, besides harmless ones."""
    senders: Patterns | None = None
    """The senders of mails that a test can name."""
    recipients: Patterns | None = None
    """The recipients that a test or a manual run can name."""
    by_hand: tuple[Literal["image", "command", "trial", "notify", "params"], ...] | None = None
    """What users can set when they trigger a run."""
    faults: Patterns | None = None
    """The faults that a test can ask for: `kill`, `freeze`."""
    reruns: bool = True
    """Whether `rerun` of a test runs it again."""
    alert_budget: Annotated[str, checked(nights_of)] | dict[str, Annotated[str, checked(nights_of)]] = Field(
        default_factory=dict
    )
    """How often a good night may bring an alarm about a level: `1 in 7 nights`, or such texts by owner, with `default`
    for others."""
    airflow_templates: bool = False
    """Whether templates know every connection and variable of Airflow, with secrets."""

    @property
    def alert_budgets(self) -> dict[str, float]:
        """By owner, or `default`."""
        given = {"default": self.alert_budget} if isinstance(self.alert_budget, str) else self.alert_budget
        return {owner: nights_of(text) for owner, text in given.items()}

    def allows(self, kind: str, value: str) -> bool:
        """Whether the list of this kind has a pattern that fits the value."""
        patterns: Patterns | None = getattr(self, kind)
        if patterns is None:
            return not any(fnmatchcase(value, never) for never in NEVER_BY_DEFAULT.get(kind, ()))
        if kind in {"senders", "recipients"}:
            return any(fnmatchcase(value.lower(), pattern.lower()) for pattern in patterns)
        fits = _fits_image if kind == "images" else fnmatchcase
        return any(fits(value, pattern) for pattern in patterns)

    def in_namespace(self, namespace: str | None) -> Policy:
        """In Airflow's own, what is not listed is not allowed."""
        if namespace not in airflow_namespaces():
            return self
        listed = {kind: getattr(self, kind) or () for kind in ("namespaces", "secrets", "service_accounts")}
        return self.model_copy(update=listed)

    def allows_host_path(self, path: str) -> bool:
        asked = PurePosixPath(path)
        return asked.is_absolute() and ".." not in asked.parts and self.allows("host_paths", str(asked))


def _fits_image(image: str, pattern: str) -> bool:
    """The tag in a pattern is one: `python:*` does not allow the registry `python:443/...`."""
    name, tag = _name_and_tag(pattern)
    if not tag:
        return fnmatchcase(image, pattern)
    own_name, own_tag = _name_and_tag(image)
    return fnmatchcase(own_name, name) and fnmatchcase(own_tag, tag)


def _name_and_tag(image: str) -> tuple[str, str]:
    """An image without and with only its tag or digest, which follow the last `/`."""
    start = image.rfind("/") + 1
    marks = [place for mark in ":@" if (place := image.find(mark, start)) >= 0]
    end = min(marks, default=len(image))
    return image[:end], image[end:]


NEVER_BY_DEFAULT = {
    "namespaces": ("kube-*",),
    "priority_classes": ("system-*",),
    "volumes": ("flexVolume", "gitRepo"),  # programs of the node run as root for them
}
GREATEST_PRIORITY = 1_000_000_000
"""Greater numbers are those of the cluster's own priority classes."""


def current_policy(config_root: Path | None = None) -> Policy:
    """Raises InvalidFileError if it cannot be used: then nothing is allowed."""
    settings = Settings.load()
    if not settings.policy:
        return Policy()
    return settings_file(settings.policy, Policy, "the policy", config_root or settings.config_root)


def read_policy(path: Path) -> Policy:
    """Once in a process unless its file changes."""
    return read_once(path, Policy, "the policy")


def refused_by_hand(test: TestDefinition, given: Mapping[str, Any], policy: Policy) -> Iterator[str]:
    allowed = policy.by_hand
    if allowed is not None:
        for name in RUN_OVERRIDES:
            if name not in test.params and name not in allowed and given.get(name):
                yield f"`{name}` cannot be stated for a single run{_which(allowed)}"
        for name, param in test.params.items():
            if "params" not in allowed and name in given and not same(given[name], param.default):
                yield f"the parameter {name!r} cannot be changed for a single run{_which(allowed)}"
    for address in () if NOTIFY in test.params else addresses_in(given.get(NOTIFY)):
        if not policy.allows("recipients", address):
            yield f"{address!r} is not in `recipients` of the policy"


def _which(allowed: tuple[str, ...]) -> str:
    return f": `by_hand` of the policy has {', '.join(allowed) or 'nothing'}"


CAPABILITIES = frozenset({
    "AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "SETFCAP",
    "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
})  # fmt: skip
"""Capabilities that any container can add."""
SYSCTLS = frozenset({
    "kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.tcp_syncookies", "net.ipv4.ping_group_range", "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.tcp_keepalive_time", "net.ipv4.tcp_fin_timeout", "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes", "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem",
})  # fmt: skip
"""Kernel settings that concern one pod only."""
PROFILES = frozenset({"RuntimeDefault", "Localhost"})
SELINUX_TYPES = frozenset({"container_t", "container_init_t", "container_kvm_t", "container_engine_t"})
PROFILE_ANNOTATIONS = ("container.apparmor.security.beta.kubernetes.io/", "seccomp.security.alpha.kubernetes.io/",
                       "container.seccomp.security.alpha.kubernetes.io/")  # fmt: skip
ACCOUNT_KEYS = ("serviceAccountName", "serviceAccount")
TOKEN = "automountServiceAccountToken"  # noqa: S105  (the name of a key)
DEFAULT_ACCOUNT = "default"
"""The service account of a pod that names none."""
MAX_GRACE_SECONDS = 3600
OWN_LABELS = frozenset({
    "job-name", "controller-uid", "dag_id", "task_id", "run_id", "map_index", "try_number", "already_checked",
    "kubernetes_pod_operator", "airflow_version",
})  # fmt: skip

_CONTAINER = "(?:containers|initContainers|ephemeralContainers)/#"
_CONTEXT = f"(?:{_CONTAINER}/)?securityContext"
_PROBE = f"{_CONTAINER}/(?:livenessProbe|readinessProbe|startupProbe|lifecycle/[^/]+)"
BASELINE: tuple[tuple[str, str, str, str, frozenset[Any]], ...] = (
    ("", "hostNetwork", "'hostNetwork'", "host_network", frozenset()),
    ("", "hostPID", "'hostPID'", "host_processes", frozenset()),
    ("", "hostIPC", "'hostIPC'", "host_processes", frozenset()),
    (f"{_CONTEXT}/windowsOptions/", "hostProcess", "a process of the node", "host_processes", frozenset()),
    (f"{_CONTAINER}/ports/#/", "hostPort", "a port of the node", "host_network", frozenset()),
    (f"{_PROBE}/(?:httpGet|tcpSocket)/", "host", "a probe of another host", "host_network", frozenset()),
    (f"{_CONTEXT}/", "privileged", "a privileged container", "privileged", frozenset()),
    (f"{_CONTEXT}/(?:seccomp|appArmor)Profile/", "type", "a container without its profile", "privileged", PROFILES),
    (f"{_CONTEXT}/seLinuxOptions/", "type", "another SELinux type", "privileged", SELINUX_TYPES),
    (f"{_CONTEXT}/seLinuxOptions/", "user role", "another SELinux user or role", "privileged", frozenset()),
    (f"{_CONTEXT}/", "procMount", "an unmasked /proc", "privileged", frozenset({"Default"})),
    (f"{_CONTEXT}/sysctls/#/", "name", "a kernel setting that concerns other pods", "privileged", SYSCTLS),
)
"""What Pod Security "baseline" refuses: the place below `spec`, its keys, in words, the key of the policy that allows
it, and the values beside nothing that any pod may have there."""
LISTED = (
    (f"{_CONTAINER}/", "image", "images"),
    ("volumes/#/image/", "reference", "images"),
    ("", "serviceAccountName serviceAccount", "service_accounts"),
    ("", "priorityClassName", "priority_classes"),
    ("(?:.*/)?(?:secretRef|secretKeyRef|nodePublishSecretRef|secret|imagePullSecrets/#)/", "name", "secrets"),
    (".*", "secretName", "secrets"),
)
"""The places below `spec` whose values a list of the policy has."""
_RULES: dict[str, list[tuple[re.Pattern[str], str, str, frozenset[Any] | None]]] = {}
"""Those of both tables, by their keys."""
for _place, _keys, _what, _allowing, _usual in (*BASELINE, *((*one, "", None) for one in LISTED)):
    for _key in _keys.split():
        _RULES.setdefault(_key, []).append((re.compile(_place), _what, _allowing, _usual))
_OTHERS = frozenset({"add", "priority", "terminationGracePeriodSeconds"})


@dataclass(frozen=True, slots=True)
class PodRules:
    """The rules of a policy for pods."""

    policy: Policy
    final: bool = True
    """Whether templates are filled in. If not, a text with a template is checked when a run has filled it in."""

    def of_pod(self, pod: dict[str, Any]) -> Iterator[Found]:
        metadata, spec = _mapping(pod.get("metadata")), _mapping(pod.get("spec"))
        for key, value in _mapping(metadata.get("annotations")).items():
            allowed = (
                self.policy.privileged
                or value in ("runtime/default", "docker/default")
                or str(value).startswith("localhost/")
            )
            if str(key).startswith(PROFILE_ANNOTATIONS) and not allowed:
                yield ("metadata", "annotations", key), _refused("a container without its profile", "privileged")
        for key in ("finalizers", "ownerReferences"):
            if metadata.get(key):
                yield ("metadata", key), "would keep the pod after its end, so a test cannot set it"
        for where, value in values_in(spec):
            key = str(where[-2] if isinstance(where[-1], int) else where[-1]) if where else ""
            is_volume = where[:1] == ("volumes",) and len(where) == 3
            if value is not None and (key in _RULES or key in _OTHERS or is_volume):
                for below, what in self._of_value(where, key, value):
                    yield ("spec", *below), what
        if self.final and uses_default_account(spec):
            yield from self.listed("service_accounts", DEFAULT_ACCOUNT, ("spec", TOKEN))

    def _of_value(self, where: Where, key: str, value: Any) -> Iterator[Found]:  # noqa: C901  (one kind of value each)
        policy = self.policy
        above = "".join("#/" if isinstance(part, int) else f"{part}/" for part in where[:-1])
        for place, what, allowing, usual in _RULES.get(key, ()) if where[-1] == key else ():
            if value in (False, "") or not place.fullmatch(above):
                continue
            if usual is None:
                yield from self.listed(what, value, where)
            elif str(value) not in usual and not getattr(policy, allowing):
                yield where, _refused(what, allowing)
        if above == "volumes/#/" and key != "name":
            yield from self.listed("volumes", key, where)
            if key == "hostPath":
                yield from self.of_host_path(_mapping(value).get("path"), (*where, "path"))
        elif key == "add" and re.fullmatch(f"{_CONTEXT}/capabilities/add/", above):
            plain = str(value).upper().removeprefix("CAP_")
            if str(value) not in CAPABILITIES and not policy.privileged and not policy.allows("capabilities", plain):
                yield where, f"{value!r} is not in `capabilities` of the policy"
        elif where == ("priority",):
            if policy.priority_classes is not None or type(value) is not int or value > GREATEST_PRIORITY:
                yield where, "the policy allows no such number in place of a priority class"
        elif key == "terminationGracePeriodSeconds" and re.fullmatch(f"(?:{_PROBE}/)?", above):
            waits = not self.final and isinstance(value, str) and is_template(value)
            if not waits and not is_at_most(value, MAX_GRACE_SECONDS):
                yield where, f"{value!r} is not a number of seconds up to {MAX_GRACE_SECONDS}, an hour"

    def of_labels(self, labels: Any) -> Iterator[Found]:
        """Yield labels by which Airflow, Kubernetes and this package find the pods of a run again."""
        for key in _mapping(labels):
            if key in OWN_LABELS or str(key).startswith(("ml-metrics/", "batch.kubernetes.io/")):
                yield (key,), "is a label by which pods are found, so a test cannot set it"

    def listed(self, kind: str, value: Any, where: Where) -> Iterator[Found]:
        """Yield a value that its list in the policy has not."""
        text = str(value)
        if not (self.policy.allows(kind, text) or (not self.final and is_template(text))):
            yield where, f"{text!r} is not in `{kind}` of the policy{_which_of(getattr(self.policy, kind))}"

    def of_host_path(self, path: Any, where: Where) -> Iterator[Found]:
        text = str(path)
        if not (self.policy.allows_host_path(text) or (not self.final and is_template(text))):
            listed = _which_of(self.policy.host_paths)
            yield where, f"the folder {text!r} of the node is not in `host_paths` of the policy{listed}"


def is_at_most(seconds: Any, most: float) -> bool:
    """Whether a value is a number of seconds, which may be text, up to another one."""
    return re.fullmatch("[0-9]{1,20}", str(seconds)) is not None and int(seconds) <= most


def _below(*above: str | int, found: Iterator[Found]) -> Iterator[Found]:
    """Yield what was found in a part, with its place in the whole."""
    for where, what in found:
        yield (*above, *where), what


def _refused(what: str, key: str) -> str:
    return f"the policy allows {what} only with `{key}: true`"


def _which_of(allowed: tuple[str, ...] | None) -> str:
    return f", which has {', '.join(allowed) or 'nothing'}" if allowed is not None else ""


def uses_default_account(spec: dict[str, Any]) -> bool:
    """Whether a pod that names no service account gets a token of the default one."""
    volumes = [_mapping(_mapping(volume).get("projected")) for volume in _items(spec.get("volumes"))]
    sources = [_mapping(source) for volume in volumes for source in _items(volume.get("sources"))]
    tokens = spec.get(TOKEN) is not False or any(source.get("serviceAccountToken") for source in sources)
    return tokens and not any(map(spec.get, ACCOUNT_KEYS))


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _items(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else []


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
    for number, fault in enumerate(test.faults):
        yield from rules.listed("faults", fault.what.partition("(")[0], ("faults", number, "what"))
    if test.sender:
        yield from rules.listed("senders", test.sender, ("sender",))


def refused_namespace(namespace: str | None, policy: Policy) -> str:
    """Why no workload starts in it; empty if workloads may."""
    here = policy.in_namespace(namespace)
    if namespace is None or here is policy or here.allows("namespaces", namespace):
        return ""
    return beside_airflow(namespace)


def templates_in(test: TestDefinition) -> Iterator[Found]:
    """Yield the place and the reason of every template that a run could not fill in."""
    for key in [key for key in TEMPLATED if key in test.model_fields_set]:
        value = getattr(test, key)
        # nearly none has one, and thousands of tests are looked at whenever Airflow parses
        for where, text in values_in(value) if is_template(repr(value)) else ():
            if isinstance(text, str) and (problem := template_problem(text)):
                yield (key, *where), problem
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
    yield from _below("labels", found=rules.of_labels(test.labels))


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
    annotations, containers = test.annotations, test.init_containers
    part = {"metadata": {"annotations": annotations}, "spec": {"initContainers": containers}}
    for (above, _, *where), what in rules.of_pod(part) if annotations or containers else ():
        yield ("annotations" if above == "metadata" else "init_containers", *where), what
    if test.pod:
        yield from _below("pod", found=rules.of_pod(test.pod))
        spec, metadata = test.pod.get("spec", {}), test.pod.get("metadata", {})
        deadline, timeout = spec.get(DEADLINE, 0), int(test.timeout.total_seconds())
        if not is_at_most(deadline, timeout):
            yield ("pod", "spec", DEADLINE), f"{deadline!r} is not a number of seconds up to the `timeout`, {timeout}"
        token = {TOKEN: False} if spec.get(TOKEN) is None else {}
        if not test.service_account and uses_default_account({**spec, **token}):
            yield from rules.listed("service_accounts", DEFAULT_ACCOUNT, ("pod", "spec", TOKEN))
        yield from _below("pod", "metadata", "labels", found=rules.of_labels(metadata.get("labels")))
