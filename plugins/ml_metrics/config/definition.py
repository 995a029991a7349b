"""A test: a workload on an accelerator, its schedule, and how it is measured and judged."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, PrivateAttr, ValidationError, ValidationInfo, field_validator, model_validator
from pydantic_core import InitErrorDetails

from ml_metrics.config.accelerators import CPU, AcceleratorField
from ml_metrics.config.collection import MetricCollectionConfig, check_params
from ml_metrics.config.conditions import OnRegressionField, RegressionTestConfig
from ml_metrics.config.faults import Fault, fault_problems
from ml_metrics.config.naming import ADDRESS, check_name
from ml_metrics.config.params import Params, check_references
from ml_metrics.config.patterns import is_pattern
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
from ml_metrics.config.schedule import check_schedule, unfillable
from ml_metrics.config.strict import OneOf, Strict, checked, matching
from ml_metrics.config.times import Day, Duration
from ml_metrics.core.kinds import without_strategy
from ml_metrics.core.text import did_you_mean
from ml_metrics.core.values import as_utc, end_of_day

Count = Annotated[int, Field(ge=1, le=10**9)]
Amount = Annotated[float, Field(gt=0, le=1e30)]


class Purchase(StrEnum):
    """How the chips of a run were bought."""

    SPOT = "spot"
    ON_DEMAND = "on_demand"
    RESERVED = "reserved"


class Transformer(Strict):
    """The numbers of a transformer that decide what a step computes."""

    parameters: Amount
    """All parameters of the model."""
    layers: Count
    """The number of layers with attention."""
    heads: Count
    """The attention heads of a layer."""
    head_size: Count
    """The size of a head."""
    sequence_length: Count
    """The tokens of a sequence."""
    attention: Literal["whole", "half"]
    """`whole` counts the whole attention matrix, `half` only the half of it that causal attention needs."""


class MixtureOfExperts(Transformer):
    """The numbers of a transformer of which each token uses some experts only."""

    active_parameters: Amount
    """The parameters that one token uses."""

    @model_validator(mode="after")
    def active_are_some(self) -> Self:
        if self.active_parameters > self.parameters:
            raise ValueError("`active_parameters` should not be more than `parameters`, which are all of the model")
        return self


class ModelFlops(OneOf):
    """A formula for the floating-point operations of a step, with the model's numbers."""

    noun: ClassVar[str] = "formula"

    dense_transformer: Transformer | None = None
    """A transformer of which each token uses all parameters."""
    moe_transformer: MixtureOfExperts | None = None
    """A transformer of which each token uses some experts only."""


class EfficiencyConfig(Strict):
    """What the chips of a run cost, and what one step of its training computes."""

    region: Annotated[str, Field(min_length=1)] | None = None
    """The region in the price book. Default: by the node selector, the cluster, or the book."""
    purchase: Purchase | None = None
    """`spot`, `on_demand` or `reserved`. Default: by the node selector, or the book."""
    tokens_per_step: Amount | None = None
    """Tokens of a step."""
    samples_per_step: Amount | None = None
    """Samples of a step."""
    flops_per_step: Amount | None = None
    """Floating-point operations of the model, without recomputation."""
    model_flops: ModelFlops | None = None
    """A formula for them."""
    hardware_flops_per_step: Amount | None = None
    """Operations of the hardware, with recomputation."""
    precision: Annotated[str, Field(min_length=1)] = "bf16"
    """For the peak of the chip: `bf16`, `fp16`, `fp8`, `int8`, `tf32`, `fp32`."""
    peak_of: Annotated[str, Field(min_length=1)] | None = None
    """The device whose peak counts. Default: the chip of the accelerator."""

    @model_validator(mode="after")
    def one_number(self) -> Self:
        if self.model_flops is not None and self.flops_per_step is not None:
            raise ValueError("give `flops_per_step` or `model_flops`, not both: one of them would have no effect")
        if self.model_flops is not None and self.tokens_per_step is None:
            raise ValueError("`model_flops` needs `tokens_per_step`: its formulas are for one token")
        model, hardware = self.flops_per_step, self.hardware_flops_per_step
        if model is not None and hardware is not None and hardware < model:
            raise ValueError("`hardware_flops_per_step` should not be less than `flops_per_step`, which it includes")
        return self


class CloudLog(Strict):
    """A log in Google Cloud Logging that is read instead of `goodput.jsonl`."""

    project_id: str
    """The Google Cloud project."""
    log_name: str | None = None
    """The name of the log, `logger_name` in the workload. Default: `goodput_` and the job's name."""
    job_name: str | None = None
    """The job whose entries are read. Default: the value of `JOB_NAME` in the workload."""


