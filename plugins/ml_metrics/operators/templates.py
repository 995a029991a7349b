"""How a workload's operator fills in the templates of a test, and applies the policy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ml_metrics.config.by_hand import refused_by_hand
from ml_metrics.config.pod_keys import unknown_in
from ml_metrics.config.pod_security import PodRules
from ml_metrics.config.policy import current_policy
from ml_metrics.config.policy_check import refused_in
from ml_metrics.config.problems import dotted
from ml_metrics.config.templates import known_of, rendered
from ml_metrics.connections import uses_local_cluster
from ml_metrics.errors import ConfigError
from ml_metrics.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Mapping

    import jinja2
    from airflow.sdk import Context

    from ml_metrics.config.definition import TestDefinition

SHOWN = ("image", "cmds", "arguments")
"""The fields whose values Airflow records and shows."""


class FillsInTemplates:
    """The part of an operator that fills in templates: with the parameters and dates of a run, and nothing else.

    The provider's operators would render every field with Airflow's whole context, which has each connection and
    variable. Here they get literals, unless the policy says otherwise.
    """

    template_fields: Any = SHOWN
    template_ext: Any = ()
    template_fields_renderers: dict[str, str] = {}  # noqa: RUF012  (Airflow's own type)
    test: TestDefinition

    def render_template_fields(self, context: Context, jinja_env: jinja2.Environment | None = None) -> None:
        """Fill in image and argv, which Airflow records and shows."""
        if current_policy().airflow_templates:
            super().render_template_fields(context, jinja_env)  # type: ignore[misc]
            return
        known = known_of(context)
        for name in SHOWN:
            setattr(self, name, rendered(getattr(self, name), known, f"{self.test.name}: {name}"))

    def filled_in(self, template: dict[str, Any], context: Context) -> dict[str, Any]:
        """Return the template of a pod with the values of a run."""
        if current_policy().airflow_templates:
            full: dict[str, Any] = self.render_template(template, context)  # type: ignore[attr-defined]
            return full
        filled: dict[str, Any] = rendered(template, known_of(context), f"{self.test.name}: pod")
        return filled

    def check_by_hand(self, given: Mapping[str, Any]) -> None:
        """Raise ConfigError if the policy refuses the input of the user who triggered the run."""
        if found := "; ".join(refused_by_hand(self.test, given, current_policy())):
            raise ConfigError(f"{self.test.name}: the policy of the administrator refuses this run: {found}")

    def check_policy(self, pod: Any, namespace: str) -> None:
        """Raise ConfigError if the policy refuses a pod, as the cluster would get it."""
        from kubernetes.client import ApiClient

        policy, plain = current_policy(), ApiClient().sanitize_for_serialization(pod)
        # no namespace of the local cluster is that of Airflow
        place = None if self.test.cluster is None and uses_local_cluster(Settings.load()) else namespace
        # by the keys of the test first, which its author knows
        found = [*unknown_in(self.test), *refused_in(self.test, policy, place)]
        if found := found or list(PodRules(policy.in_namespace(place)).of_pod(plain)):
            refused = "; ".join(f"{dotted(where)}: {what}" for where, what in found)
            raise ConfigError(f"{self.test.name}: the policy of the administrator refuses this pod: {refused}")
