"""The policy of the administrator: what test files may request from the cluster, and the addresses in their messages.

The policy is a YAML file that the setting `policy` names. Without one, what Kubernetes' Pod Security Standard
"baseline" refuses is refused, and namespaces and priority classes of the cluster itself.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Literal

from ml_metrics.config.airflow_namespace import airflow_namespaces
from ml_metrics.config.settings_file import read_once, settings_file
from ml_metrics.config.strict import Strict
from ml_metrics.settings import Settings

if TYPE_CHECKING:
    from pathlib import Path

Patterns = tuple[str, ...]
"""Texts in which `*` stands for any characters and `?` for one."""


class Policy(Strict):
    """The policy. Lists hold patterns, in which `*` stands for any characters; an empty list allows nothing."""

    namespaces: Patterns | None = None
    """The namespaces that a test can name. Default: all but `kube-*` and those of Airflow."""
    service_accounts: Patterns | None = None
    """The Kubernetes service accounts. Default: all; beside Airflow, none."""
    clusters: Patterns | None = None
    """The clusters, as `project/location/name`, or by their name in the setting `clusters`. Default: all."""
    images: Patterns | None = None
    """The images, with their registries: `us-docker.pkg.dev/my-project/*`. Default: all."""
    secrets: Patterns | None = None
    """The Kubernetes secrets that a pod can use. Default: all; beside Airflow, none."""
    priority_classes: Patterns | None = None
    """The priority classes. Default: all but `system-*`."""
    volumes: Patterns | None = None
    """The types of volumes, by their Kubernetes names: `emptyDir`. Default: all but `flexVolume` and `gitRepo`;
    `hostPath` needs `host_paths`, too."""
    host_paths: Patterns = ()
    """The folders of the node that can be mounted: `/mnt/data`, or `/mnt/data/*` for those in it. Default: none."""
    host_network: bool = False
    """Whether pods can use the network and the ports of their node."""
    host_processes: bool = False
    """Whether pods can use the processes of their node: `hostPID`, `hostIPC` and `hostProcess`."""
    privileged: bool = False
    """Whether containers can be privileged, or leave the profiles and kernel settings that confine them."""
    capabilities: Patterns = ()
    """Capabilities of Linux that containers can add, besides the harmless ones."""
    senders: Patterns | None = None
    """The senders of mails that a test can name: `*@example.com`. Default: all."""
    recipients: Patterns | None = None
    """The recipients of messages that a test, or a manual run, can name. Default: all."""
    by_hand: tuple[Literal["image", "command", "trial", "notify", "params"], ...] | None = None
    """What users can set when they trigger a run. Default: whatever the test allows."""
    airflow_templates: bool = False
    """Whether templates know all that Airflow's do, which is every connection and variable with its secrets."""

    def allows(self, kind: str, value: str) -> bool:
        """Return whether the list of this kind has a pattern that fits the value."""
        patterns: Patterns | None = getattr(self, kind)
        if patterns is None:
            return not any(fnmatchcase(value, never) for never in NEVER_BY_DEFAULT.get(kind, ()))
        if kind in IGNORE_CASE:
            return any(fnmatchcase(value.lower(), pattern.lower()) for pattern in patterns)
        fits = _fits_image if kind == "images" else fnmatchcase
        return any(fits(value, pattern) for pattern in patterns)

    def in_namespace(self, namespace: str | None) -> Policy:
        """Return the policy for pods of a namespace: in Airflow's own, what is not listed is not allowed."""
        if namespace not in airflow_namespaces():
            return self
        listed = {kind: getattr(self, kind) or () for kind in ("namespaces", "secrets", "service_accounts")}
        return self.model_copy(update=listed)

    def allows_priority(self, number: Any) -> bool:
        """Return whether a pod can state a number in place of a priority class."""
        return self.priority_classes is None and type(number) is int and number <= GREATEST_PRIORITY

    def allows_host_path(self, path: str) -> bool:
        """Return whether a folder of the node can be mounted."""
        asked = PurePosixPath(path)
        return asked.is_absolute() and ".." not in asked.parts and self.allows("host_paths", str(asked))


def _fits_image(image: str, pattern: str) -> bool:
    """Whether an image fits. The tag in a pattern is one: `python:*` does not allow the registry `python:443/...`."""
    name, tag = _name_and_tag(pattern)
    if not tag:
        return fnmatchcase(image, pattern)
    own_name, own_tag = _name_and_tag(image)
    return fnmatchcase(own_name, name) and fnmatchcase(own_tag, tag)


def _name_and_tag(image: str) -> tuple[str, str]:
    """Return an image without and with only its tag or digest, which follow the last `/`."""
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
IGNORE_CASE = frozenset({"senders", "recipients"})


def current_policy(config_root: Path | None = None) -> Policy:
    """Return the policy of the settings. Raises InvalidFileError if it cannot be used: then nothing is allowed."""
    settings = Settings.load()
    if not settings.policy:
        return Policy()
    return settings_file(settings.policy, Policy, "the policy", config_root or settings.config_root)


def read_policy(path: Path) -> Policy:
    """Read a policy, once in a process unless its file changes."""
    return read_once(path, Policy, "the policy")
