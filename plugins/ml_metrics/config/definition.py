"""A test: a workload on an accelerator, its schedule, and how it is measured and judged."""

from __future__ import annotations

import datetime as dt
import re
from datetime import timedelta
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, Field, PrivateAttr, ValidationInfo, field_validator

from ml_metrics.config.accelerator import CPU
from ml_metrics.config.accelerator_catalogue import AcceleratorField
from ml_metrics.config.address import is_address
from ml_metrics.config.collection import MetricCollectionConfig
from ml_metrics.config.duration import Duration
from ml_metrics.config.efficiency import EfficiencyConfig
from ml_metrics.config.expressions import check_params
from ml_metrics.config.goodput import GoodputConfig
from ml_metrics.config.moment import Day
from ml_metrics.config.naming import check_name
from ml_metrics.config.on_regression import OnRegressionField
from ml_metrics.config.params import Params, check_references
from ml_metrics.config.pod import (
    ClusterOfTest,
    EnvName,
    JobSet,
    LabelValue,
    MountPath,
    PodOverride,
    Resources,
    Secrets,
    Text,
    Volume,
)
from ml_metrics.config.regression import RegressionTestConfig
from ml_metrics.config.schedule import check_schedule, unfillable
from ml_metrics.config.strict import Strict
from ml_metrics.config.templates import is_template
from ml_metrics.values import as_utc, end_of_day

NAME_PARTS = ("framework", "model", "mode", "accelerator")
MAX_TAG, MAX_OWNER, MAX_POOL = 100, 250, 250
"""Characters that fit into the tables of Airflow."""
MAX_RETRIES, MAX_PRIORITY = 100, 1_000_000
NAMESPACE = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")
MAX_TAGS = 50
"""Each tag of each test is a row of Airflow."""


Schedule = Annotated[str, AfterValidator(check_schedule)]


class Quarantine(Strict):
    """Mutes the alerts of a test until a date, with a reason. It expires by itself."""

    until: Day
    """The last day (UTC) without alerts."""
    reason: str = Field(min_length=1)
    """Why the alerts are muted."""
    owner: str | None = None
    """Who fixes the test."""
    issue: str | None = None
    """A link to the issue."""

    def holds(self, now: dt.datetime) -> bool:
        """Return whether the quarantine is in effect. Call it when the run ends, not when the DAG is parsed."""
        return as_utc(now) < end_of_day(self.until)


def check_address(text: str) -> str:
    """Return a mail address if it is one. Raises ValueError."""
    if not is_address(text):
        raise ValueError(f"{text!r} is not a mail address")
    return text


def check_namespace(text: str) -> str:
    """Return the name of a namespace, which becomes a part of addresses, if it is valid. Raises ValueError."""
    if not is_template(text) and not NAMESPACE.fullmatch(text):
        raise ValueError(f"{text!r} is not the name of a namespace: use up to 63 lower-case letters, digits and '-'")
    return text


def check_tag(text: str) -> str:
    """Return a tag if Airflow accepts it. Raises ValueError."""
    if len(text) > MAX_TAG:
        raise ValueError(f"a tag has at most {MAX_TAG} characters, not {len(text)}")
    return text


def check_owner(text: str) -> str:
    """Return the name of an owner if Airflow accepts it. Raises ValueError."""
    if len(text) > MAX_OWNER:
        raise ValueError(f"an owner has at most {MAX_OWNER} characters, not {len(text)}")
    return text