class GCPOptions(Strict):
    """Which series are sent to Google Cloud Monitoring, and their labels."""

    project_id: str
    """The Google Cloud project."""
    location: str
    """The zone or region in the labels of the series."""
    replica_id: str = "0"
    """The replica in the labels of the series."""
    acc_type: str | None = None
    """The accelerator in the labels of the series. Default: the accelerator of the test."""
    cluster_name: str | None = None
    """The cluster in the labels of the series."""
    enable_gcp_goodput_metrics: bool = True
    """Whether goodput and badput are sent."""
    enable_gcp_step_deviation_metrics: bool = True
    """Whether step time deviation is sent."""


class GoodputConfig(Strict):
    """How goodput is measured. A run without `goodput.jsonl` has no goodput, which is not an error."""

    enabled: bool = True
    """Whether goodput is measured."""
    ideal_step_time: Duration | None = None
    """A step's ideal duration. Default: computed."""
    rolling_windows: tuple[Duration, ...] = ()
    """The newest periods that are measured, too."""
    stalls: bool = True
    """Whether the part of a step beyond any usual step is lost, `stall`."""
    cloud_logging: CloudLog | None = None
    """A log in Google Cloud Logging, instead of `goodput.jsonl`."""
    gcp_options: GCPOptions | None = None
    """Also sends the results to Google Cloud Monitoring."""


NAME_PARTS = ("framework", "model", "mode", "accelerator")
MAX_PRIORITY = 1_000_000


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
        """Call it when the run ends, not when the DAG is parsed."""
        return as_utc(now) < end_of_day(self.until)


