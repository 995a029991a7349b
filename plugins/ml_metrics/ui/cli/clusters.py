"""Show the clusters of the setting `clusters`, or check them: Airflow's account, each permission of the Role in
docs/kubernetes.md, and the node pools, if Airflow may list nodes. Without the setting, the cluster of tests that name
none is checked. Exit code 1: a cluster gave no answer, or a permission is missing.

examples:
  ml-metrics clusters
  ml-metrics clusters check
  ml-metrics clusters check tpus --namespace ml-metrics --json
"""

from __future__ import annotations

import re
import sys
from contextlib import redirect_stdout
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ml_metrics.config.clusters import GOOGLE, ClusterAccess, configured_clusters, named_cluster
from ml_metrics.core.errors import MlMetricsError
from ml_metrics.core.settings import Settings
from ml_metrics.core.text import counted
from ml_metrics.ui.cli.arguments import Arguments, Parser, UsageError, add_json, add_timeout, add_value
from ml_metrics.ui.cli.output import give, table

if TYPE_CHECKING:  # importing Airflow logs, which no document may contain
    from ml_metrics.airflow import ClusterCheck, NodePool


DEFAULT = "(default)"


def add_arguments(parser: Parser) -> None:
    parser.add_argument("action", nargs="?", choices=("check",), help="ask the clusters")
    add_value(parser, "names", "NAME", "default: all", nargs="*")
    add_value(parser, "--namespace", "N", "the namespace; default: that of the cluster")
    add_timeout(parser, "a cluster may take to answer")
    add_json(parser)


def run(arguments: Arguments) -> int:
    if arguments.namespace and not re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", arguments.namespace):
        raise UsageError(f"--namespace {arguments.namespace!r} is not the name of a namespace")
    if arguments.action is None:
        return _show(arguments)
    for name in arguments.names:
        named_cluster(name, "NAME")
    names = arguments.names or sorted(configured_clusters().clusters) or [None]
    results = [_check(name, arguments.namespace, arguments.timeout) for name in names]
    documents = [{key: value for key, value in one.items() if key != "check"} for one in results]
    give(arguments, {"clusters": documents}, ["\n\n".join(map(_as_text, results))])
    return 0 if all(one["usable"] for one in results) else 1


def _show(arguments: Arguments) -> int:
    known = configured_clusters()
    found = {name: access for name in sorted(known.clusters) if (access := known.named(name))}
    documents = [{"cluster": name, **one.model_dump(mode="json")} for name, one in found.items()]
    rows = [(name, address_of(one), one.namespace or "-") for name, one in found.items()]
    shown = f"The setting `clusters` names no file; [ml_metrics] cluster = {Settings.load().cluster}"
    give(arguments, {"clusters": documents}, [table(("cluster", "connection", "namespace"), rows) if found else shown])
    return 0


def address_of(access: ClusterAccess) -> str:
    """How Airflow connects to a cluster, in words."""
    if access.in_cluster:
        return "the cluster in which Airflow runs"
    if not access.on_gke:
        return f"connection {access.kubernetes_conn_id}" + (f", context {access.context}" if access.context else "")
    endpoint = "DNS endpoint" if access.use_dns_endpoint else "internal address" if access.use_internal_ip else "public"
    become = f" as {access.impersonation_chain[-1]}" if access.impersonation_chain else ""
    return (
        f"GKE {access.project}/{access.location}/{access.name}, {endpoint}, by {access.gcp_conn_id or GOOGLE}{become}"
    )


def _check(name: str | None, namespace: str | None, seconds: int) -> dict[str, Any]:
    found: dict[str, Any] = {"cluster": name or DEFAULT}
    try:
        with redirect_stdout(sys.stderr):  # where Airflow logs, from its import on
            from ml_metrics.airflow import check_cluster

            check = check_cluster(name, namespace, seconds)
    except MlMetricsError as error:
        return {**found, "usable": False, "problem": str(error)}
    facts = asdict(check)
    facts["node_pools"] = facts.pop("pools")
    return {**found, "usable": not check.missing, **facts, "check": check}


def _as_text(result: dict[str, Any]) -> str:
    check: ClusterCheck | None = result.get("check")
    if check is None:
        return f"{result['cluster']}: cannot be used: {result['problem']}"
    return "\n".join([
        f"{result['cluster']}: Kubernetes {check.version} at {check.server}",
        f"  Airflow is   {check.user or 'unknown: clusters before Kubernetes 1.28 do not tell'}",
        f"  namespace    {check.namespace}",
        *_permissions(check),
        *([f"  not collected: {', '.join(check.beside_airflow)}, beside Airflow"] if check.beside_airflow else []),
        *([f"  faults       not possible: {check.faults}"] if check.faults else []),
        *_nodes(check.pools),
    ])  # fmt: skip


def _permissions(check: ClusterCheck) -> list[str]:
    if check.missing is None:
        return ["  permissions  unknown: the cluster does not report them"]
    if not check.missing:
        return ["  permissions  all that tests need"]
    kinds = {False: "  missing      ", True: "  for several hosts also missing: "}
    found = {kind: ", ".join(str(one) for one in check.missing if one.for_hosts is kind) for kind in kinds}
    lines = [head + found[kind] for kind, head in kinds.items() if found[kind]]
    return [*lines, f"  what to do   grant the Role of docs/kubernetes.md in {check.namespace} to that user"]


def _nodes(pools: tuple[NodePool, ...] | None) -> list[str]:
    if pools is None:
        return ["  nodes        unknown: Airflow may not list nodes, which no test needs"]
    if not pools:
        return ["  nodes        none now; node pools may grow from zero"]
    lines: list[str] = []
    for pool in pools:
        some = pool.devices or pool.accelerator
        has = f"{pool.devices} x {pool.accelerator or 'accelerator'} each" if some else "no accelerators"
        head = "" if lines else "  nodes"
        lines.append(
            f"{head:<14} {pool.name}: {counted(pool.nodes, 'node')}, {pool.ready} ready, {pool.machine}, {has}"
        )
    return lines
