"""What a policy refuses in a pod: at least what Kubernetes' Pod Security Standard "baseline" refuses.

The same rules are applied to the parts of a pod in a test file, and to the whole pod before the cluster gets it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ml_metrics.config.templates import is_template

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ml_metrics.config.document import Where
    from ml_metrics.config.policy import Policy

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
SELINUX_TYPES = frozenset({"container_t", "container_init_t", "container_kvm_t", "container_engine_t"})
PROFILES = frozenset({"RuntimeDefault", "Localhost"})
PROFILE_ANNOTATIONS = ("container.apparmor.security.beta.kubernetes.io/", "seccomp.security.alpha.kubernetes.io/",
                       "container.seccomp.security.alpha.kubernetes.io/")  # fmt: skip
DEFAULT_PROFILES = ("runtime/default", "docker/default")
HANDLERS = ("livenessProbe", "readinessProbe", "startupProbe")
CONTAINERS = ("containers", "initContainers", "ephemeralContainers")
ACCOUNT_KEYS = ("serviceAccountName", "serviceAccount")
TOKEN = "automountServiceAccountToken"  # noqa: S105  (the name of a key)
DEFAULT_ACCOUNT = "default"
"""The service account of a pod that names none."""
KEEPING = ("finalizers", "ownerReferences")
GRACE = "terminationGracePeriodSeconds"
MAX_GRACE_SECONDS = 3600
MAX_DIGITS = 20
SECRET_REFERENCES = frozenset({"secretRef", "secretKeyRef", "nodePublishSecretRef", "secret"})
OWN_LABELS = frozenset({
    "job-name", "controller-uid", "dag_id", "task_id", "run_id", "map_index", "try_number", "already_checked",
    "kubernetes_pod_operator", "airflow_version",
})  # fmt: skip
OWN_PREFIXES = ("ml-metrics/", "batch.kubernetes.io/")

Found = tuple["Where", str]
"""The path to a value, and what is wrong with it."""


@dataclass(frozen=True, slots=True)
class PodRules:
    """The rules of a policy for pods."""

    policy: Policy
    final: bool = True
    """Whether templates are filled in. If not, a text with a template is checked when a run has filled it in."""

    def of_pod(self, pod: dict[str, Any]) -> Iterator[Found]:
        """Yield what is refused in a pod or in a part of it."""
        metadata, spec = _mapping(pod.get("metadata")), _mapping(pod.get("spec"))
        if not self.policy.privileged:
            for key, value in _mapping(metadata.get("annotations")).items():
                allowed = value in DEFAULT_PROFILES or str(value).startswith("localhost/")
                if str(key).startswith(PROFILE_ANNOTATIONS) and not allowed:
                    yield ("metadata", "annotations", key), _refused("a container without its profile", "privileged")
        for key in KEEPING:
            if metadata.get(key):
                yield ("metadata", key), "would keep the pod after its end, so a test cannot set it"
        for where, what in self._of_spec(spec):
            yield ("spec", *where), what

    def of_container(self, container: Any) -> Iterator[Found]:
        """Yield what is refused in a container."""
        container = _mapping(container)
        if image := container.get("image"):
            yield from self.listed("images", image, ("image",))
        for number, port in enumerate(_items(container.get("ports"))):
            if not self.policy.host_network and _mapping(port).get("hostPort"):
                yield ("ports", number, "hostPort"), _refused("a port of the node", "host_network")
        if not self.policy.host_network:
            for where in _with_hosts(container):
                yield where, _refused("a probe of another host", "host_network")
        for where, what in self._of_context(_mapping(container.get("securityContext"))):
            yield ("securityContext", *where), what
        for key in HANDLERS:
            for where, what in self._of_grace_period(_mapping(container.get(key))):
                yield (key, *where), what

    def of_labels(self, labels: Any) -> Iterator[Found]:
        """Yield labels by which Airflow, Kubernetes and this package find the pods of a run again."""
        for key in _mapping(labels):
            if key in OWN_LABELS or str(key).startswith(OWN_PREFIXES):
                yield (key,), "is a label by which pods are found, so a test cannot set it"

    def listed(self, kind: str, value: Any, where: Where) -> Iterator[Found]:
        """Yield a value that its list in the policy has not."""
        text = str(value)
        if not (self.policy.allows(kind, text) or (not self.final and is_template(text))):
            yield where, f"{text!r} is not in `{kind}` of the policy{_which(getattr(self.policy, kind))}"

    def of_host_path(self, path: Any, where: Where) -> Iterator[Found]:
        """Yield a folder of the node that cannot be mounted."""
        text = str(path)
        if not (self.policy.allows_host_path(text) or (not self.final and is_template(text))):
            folders = self.policy.host_paths
            yield where, f"the folder {text!r} of the node is not in `host_paths` of the policy{_which(folders)}"

    def _of_spec(self, spec: dict[str, Any]) -> Iterator[Found]:
        for key in ACCOUNT_KEYS:
            if spec.get(key):
                yield from self.listed("service_accounts", spec[key], (key,))
        if self.final and uses_default_account(spec):
            yield from self.listed("service_accounts", DEFAULT_ACCOUNT, (TOKEN,))
        yield from self._of_priority(spec)
        yield from self._of_grace_period(spec)
        for key, rule in (
            ("hostNetwork", "host_network"),
            ("hostPID", "host_processes"),
            ("hostIPC", "host_processes"),
        ):
            if not _is_off(spec.get(key)) and not getattr(self.policy, rule):
                yield (key,), _refused(f"{key!r}", rule)
        for where, what in self._of_context(_mapping(spec.get("securityContext"))):
            yield ("securityContext", *where), what
        for part in CONTAINERS:
            yield from self._of_each(part, spec, self.of_container)
        yield from self._of_each("volumes", spec, self._of_volume)
        if self.policy.secrets is not None:
            for where, name in _secrets(spec):
                yield from self.listed("secrets", name, where)

    def _of_priority(self, spec: dict[str, Any]) -> Iterator[Found]:
        name, number = spec.get("priorityClassName"), spec.get("priority")
        if name:
            yield from self.listed("priority_classes", name, ("priorityClassName",))
        if number is not None and not self.policy.allows_priority(number):
            yield ("priority",), "the policy allows no such number in place of a priority class"

    def _of_grace_period(self, part: dict[str, Any]) -> Iterator[Found]:
        """Yield a time in which a program goes on after it was told to end, if it is too long or no number."""
        seconds = part.get(GRACE)
        waits = not self.final and isinstance(seconds, str) and is_template(seconds)
        if seconds is not None and not waits and not is_at_most(seconds, MAX_GRACE_SECONDS):
            yield (GRACE,), f"{seconds!r} is not a number of seconds up to {MAX_GRACE_SECONDS}, an hour"

    @staticmethod
    def _of_each(key: str, spec: dict[str, Any], rules: Callable[[Any], Iterator[Found]]) -> Iterator[Found]:
        for number, item in enumerate(_items(spec.get(key))):
            for where, what in rules(item):
                yield (key, number, *where), what

    def _of_volume(self, volume: Any) -> Iterator[Found]:
        for kind, source in _mapping(volume).items():
            if kind == "name" or source is None:
                continue
            yield from self.listed("volumes", kind, (kind,))
            if kind == "hostPath":
                yield from self.of_host_path(_mapping(source).get("path"), (kind, "path"))
            if kind == "image" and (reference := _mapping(source).get("reference")):
                yield from self.listed("images", reference, (kind, "reference"))

    def _of_context(self, context: dict[str, Any]) -> Iterator[Found]:
        """Yield what is refused in the security context of a pod or a container."""
        policy = self.policy
        if _mapping(context.get("windowsOptions")).get("hostProcess") and not policy.host_processes:
            yield ("windowsOptions", "hostProcess"), _refused("a process of the node", "host_processes")
        for number, name in enumerate(_items(_mapping(context.get("capabilities")).get("add"))):
            plain = str(name).upper().removeprefix("CAP_")
            if str(name) not in CAPABILITIES and not policy.privileged and not policy.allows("capabilities", plain):
                yield ("capabilities", "add", number), f"{name!r} is not in `capabilities` of the policy"
        if not policy.privileged:
            yield from self._of_confinement(context)

    @staticmethod
    def _of_confinement(context: dict[str, Any]) -> Iterator[Found]:
        """Yield what would take a container out of what confines it."""
        if not _is_off(context.get("privileged")):
            yield ("privileged",), _refused("a privileged container", "privileged")
        for key in ("seccompProfile", "appArmorProfile"):
            if str(_mapping(context.get(key)).get("type") or "RuntimeDefault") not in PROFILES:
                yield (key, "type"), _refused("a container without its profile", "privileged")
        selinux = _mapping(context.get("seLinuxOptions"))
        kind = str(selinux.get("type") or "container_t")
        if kind not in SELINUX_TYPES or selinux.get("user") or selinux.get("role"):
            yield ("seLinuxOptions",), _refused("another SELinux type, user or role", "privileged")
        if (context.get("procMount") or "Default") != "Default":
            yield ("procMount",), _refused("an unmasked /proc", "privileged")
        for number, sysctl in enumerate(_items(context.get("sysctls"))):
            if str(_mapping(sysctl).get("name")) not in SYSCTLS:
                yield ("sysctls", number), _refused("a kernel setting that concerns other pods", "privileged")


def is_at_most(seconds: Any, most: float) -> bool:
    """Return whether a value is a number of seconds, which may be text, up to another one."""
    text = str(seconds)
    return len(text) <= MAX_DIGITS and text.isascii() and text.isdecimal() and int(text) <= most


def _refused(what: str, key: str) -> str:
    return f"the policy allows {what} only with `{key}: true`"


def _which(allowed: tuple[str, ...] | None) -> str:
    return f", which has {', '.join(allowed) or 'nothing'}" if allowed is not None else ""


def _with_hosts(container: dict[str, Any]) -> Iterator[Where]:
    """Yield the probes and hooks of a container that name a host, through which a node reaches others."""
    hooks = _mapping(container.get("lifecycle"))
    named: dict[Where, Any] = {(key,): container.get(key) for key in HANDLERS}
    named |= {("lifecycle", key): hook for key, hook in hooks.items()}
    for where, handler in named.items():
        for kind in ("httpGet", "tcpSocket"):
            if _mapping(_mapping(handler).get(kind)).get("host"):
                yield (*where, kind, "host")


def uses_default_account(spec: dict[str, Any]) -> bool:
    """Return whether a pod that names no service account gets a token of the default one."""
    volumes = [_mapping(_mapping(volume).get("projected")) for volume in _items(spec.get("volumes"))]
    sources = [_mapping(source) for volume in volumes for source in _items(volume.get("sources"))]
    tokens = spec.get(TOKEN) is not False or any(source.get("serviceAccountToken") for source in sources)
    return tokens and not any(map(spec.get, ACCOUNT_KEYS))


def _secrets(spec: dict[str, Any]) -> Iterator[tuple[Where, str]]:
    """Yield the name of every Kubernetes secret that a pod uses."""
    waiting: list[tuple[Where, Any]] = [((), spec)]
    while waiting:
        where, value = waiting.pop()
        if isinstance(value, list | tuple):
            waiting += [((*where, number), item) for number, item in enumerate(value)]
            continue
        if not isinstance(value, dict):
            continue
        for key, inner in value.items():
            if key in SECRET_REFERENCES and isinstance(inner, dict) and inner.get("name"):
                yield (*where, key, "name"), str(inner["name"])
            elif key == "secretName" and inner:
                yield (*where, key), str(inner)
            elif key == "imagePullSecrets":
                yield from (((*where, key), str(item["name"])) for item in _items(inner) if _mapping(item).get("name"))
            waiting.append(((*where, key), inner))


def _is_off(value: Any) -> bool:
    return value is None or value is False


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _items(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else []
