"""The queries of the dashboards, and what Prometheus has to say to them."""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.parse
import urllib.request

from .stack import ROOT

NOT_YET = {
    "argosy_grpc_faults_total",
    "argosy_held_back_creates_total",
    "argosy_shipped_logs_total",
    "argosy_kube_calls_total",
    "argosy_kube_watch_heard_timestamp_seconds",
    "argosy_plugin_faults_total",
    "argosy_changed_jobs_total",
    "argosy_grpc_refused_total",
    "argosy_autoscaled_pods",
    "argosy_pod_resizes_total",
    "argosy_usage_failures_total",
    "argosy_contract_answers_total",
    "argosy_delegated_placements_total",
    "argosy_returned_placements_total",
}
"""Metrics without a series where no call or plugin failed or was refused, no quota was reached, no job was cancelled,
no cluster is delegated, and no API server and no agent is."""


def dashboard_queries() -> set[str]:
    """Return every query of the dashboards, with what Grafana would put in place of its variables."""
    paths = sorted((ROOT / "deploy" / "observability" / "grafana" / "dashboards").glob("*.json"))
    panels = [panel for path in paths for panel in json.loads(path.read_text(encoding="utf-8"))["panels"]]
    queries = [target["expr"] for panel in panels for target in panel["targets"]]
    assert len(queries) > 40
    values = {"$__rate_interval": "40s", "$cluster": ".*", "$pool": ".*"}
    return {re.sub(r"\$\w+", lambda found: values[found[0]], query) for query in queries}


def evaluate(port: str, query: str) -> str:
    """Return `success`, or what Prometheus has against a query."""
    url = f"http://127.0.0.1:{port}/api/v1/query?{urllib.parse.urlencode({'query': query})}"
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return str(json.load(answer)["status"])
    except urllib.error.HTTPError as error:
        return error.read().decode()


def is_so(port: str, condition: str) -> bool:
    """Return whether Prometheus has any series for which a condition holds."""
    url = f"http://127.0.0.1:{port}/api/v1/query?{urllib.parse.urlencode({'query': condition})}"
    with urllib.request.urlopen(url, timeout=10) as answer:
        return bool(json.load(answer)["data"]["result"])