class TestDefinition(Strict):
    """One test, as its file defines it. `name` is always the final name, `source` is the file."""

    __test__: ClassVar[bool] = False  # pytest collects classes named Test*

    framework: str | None = None
    """The framework of the model: `tf`, `pt`, `jax`."""
    model: str | None = None
    """The model that is trained or measured: `mnist`, `resnet50`."""
    mode: str | None = None
    """The kind of test: `func`, `conv`, `example`."""
    accelerator: AcceleratorField = CPU
    """The accelerator: a name from the catalogue, or a mapping that describes it."""
    name: str = Field("", validate_default=True)
    """The name of the test, at most 46 characters. Default: framework, model, mode and accelerator, joined by `-`."""
    description: str = ""
    """The purpose of the test, in a sentence."""
    owner: Annotated[str, AfterValidator(check_owner)] = "unowned"
    """The person or team to contact when it fails."""
    emails: tuple[Annotated[str, AfterValidator(check_address)], ...] = ()
    """The recipients of its alert mails."""
    sender: Annotated[str, AfterValidator(check_address)] | None = None
    """The sender of its alert mails. Without one, the sender of the channel."""
    tags: tuple[Annotated[str, AfterValidator(check_tag)], ...] = Field((), max_length=MAX_TAGS)
    """Tags for the filter of the Airflow UI: at most 50, each of at most 100 characters."""

    params: Params = Field(default_factory=dict)
    """What users can change when they trigger a run: a default, or a mapping with `default` and JSON Schema."""
    image: str = Field(min_length=1)
    """The container image of the workload."""
    command: tuple[Text, ...] = Field(min_length=1)
    """The program and its arguments. `$(NAME)` inserts an environment variable, `{{ params.name }}` a parameter."""
    args: tuple[Text, ...] = ()
    """Arguments that follow those of `command`."""
    env: dict[EnvName, Text] = Field(default_factory=dict)
    """Environment variables; a value can use earlier ones, as in `$(MODEL_DIR)/checkpoints`."""

    by_hand: tuple[Literal["command", "image"], ...] = ()
    """What a manual run may replace besides `params`: `image`, `command`. Default: the setting `by_hand`."""

    schedule: Schedule | None = None
    """A cron expression or preset, in Airflow's `default_timezone`. Without one, the test runs only when triggered."""
    timeout: Duration = timedelta(hours=1)
    """How long the workload may run."""
    startup_timeout: Duration = timedelta(minutes=20)
    """How long the workload may wait for a node and its image before the run counts as missed."""
    retries: int = Field(0, ge=0, le=MAX_RETRIES)
    """How often a failed workload is started again, in a new pod."""
    pool: str | None = Field(None, max_length=MAX_POOL)
    """The Airflow pool in which runs queue for a scarce accelerator."""
    priority: int = Field(1, ge=1, le=MAX_PRIORITY)
    """The priority of the workload in its pool; greater numbers start first."""
    quarantine: Quarantine | None = None
    """Mutes the alerts of a test that is known to be broken, until a date."""
    on_regression: OnRegressionField = None
    """What a metric out of bounds starts: `bisect`, the search for the version that broke it."""
    decide: bool = False
    """Whether a change asks a person under Airflow's Required Actions: accept it, a regression, or measure again."""

    resources: Resources = Field(default_factory=Resources)
    """The resources that the container requests besides its accelerator."""
    hosts: int = Field(0, ge=0, validate_default=True)
    """The number of pods that run the workload together. Default: the hosts of the accelerator."""
    job_set: JobSet | None = None
    """Several Jobs of so many hosts each, as one JobSet."""
    cluster: ClusterOfTest | None = None
    """A GKE cluster, or the name of a cluster in the setting `clusters`. Without one, the cluster of the settings."""
    namespace: Annotated[str, AfterValidator(check_namespace)] | None = None
    """The Kubernetes namespace. Without one, the namespace of the settings."""
    service_account: str | None = None
    """The Kubernetes service account of the pod."""
    labels: dict[str, LabelValue] = Field(default_factory=dict)
    """Additional labels of the pod."""
    annotations: dict[str, Text] = Field(default_factory=dict)
    """Annotations of the pod."""
    node_selector: dict[str, LabelValue | None] = Field(default_factory=dict)
    """Labels of the node, besides those of the accelerator; null removes one of those."""
    tolerations: tuple[dict[str, Any], ...] = ()
    """Tolerations of the pod in Kubernetes syntax, besides those of the accelerator."""
    volumes: dict[MountPath, Volume] = Field(default_factory=dict)
    """The volumes that are mounted, by path."""
    secrets: Secrets = Field(default_factory=dict)
    """Environment variables from Kubernetes secrets: `{API_KEY: my-secret/api-key}`."""
    config_maps: tuple[str, ...] = ("gcs-buckets",)
    """Config maps whose entries become environment variables; missing ones are ignored."""
    image_pull_secrets: tuple[str, ...] = ()
    """Kubernetes secrets for pulling private images."""
    init_containers: tuple[dict[str, Any], ...] = ()
    """Init containers in Kubernetes syntax."""
    priority_class: str | None = None
    """The Kubernetes priority class of the pod."""
    queue: str | None = None
    """The Kueue queue of the workload."""
    pod: PodOverride = Field(default_factory=dict)
    """Other fields of the pod in Kubernetes syntax; merged last."""

    metric_config: str | None = None
    """A file with the two configs below, shared by several tests. The test's own values take precedence."""
    metric_collection_config: MetricCollectionConfig = Field(default_factory=MetricCollectionConfig)
    """Which values of a run become metrics."""
    regression_test_config: RegressionTestConfig = Field(default_factory=RegressionTestConfig)
    """The conditions for a run to pass, and when to alert."""
    goodput: GoodputConfig = Field(default_factory=GoodputConfig)
    """How goodput, the productive share of the time, is measured."""
    efficiency: EfficiencyConfig = Field(default_factory=EfficiencyConfig)
    """What its chips cost, and what one step of its training computes."""
    extends: str | None = None
    """A file whose values apply to keys that this file does not set."""
    sweep: dict[str, Any] = Field(default_factory=dict)
    """In a file: lists of values; each combination makes a test. In a test: its own values."""

    _source: str = PrivateAttr("")

    @field_validator("command", "args", mode="after")
    @classmethod
    def parameters_are_declared(cls, argv: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        """Reject templates with undeclared parameters: they would fail in every run."""
        if "params" in info.data:
            for argument in argv:
                check_references(argument, info.data["params"])
        return argv

    @field_validator("metric_collection_config", mode="after")
    @classmethod
    def expressions_use_declared_parameters(
        cls, config: MetricCollectionConfig, info: ValidationInfo
    ) -> MetricCollectionConfig:
        """Reject an expression with an undeclared parameter: its metric would be missing in every run."""
        if "params" in info.data:
            check_params(config.computed, info.data["params"])
        return config

    @field_validator("metric_collection_config", mode="after")
    @classmethod
    def answers_are_recorded(cls, config: MetricCollectionConfig, info: ValidationInfo) -> MetricCollectionConfig:
        """Reject a question whose answer nothing could store."""
        if info.data.get("decide") and not config.write_to_bigquery:
            raise ValueError("`decide` needs the rows of runs, which `write_to_bigquery: false` does not record")
        return config

    @field_validator("regression_test_config", mode="after")
    @classmethod
    def the_schedule_fills_time_windows(
        cls, config: RegressionTestConfig, info: ValidationInfo
    ) -> RegressionTestConfig:
        """Reject a condition whose baseline the schedule can never fill."""
        for metric, what in unfillable(info.data.get("schedule"), config):
            raise ValueError(f"the condition of {metric!r} {what}")
        return config

    @field_validator("metric_config", "extends", mode="after")
    @classmethod
    def allowed_in_files_only(cls, file: str | None) -> str | None:
        """Reject references to files in Python code, which has no folder to resolve them in."""
        if file is not None:
            raise ValueError("works in test files only; in Python, pass the configs that `load_file` returns")
        return file

    @field_validator("regression_test_config", mode="after")
    @classmethod
    def metrics_are_known(cls, config: RegressionTestConfig, info: ValidationInfo) -> RegressionTestConfig:
        """Judge by the units and directions of the collection config."""
        if (collection := info.data.get("metric_collection_config")) is not None:
            config.use_facts(collection.facts, collection.own_names)
        return config

    @field_validator("regression_test_config", mode="after")
    @classmethod
    def confirmation_is_possible(cls, config: RegressionTestConfig, info: ValidationInfo) -> RegressionTestConfig:
        """Reject alerts that wait for the verdicts of earlier runs where no verdict is recorded."""
        collection = info.data.get("metric_collection_config")
        unrecorded = collection is not None and not collection.write_to_bigquery
        for metric, condition in config.metric_success_conditions.items():
            if unrecorded and condition.confirm is not None and condition.confirm.runs > 1:
                raise ValueError(
                    f"`confirm` of {metric} needs the verdicts of earlier runs, which `write_to_bigquery: false` does "
                    "not record: it would never alert"
                )
        return config

    @property
    def pods(self) -> int:
        """The number of pods that run the workload together, in all Jobs."""
        return self.hosts * (self.job_set.slices if self.job_set else 1)

    @property
    def source(self) -> str:
        """The file that defines this test; empty for a test that is written in Python."""
        return self._source

    @classmethod
    def from_file(cls, content: dict[str, Any], source: str) -> Self:
        """Validate the content of a file."""
        test = cls.model_validate(content)
        test._source = source  # noqa: SLF001  (an attribute of this class)
        return test

    @field_validator("name", mode="after")
    @classmethod
    def final_name(cls, name: str, info: ValidationInfo) -> str:
        """Check the name, or make it from its parts."""
        if name:
            return check_name(name)
        if any(part not in info.data for part in NAME_PARTS):
            return name  # an invalid part was already reported
        missing = [part for part in NAME_PARTS if not info.data[part]]
        if missing:
            raise ValueError(f"the test has no name: set `name`, or {', '.join(f'`{part}`' for part in missing)}")
        return check_name("-".join(str(info.data[part]) for part in NAME_PARTS))

    @field_validator("hosts", mode="after")
    @classmethod
    def hosts_of_the_accelerator(cls, hosts: int, info: ValidationInfo) -> int:
        """Check the number of hosts, or take it from the accelerator."""
        accelerator = info.data.get("accelerator", CPU)
        if hosts and accelerator.topology and hosts != accelerator.hosts:
            raise ValueError(f"{accelerator.name} has {accelerator.hosts} hosts, not {hosts}; leave `hosts` out")
        return hosts or int(accelerator.hosts)
