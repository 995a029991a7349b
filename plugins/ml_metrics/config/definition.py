"""A test: one workload on one accelerator, when it runs, and how it is measured and judged."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any, ClassVar, Self

from pydantic import AfterValidator, Field, PrivateAttr, ValidationInfo, field_validator

from ml_metrics.config.accelerator import CPU
from ml_metrics.config.catalogue import AcceleratorField
from ml_metrics.config.collection import MetricCollectionConfig
from ml_metrics.config.duration import Duration
from ml_metrics.config.goodput import GoodputConfig
from ml_metrics.config.naming import check_name
from ml_metrics.config.params import Params, check_references
from ml_metrics.config.pod import Cluster, EnvName, LabelValue, MountPath, PodOverride, Resources, Secrets, Text, Volume
from ml_metrics.config.quarantine import Quarantine
from ml_metrics.config.regression import RegressionTestConfig
from ml_metrics.config.schedule import Schedule
from ml_metrics.config.strict import Strict

NAME_PARTS = ("framework", "model", "mode", "accelerator")


def _address(text: str) -> str:
    if text.count("@") != 1 or text.startswith("@") or text.endswith("@") or any(map(str.isspace, text)):
        raise ValueError(f"{text!r} is no mail address")
    return text


class TestDefinition(Strict):
    """One test, as its file says it. `name` is always the final name, `source` the file."""

    __test__: ClassVar[bool] = False  # pytest takes every class named Test* for a test

    framework: str | None = None
    """What the model is written in: `tf`, `pt`, `jax`."""
    model: str | None = None
    """What is trained or measured: `mnist`, `resnet50`."""
    mode: str | None = None
    """What kind of test it is: `func`, `conv`, `example`."""
    accelerator: AcceleratorField = CPU
    """What it runs on: a name of the catalogue, or a mapping that describes it."""
    name: str = Field("", validate_default=True)
    """The test's name, at most 46 characters. Default: framework, model, mode and accelerator, joined by `-`."""
    description: str = ""
    """What the test is for, in a sentence."""
    owner: str = "unowned"
    """Who is asked when it breaks."""
    emails: tuple[Annotated[str, AfterValidator(_address)], ...] = ()
    """Who gets its mails."""
    sender: Annotated[str, AfterValidator(_address)] | None = None
    """Who its mails come from; without one, the sender of the channel."""
    tags: tuple[str, ...] = ()
    """By what people find it in the Airflow UI."""

    params: Params = Field(default_factory=dict)
    """What a person may change when starting a run by hand: a default, or a mapping with `default` and JSON Schema."""
    image: str = Field(min_length=1)
    """The container image of the workload."""
    command: tuple[Text, ...] = Field(min_length=1)
    """The program and its arguments. `$(NAME)` is an environment variable, `{{ params.name }}` a parameter."""
    args: tuple[Text, ...] = ()
    """More arguments, after those of `command`."""
    env: dict[EnvName, Text] = Field(default_factory=dict)
    """Environment variables; a value may mention those before it, as `$(MODEL_DIR)/checkpoints`."""

    schedule: Schedule | None = None
    """A cron expression or one of Airflow's presets; without one, the test runs only when it is started by hand."""
    timeout: Duration = timedelta(hours=1)
    """How long the workload may run."""
    startup_timeout: Duration = timedelta(minutes=20)
    """How long the workload may wait for a node and its image before it counts as missed."""
    retries: int = Field(0, ge=0)
    """How often a workload that failed is started again, in a new pod."""
    pool: str | None = None
    """The Airflow pool in which runs wait for a scarce accelerator."""
    priority: int = Field(1, ge=1)
    """Who goes first in the pool: the greater number."""
    quarantine: Quarantine | None = None
    """Keeps a test that is known to be broken from sending mail, until a day."""

    resources: Resources = Field(default_factory=Resources)
    """What the container asks for, beside its accelerator."""
    hosts: int = Field(0, ge=0, validate_default=True)
    """How many pods run the workload together. Default: as many as the accelerator has hosts."""
    cluster: Cluster | None = None
    """A GKE cluster; without one, the cluster of the settings."""
    namespace: str | None = None
    """The Kubernetes namespace; without one, that of the settings."""
    service_account: str | None = None
    """The Kubernetes service account of the pod."""
    labels: dict[str, LabelValue] = Field(default_factory=dict)
    """Labels of the pod, beside our own."""
    annotations: dict[str, Text] = Field(default_factory=dict)
    """Annotations of the pod."""
    node_selector: dict[str, LabelValue | None] = Field(default_factory=dict)
    """Labels of the node, beyond the accelerator's own; null takes one of those away."""
    tolerations: tuple[dict[str, Any], ...] = ()
    """Taints of nodes that the pod tolerates, beyond the accelerator's own, in Kubernetes' own words."""
    volumes: dict[MountPath, Volume] = Field(default_factory=dict)
    """What is mounted, by path."""
    secrets: Secrets = Field(default_factory=dict)
    """Environment variables from Kubernetes secrets: `{API_KEY: my-secret/api-key}`."""
    config_maps: tuple[str, ...] = ("gcs-buckets",)
    """Config maps whose entries become environment variables, where they exist."""
    image_pull_secrets: tuple[str, ...] = ()
    """Kubernetes secrets by which private images are pulled."""
    init_containers: tuple[dict[str, Any], ...] = ()
    """Containers that run first, in Kubernetes' own words."""
    priority_class: str | None = None
    """The Kubernetes priority class of the pod."""
    queue: str | None = None
    """The Kueue queue of the workload."""
    pod: PodOverride = Field(default_factory=dict)
    """Anything else about the pod, in Kubernetes' own words; merged last."""

    metric_config: str | None = None
    """A file with the two configs below, shared by several tests; what the test says itself goes before it."""
    metric_collection_config: MetricCollectionConfig = Field(default_factory=MetricCollectionConfig)
    """Which numbers of a run become metrics."""
    regression_test_config: RegressionTestConfig = Field(default_factory=RegressionTestConfig)
    """When a run is well, and who hears of it when it is not."""
    goodput: GoodputConfig = Field(default_factory=GoodputConfig)
    """How the useful share of the time is measured."""
    extends: str | None = None
    """A file whose keys hold where this one says nothing."""
    sweep: dict[str, Any] = Field(default_factory=dict)
    """In the file: lists of values, each of which makes a test. In the test: its own values."""

    _source: str = PrivateAttr("")

    @field_validator("command", "args", mode="after")
    @classmethod
    def parameters_are_declared(cls, words: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        """A template with a misspelt parameter would fail in every run."""
        if "params" in info.data:
            for word in words:
                check_references(word, info.data["params"])
        return words

    @field_validator("metric_config", "extends", mode="after")
    @classmethod
    def followed_in_files_only(cls, file: str | None) -> str | None:
        """A test that is written in Python has no folder in which other files could be found."""
        if file is not None:
            raise ValueError("is followed in a test file only; in Python, hand in what `load_file` returns")
        return file

    @property
    def source(self) -> str:
        """The file that this test came from; empty for one that was written in Python."""
        return self._source

    @classmethod
    def from_file(cls, content: dict[str, Any], source: str) -> Self:
        """Validate what a file says."""
        test = cls.model_validate(content)
        test._source = source  # noqa: SLF001  (our own)
        return test

    @field_validator("name", mode="after")
    @classmethod
    def final_name(cls, name: str, info: ValidationInfo) -> str:
        """Make the name from its parts, where none is given."""
        if name:
            return check_name(name)
        if any(part not in info.data for part in NAME_PARTS):
            return name  # a part is wrong, and was told
        missing = [part for part in NAME_PARTS if not info.data[part]]
        if missing:
            raise ValueError(f"the test has no name: set `name`, or {', '.join(f'`{part}`' for part in missing)}")
        return check_name("-".join(str(info.data[part]) for part in NAME_PARTS))

    @field_validator("hosts", mode="after")
    @classmethod
    def hosts_of_the_accelerator(cls, hosts: int, info: ValidationInfo) -> int:
        """A slice of a TPU has as many hosts as it has."""
        accelerator = info.data.get("accelerator", CPU)
        if hosts and accelerator.topology and hosts != accelerator.hosts:
            raise ValueError(f"{accelerator.name} has {accelerator.hosts} hosts, not {hosts}; leave `hosts` out")
        return hosts or int(accelerator.hosts)