Address = Annotated[str, matching(ADDRESS, "a mail address")]
Namespace = Annotated[
    str,
    matching(
        r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?|(?s:.*\{[{%].*)",  # a template is refused by the policy
        "the name of a namespace: use up to 63 lower-case letters, digits and '-'",
    ),
]
"""It becomes a part of addresses."""


def _mistake(where: tuple[str | int, ...], value: Any, what: str) -> ValidationError:
    """An error at a place within a field."""
    details = InitErrorDetails(type="value_error", loc=where, input=value, ctx={"error": ValueError(what)})
    return ValidationError.from_exception_data("TestDefinition", [details])


class TestDefinition(Strict):
    """One test, as its file defines it. `name` is always the final name, `source` is the file."""

    __test__: ClassVar[bool] = False  # pytest collects classes named Test*

    framework: str | None = None
    """The framework: `tf`, `pt`, `jax`."""
    model: str | None = None
    """What is trained or measured."""
    mode: str | None = None
    """The kind of test: `func`, `conv`, `example`."""
    accelerator: AcceleratorField = CPU
    """A name from the catalogue, or a mapping."""
    name: str = Field("", validate_default=True)
    """At most 46 characters. Default: framework, model, mode and accelerator, joined by `-`."""
    description: str = ""
    """The purpose of the test."""
    owner: str = Field("unowned", max_length=250)
    """Whom to contact when it fails."""
    emails: tuple[Address, ...] = ()
    """The recipients of its alerts."""
    sender: Address | None = None
    """Their sender. Default: that of the channel."""
    tags: tuple[Annotated[str, Field(max_length=100)], ...] = Field((), max_length=50)
    """Tags in the Airflow UI: up to 50, each of up to 100 characters."""

    params: Params = Field(default_factory=dict)
    """What users can change when they trigger a run."""
    image: str = Field(min_length=1)
    """The container image."""
    command: tuple[Text, ...] = Field(min_length=1)
    """The program and its arguments."""
    args: tuple[Text, ...] = ()
    """Arguments after those of `command`."""
    env: dict[EnvName, Text] = Field(default_factory=dict)
    """Environment variables; a value can use earlier ones."""

    by_hand: tuple[Literal["command", "image"], ...] = ()
    """What a manual run can also replace: `image`, `command`. Default: the setting `by_hand`."""

    schedule: Annotated[str, checked(check_schedule)] | None = None
    """When it runs, in Airflow's `default_timezone`. Without one, only when triggered."""
    timeout: Duration = timedelta(hours=1)
    """How long each attempt of the workload may run."""
    startup_timeout: Duration = timedelta(minutes=20)
    """How long it may wait for a node and its image. Then the run counts as missed."""
    retries: int = Field(0, ge=0, le=100)
    """How often a failed workload starts again, in a new pod."""
    pool: str | None = Field(None, max_length=250)
    """The Airflow pool in which runs queue."""
    priority: int = Field(1, ge=1, le=MAX_PRIORITY)
    """The priority in the pool; greater is first."""
    quarantine: Quarantine | None = None
    """Mutes the alerts until the end of a day (UTC)."""
    on_regression: OnRegressionField = None
    """Starts a search for the version that broke a metric."""
    decide: bool = False
    """Whether a metric out of bounds asks a person in Airflow."""

    resources: Resources = Field(default_factory=Resources)
    """What the container requests, and limits that differ."""
    hosts: int = Field(0, ge=0, validate_default=True)
    """The pods that run the workload together. Default: the hosts of the accelerator."""
    job_set: JobSet | None = None
    """Several Jobs of so many hosts, as one JobSet."""
    cluster: ClusterOfTest | None = None
    """One of the setting `clusters`, or on GKE `{project: my-project, location: us-central1, name: tests}`. Default:
    that of the settings."""
    namespace: Namespace | None = None
    """The Kubernetes namespace. Default: that of the settings."""
    service_account: str | None = None
    """The Kubernetes service account."""
    labels: dict[str, LabelValue] = Field(default_factory=dict)
    """Labels of the pod."""
    annotations: dict[str, Text] = Field(default_factory=dict)
    """Annotations of the pod."""
    node_selector: dict[str, LabelValue | None] = Field(default_factory=dict)
    """Labels of the node, added to those of the accelerator; null removes one."""
    tolerations: tuple[dict[str, Any], ...] = ()
    """Tolerations, added to those of the accelerator."""
    volumes: dict[MountPath, Volume] = Field(default_factory=dict)
    """Volumes, by mount path."""
    secrets: Secrets = Field(default_factory=dict)
    """Variables from secrets, `secret/key`, or `{secret: hugging-face, key: token}`."""
    config_maps: tuple[str, ...] = ("gcs-buckets",)
    """Config maps whose entries become variables; missing ones are ignored."""
    image_pull_secrets: tuple[str, ...] = ()
    """Secrets for private images."""
    init_containers: tuple[dict[str, Any], ...] = ()
    """Init containers, in Kubernetes syntax."""
    priority_class: str | None = None
    """The Kubernetes priority class."""
    queue: str | None = None
    """The Kueue queue."""
    pod: PodOverride = Field(default_factory=dict)
    """Other fields of the pod, merged last."""

    faults: tuple[Fault, ...] = ()
    """What breaks on purpose, and when."""

    metric_config: str | None = None
    """A file with the two configs below."""
    metric_collection_config: MetricCollectionConfig = Field(default_factory=MetricCollectionConfig)
    """Which values become metrics."""
    regression_test_config: RegressionTestConfig = Field(default_factory=RegressionTestConfig)
    """When a run passes, and when it alerts."""
    goodput: GoodputConfig = Field(default_factory=GoodputConfig)
    """How goodput is measured."""
    efficiency: EfficiencyConfig = Field(default_factory=EfficiencyConfig)
    """What its chips cost, and what a step computes."""
    extends: str | None = None
    """A file to inherit values from."""
    sweep: dict[str, Any] = Field(default_factory=dict)
    """A test for each combination."""

    _source: str = PrivateAttr("")

    @field_validator("command", "args", mode="after")
    @classmethod
    def parameters_are_declared(cls, argv: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        if "params" in info.data:
            for argument in argv:
                check_references(argument, info.data["params"])
        return argv

    @field_validator("faults", mode="after")
    @classmethod
    def faults_can_happen(cls, faults: tuple[Fault, ...], info: ValidationInfo) -> tuple[Fault, ...]:
        if {"hosts", "job_set", "timeout", "resources", "volumes"} <= info.data.keys():
            for number, what in fault_problems(faults, info.data):
                raise _mistake((number,), faults[number], what)
        return faults

    @field_validator("metric_collection_config", mode="after")
    @classmethod
    def metrics_can_be_made_and_stored(
        cls, config: MetricCollectionConfig, info: ValidationInfo
    ) -> MetricCollectionConfig:
        """Reject an expression whose metric every run would lack, and a question whose answer nothing could store."""
        if "params" in info.data:
            check_params(config.computed, info.data["params"])
        if info.data.get("decide") and not config.write_to_bigquery:
            raise ValueError("`decide` needs the rows of runs, which `write_to_bigquery: false` does not record")
        return config

    @field_validator("metric_config", "extends", mode="after")
    @classmethod
    def allowed_in_files_only(cls, file: str | None) -> str | None:
        if file is not None:
            raise ValueError("works in test files only; in Python, pass the configs that `load_file` returns")
        return file

    @field_validator("regression_test_config", mode="after")
    @classmethod
    def conditions_can_decide(cls, config: RegressionTestConfig, info: ValidationInfo) -> RegressionTestConfig:
        """Reject baselines that the schedule never fills, and alerts that wait for verdicts which nothing records.

        The conditions get the units and directions that the collection config states.
        """
        for metric, what in unfillable(info.data.get("schedule"), config):
            raise ValueError(f"the condition of {metric!r} {what}")
        if (collection := info.data.get("metric_collection_config")) is None:
            return config
        config.use_facts(collection.facts, collection.own_names)
        if config.rerun is not None and not collection.write_to_bigquery:
            raise ValueError(
                "`rerun` needs the values of earlier runs, which `write_to_bigquery: false` does not record"
            )
        for metric, condition in config.metric_success_conditions.items():
            waits = condition.confirm is not None and condition.confirm.runs > 1
            if waits and not collection.write_to_bigquery:
                raise ValueError(
                    f"`confirm` of {metric} needs the verdicts of earlier runs, which `write_to_bigquery: false` does "
                    "not record: it would never alert"
                )
            reference = condition.relative_to or ""
            if meant := collection.meant_by(reference, config.metric_success_conditions) if reference else None:
                what = f"no metric is named {reference!r}; did you mean {meant!r}?"
                raise _mistake(("metric_success_conditions", metric, "relative_to"), reference, what)
        return config

    @property
    def pods(self) -> int:
        return self.hosts * (self.job_set.slices if self.job_set else 1)

    @property
    def source(self) -> str:
        """The file that defines this test; empty for a test that is written in Python."""
        return self._source

    @classmethod
    def from_file(cls, content: dict[str, Any], source: str) -> Self:
        test = cls.model_validate(content)
        test._source = source  # noqa: SLF001  (an attribute of this class)
        return test

    @field_validator("name", mode="after")
    @classmethod
    def final_name(cls, name: str, info: ValidationInfo) -> str:
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
        accelerator = info.data.get("accelerator", CPU)
        if hosts and accelerator.topology and hosts != accelerator.hosts:
            raise ValueError(f"{accelerator.name} has {accelerator.hosts} hosts, not {hosts}; leave `hosts` out")
        return hosts or int(accelerator.hosts)


MAX_OUTAGE = timedelta(minutes=10)
"""How long an API server may be away: that of a zonal cluster, for example, is unavailable during upgrades."""
GRACE_PERIOD = timedelta(minutes=5)
"""How much longer the task may run than the pod: normally the cluster ends the pod at its deadline."""
RETRIES = 5
"""The retries of a task that only reads and writes. A workload has as many in which its process died."""
MAX_DELAY = timedelta(minutes=4)
"""The longest delay before another try of a task."""


def longest_attempt(test: TestDefinition) -> timedelta:
    """Scheduling its pods and starting them can each take the startup timeout, again after each planned fault."""
    starts = 1 + sum(fault.times for fault in test.faults)
    return starts * (2 * test.startup_timeout + test.timeout) + MAX_OUTAGE + GRACE_PERIOD


def longest_run(test: TestDefinition) -> timedelta:
    """With the delays before the attempts and before tries that take over."""
    return (test.retries + 1) * longest_attempt(test) + (test.retries + RETRIES) * MAX_DELAY


def doubts(test: TestDefinition) -> Iterator[str]:
    """What only a run would show: a variable that nothing sets, and a strategy that does not exist."""
    of_pods = ("MODEL_DIR", "ML_METRICS_RUN_DIR", "JOB_NAME", "POD_NAME", "POD_NAMESPACE", "POD_UID")
    known = {*of_pods, *test.env, *test.secrets}
    texts = "\n".join((*test.command, *test.args, *test.env.values()))
    for name in dict.fromkeys(re.findall(r"(?<!\$)\$\(([A-Z][A-Z0-9_]*)\)", texts)):
        if name not in known and not name.startswith(("KUBERNETES_", "ML_METRICS_", "OUTPUT_")):
            yield f"{test.source}: nothing sets the variable $({name}){did_you_mean(name, known)}"
    collection = test.metric_collection_config
    own_names = {*collection.metrics, *collection.expressions, *collection.sources.literals}
    for name in test.regression_test_config.metric_success_conditions:
        tag = name.removesuffix("_mean")
        if tag != name and name == without_strategy(name) and name not in own_names and not is_pattern(name):
            yield f"{test.source}: {name}: no strategy is named `mean`; did you mean '{tag}_average'?"
