"""The alerts, tried by Prometheus' own tool on made-up series: silent while all is well, and each alone when it should.

Every case begins with a healthy installation and changes some series of it.
"""

import json
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from testbed.promtool import find_promtool

RULES = Path(__file__).resolve().parents[3] / "deploy" / "observability" / "prometheus" / "argosy-alerts.yml"
ALERTS: dict[str, dict[str, Any]] = {
    rule["alert"]: rule
    for group in yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    for rule in group["rules"]
}
POOL = {"pool": "default"}
LEADER = 'job="argosy-server",instance="leader:9090"'
OTHER = 'job="argosy-server",instance="leader-2:9090"'
METHOD = "/argosy.api.v1.JobService/GetJob"
HALF_HOUR = 180
"""Samples in half an hour, one every ten seconds."""
HEALTHY = {
    **{
        f'up{{job="{job}",instance="{instance}"}}': "1+0x"
        for job, instance in (
            ("argosy-server", "api:9090"), ("argosy-server", "leader:9090"), ("argosy-sampler", "sampler-a:9090"),
            ("argosy-executor", "executor-a:9090"), ("argosy-kubernetes", "10.0.0.7:9090"),
            ("argosy-relay", "10.0.0.8:9090"), ("collector", "collector:8888"),
        )
    },
    f'argosy_leading{{pool="default",{LEADER}}}': "1+0x",
    f'argosy_leading{{pool="default",{OTHER}}}': "0+0x",  # it has led before
    f'argosy_known_clusters{{pool="default",{LEADER}}}': "2+0x",
    f'argosy_connected_samplers{{pool="default",{LEADER}}}': "2+0x",
    f'argosy_connected_executors{{pool="default",{LEADER}}}': "2+0x",
    'argosy_fenced{cluster="a"}': "0+0x",
    'argosy_unlistable_objects{cluster="a"}': "0+0x",
    f'argosy_quarantined_records_total{{pool="default",{LEADER}}}': "0+0x",
    f'argosy_suspects{{pool="default",{LEADER}}}': "0+0x",
    f'argosy_abandoned_rounds_total{{pool="default",{LEADER}}}': "0+0x",
    f'argosy_foreign_states_total{{pool="default",{LEADER}}}': "0+0x",
    f'argosy_ended_sessions_total{{pool="default",role="sampler",{LEADER}}}': "0+0x",
    'argosy_log_lag_records{pool="default"}': "3+0x",
    'argosy_queued_jobs{pool="default"}': "50+0x",
    'argosy_rounds_total{pool="default"}': "0+100x",
    'argosy_considered_seconds_bucket{le="1.0"}': "0+1000x",
    'argosy_considered_seconds_bucket{le="2.5"}': "0+1005x",
    'argosy_considered_seconds_bucket{le="+Inf"}': "0+1005x",
    'argosy_commit_conflicts_total{pool="default"}': "0+90x",
    'argosy_requeued_jobs_total{pool="default"}': "0+40x",
    'argosy_leased_runs_total{pool="default"}': "0+1000x",
    f"argosy_grpc_refused_total{{{LEADER}}}": "5+0x",
    f'argosy_grpc_faults_total{{method="{METHOD}",{LEADER}}}': "0+0x",
    'argosy_outbox_oldest_seconds{pool="default"}': "1+0x",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Case:
    """What is wrong, and who tells."""

    alert: str
    changed: dict[str, str] = field(default_factory=dict)
    """Series that differ from the healthy ones; an empty text takes one away. `+…x` goes on for half an hour."""
    labels: dict[str, str] = field(default_factory=dict)
    """Labels of the alert but its severity."""
    silent_s: int = 0
    """Moment at which nobody may tell yet."""
    firing_s: int
    """Moment by which it must be told."""


UP = {"api": 'up{job="argosy-server",instance="api:9090"}', "relay": 'up{job="argosy-relay",instance="10.0.0.8:9090"}'}
CASES = {
    "leader lost its lease": Case(
        alert="ArgosyNobodyLeads", changed={f'argosy_leading{{pool="default",{LEADER}}}': "1x6 0+0x"}, labels=POOL,
        silent_s=120, firing_s=140,
    ),
    "no leader since the beginning": Case(
        alert="ArgosyNobodyLeads",
        changed={f'argosy_leading{{pool="default",{one}}}': "" for one in (LEADER, OTHER)}, silent_s=50, firing_s=60,
    ),
    "an API replica is away": Case(
        alert="ArgosyServiceDown", changed={UP["api"]: "1x6 0+0x"}, silent_s=180, firing_s=190,
        labels={"job": "argosy-server", "instance": "api:9090"},
    ),
    "the relay is away": Case(
        alert="ArgosyServiceDown", changed={UP["relay"]: "1x6 0+0x"}, silent_s=180, firing_s=190,
        labels={"job": "argosy-relay", "instance": "10.0.0.8:9090"},
    ),
    "an executor on Kubernetes is away": Case(
        alert="ArgosyServiceDown", changed={'up{job="argosy-kubernetes",instance="10.0.0.7:9090"}': "1x6 0+0x"},
        silent_s=180, firing_s=190, labels={"job": "argosy-kubernetes", "instance": "10.0.0.7:9090"},
    ),
    "a sampler is missing": Case(
        alert="ArgosySamplerMissing", changed={f'argosy_connected_samplers{{pool="default",{LEADER}}}': "2x6 1+0x"},
        labels=POOL, silent_s=180, firing_s=190,
    ),
    "an executor is missing": Case(
        alert="ArgosyExecutorMissing", changed={f'argosy_connected_executors{{pool="default",{LEADER}}}': "2x6 1+0x"},
        labels=POOL, silent_s=180, firing_s=190,
    ),
    "an executor is fenced": Case(
        alert="ArgosyExecutorFenced", changed={'argosy_fenced{cluster="a"}': "0x6 1+0x"}, labels={"cluster": "a"},
        silent_s=180, firing_s=190,
    ),
    "objects cannot be listed": Case(
        alert="ArgosyObjectsUnlistable", changed={'argosy_unlistable_objects{cluster="a"}': "0x6 7+0x"},
        labels={"cluster": "a"}, silent_s=180, firing_s=190,
    ),
    "a record is quarantined": Case(
        alert="ArgosyQuarantine",
        changed={f'argosy_quarantined_records_total{{pool="default",{LEADER}}}': "0x6 1+0x"},
        labels={**POOL, "job": "argosy-server", "instance": "leader:9090"}, silent_s=60, firing_s=70,
    ),
    "a record was quarantined before the first look": Case(
        alert="ArgosyQuarantine",
        changed={f'argosy_quarantined_records_total{{pool="default",{LEADER}}}': "_x6 1+0x"},
        labels={**POOL, "job": "argosy-server", "instance": "leader:9090"}, silent_s=50, firing_s=70,
    ),
    "something ended a leader and is set aside": Case(
        alert="ArgosySuspects", changed={f'argosy_suspects{{pool="default",{LEADER}}}': "0x6 1+0x"}, labels=POOL,
        silent_s=60, firing_s=70,
    ),
    "a sampler says what it may not": Case(
        alert="ArgosySessionsEnded",
        changed={f'argosy_ended_sessions_total{{pool="default",role="sampler",{LEADER}}}': "0x6 1+1x"},
        labels={**POOL, "role": "sampler"}, silent_s=60, firing_s=80,
    ),
    "a cluster speaks of another's runs": Case(
        alert="ArgosyForeignStates",
        changed={f'argosy_foreign_states_total{{pool="default",{LEADER}}}': "0x6 1+1x"}, labels=POOL,
        silent_s=60, firing_s=80,
    ),
    "rounds fail": Case(
        alert="ArgosyRoundsFail",
        changed={f'argosy_abandoned_rounds_total{{pool="default",{LEADER}}}': "0x6 1+1x"}, labels=POOL,
        silent_s=180, firing_s=220,
    ),
    "Postgres takes too little": Case(
        alert="ArgosyLogFallsBehind", changed={'argosy_log_lag_records{pool="default"}': "3x6 1001+0x"}, labels=POOL,
        silent_s=180, firing_s=190,
    ),
    "rounds stand still": Case(
        alert="ArgosyRoundsStand", changed={'argosy_rounds_total{pool="default"}': "0+100x6 600+0x"}, labels=POOL,
        silent_s=600, firing_s=670,
    ),
    "events are not relayed": Case(
        alert="ArgosyEventsNotRelayed", changed={'argosy_outbox_oldest_seconds{pool="default"}': "0+10x"}, labels=POOL,
        silent_s=420, firing_s=430,
    ),
    "jobs are looked at late": Case(
        alert="ArgosyConsideredLate",
        changed={f'argosy_considered_seconds_bucket{{le="{le}"}}': "0+1020x" for le in ("2.5", "+Inf")},
        silent_s=590, firing_s=620,
    ),
    "nodes are filled by others": Case(
        alert="ArgosyCommitConflicts", changed={'argosy_commit_conflicts_total{pool="default"}': "0+110x"}, labels=POOL,
        silent_s=890, firing_s=920,
    ),
    "runs come back": Case(
        alert="ArgosyRequeues", changed={'argosy_requeued_jobs_total{pool="default"}': "0+60x"}, labels=POOL,
        silent_s=890, firing_s=920,
    ),
    "calls are refused": Case(
        alert="ArgosyCallsRefused", changed={f"argosy_grpc_refused_total{{{LEADER}}}": "0+1x"},
        labels={"job": "argosy-server", "instance": "leader:9090"}, silent_s=290, firing_s=320,
    ),
    "a call met a fault": Case(
        alert="ArgosyFaults",
        changed={f'argosy_grpc_faults_total{{method="{METHOD}",{LEADER}}}': "1x120 2+0x"}, labels={"method": METHOD},
        silent_s=1200, firing_s=1220,
    ),
    "the first call of a method met a fault": Case(
        alert="ArgosyFaults", changed={f'argosy_grpc_faults_total{{method="{METHOD}",{LEADER}}}': "_x120 1+0x"},
        labels={"method": METHOD}, silent_s=1190, firing_s=1220,
    ),
}  # fmt: skip


def text_of(template: str, labels: dict[str, str]) -> str:
    """Return an annotation as it is told."""
    return re.sub(r"\{\{ \$labels\.(\w+) \}\}", lambda found: labels.get(found[1], ""), template)


def told(alert: str, labels: dict[str, str]) -> dict[str, Any]:
    """Return an alert as promtool expects it."""
    rule = ALERTS[alert]
    return {
        "exp_labels": {**labels, **rule["labels"]},
        "exp_annotations": {name: text_of(text, labels) for name, text in rule["annotations"].items()},
    }


def sampled(values: str) -> str:
    """Return values that go on to the end of half an hour."""
    return values + str(HALF_HOUR) if values.endswith("x") else values


def group_of(name: str, series: dict[str, str], told_by: dict[int, dict[str, list[dict[str, Any]]]]) -> dict[str, Any]:
    """Return one test of promtool's: at each moment, what each alert tells."""
    return {
        "name": name,
        "interval": "10s",
        "input_series": [{"series": one, "values": sampled(values)} for one, values in series.items() if values],
        "alert_rule_test": [
            {"eval_time": f"{moment_s}s", "alertname": alert, "exp_alerts": telling.get(alert, [])}
            for moment_s, telling in told_by.items()
            for alert in ALERTS
        ],
    }


def run_promtool(tmp_path: Path, group: dict[str, Any]) -> str:
    """Return what promtool has against a test, empty if it passes."""
    document = {"rule_files": [str(RULES)], "evaluation_interval": "10s", "tests": [group]}
    path = tmp_path / "alerts.yml"
    path.write_text(json.dumps(document), encoding="utf-8")
    promtool = find_promtool(lambda line: sys.stderr.write(f"testbed: {line}\n"))
    done = subprocess.run([promtool, "test", "rules", str(path)], capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def test_every_alert_is_tried() -> None:
    """Whoever adds an alert says here when it must be told."""
    assert {case.alert for case in CASES.values()} == set(ALERTS)


def test_nobody_is_called_while_all_is_well(tmp_path: Path) -> None:
    """From the first minute on, with calls that were refused before and a standby beside the leader."""
    moments: dict[int, dict[str, list[dict[str, Any]]]] = {moment_s: {} for moment_s in (0, 60, 300, 1000, 1800)}
    assert run_promtool(tmp_path, group_of("healthy", HEALTHY, moments)) == ""


@pytest.mark.parametrize("name", CASES)
def test_alert_is_told_when_it_should_and_no_other(tmp_path: Path, name: str) -> None:
    """Not before its time, then with its words filled in; all other alerts stay silent."""
    case = CASES[name]
    assert set(case.changed) <= set(HEALTHY)
    firing = {case.alert: [told(case.alert, case.labels)]}
    group = group_of(name, HEALTHY | case.changed, {case.silent_s: {}, case.firing_s: firing})
    assert run_promtool(tmp_path, group) == ""
