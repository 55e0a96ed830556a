"""`argosy whoami`, `grant`, `revoke` and `grants`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from argosy_testkit.fake_api import FakeApi


def test_grants_are_given_listed_page_by_page_and_taken(api: FakeApi, argosy: Any) -> None:
    """Verbs on a queue and roles; the list has them all, however many pages it takes."""
    assert argosy("grant", "user:bob", "submit", "watch", "--queue", "red").code == 0
    assert argosy("grant", "group:ops", "operator").code == 0
    listed = json.loads(argosy("grants", "-o", "json").out)
    assert [(one["subject"], one["queue"], one["verb"]) for one in listed] == [
        ("group:ops", "", "operator"),
        ("user:bob", "red", "submit"),
        ("user:bob", "red", "watch"),
    ]
    assert argosy("revoke", "user:bob", "submit", "--queue", "red").code == 0
    assert [line.split() for line in argosy("grants").out.splitlines()[1:]] == [
        ["group:ops", "-", "operator"],
        ["user:bob", "red", "watch"],
    ]


def test_verb_that_is_none_is_refused_by_the_command(api: FakeApi, argosy: Any) -> None:
    """A misspelt verb does not reach the server."""
    assert argosy("grant", "user:bob", "submitt", "--queue", "red").code == 2
    assert api.requests["AddGrants"] == []


def test_whoami_says_name_groups_roles_and_verbs(argosy: Any) -> None:
    """What the server takes one for, on a few lines."""
    argosy("grant", "user:alice", "submit", "--queue", "red")
    assert argosy("whoami").out.splitlines() == [
        "alice",
        "groups: research",
        "roles: auditor",
        "on queues: submit on red",
    ]


def test_audit_says_who_did_what(api: FakeApi, argosy: Any) -> None:
    """Who, as whom, by which method and what of it; filters reach the server."""
    shown = argosy("audit", "--principal", "root", "--name", "red", "--since", "1h")
    assert shown.out.splitlines()[1].split()[1:] == ["root", "(by", "facade)", "CordonQueue", "Queue", "red", "repair"]
    (request,) = api.requests["ListAuditRecords"]
    assert (request.principal, request.name, request.HasField("create_time_from")) == ("root", "red", True)


def test_invitation_goes_to_a_file_of_its_own_and_nowhere_else(api: FakeApi, argosy: Any, tmp_path: Path) -> None:
    """The token is in the new file, mode 0600, and not shown; a file that is there is not overwritten."""
    file = tmp_path / "token"
    bounds = ("--max-capacity", "cpu=1000,memory=4Ti")
    shown = argosy("cluster", "invite", "west", "--lifetime", "2h", "--secret-file", str(file), *bounds)
    assert (shown.code, file.read_text()) == (0, "argosy_invitation_x\n")
    assert file.stat().st_mode & 0o777 == 0o600
    assert "argosy_invitation" not in shown.out
    assert argosy("cluster", "invite", "west", "--secret-file", str(file)).code == 2
    (request,) = api.requests["InviteCluster"]
    assert (request.name, request.lifetime.seconds) == ("west", 7200)
    assert request.max_capacity == {"cpu": 1_000_000, "memory": 4 << 40}


def test_capacity_of_a_cluster_is_bounded_and_shown(api: FakeApi, argosy: Any) -> None:
    """Amounts with commas or repeated, `none` for no bound; what is no amount is refused by the command."""
    shown = argosy("cluster", "set", "c1", "--max-capacity", "cpu=64,memory=1Ti", "--max-capacity", "x.y/gpu=8")
    assert (shown.code, "max capacity" in shown.out, "cpu 64" in shown.out) == (0, True, True)
    assert argosy("cluster", "set", "c1", "--max-capacity", "none").code == 0
    refused = argosy("cluster", "set", "c1", "--max-capacity", "cpu")
    assert (refused.code, "--max-capacity 'cpu' is no RESOURCE=AMOUNT" in refused.err) == (2, True)
    bound, lifted = api.requests["SetMaxCapacity"]
    assert dict(bound.amounts) == {"cpu": 64_000, "memory": 1 << 40, "x.y/gpu": 8}
    assert dict(lifted.amounts) == {}


def test_revoking_a_cluster_wants_yes(api: FakeApi, argosy: Any) -> None:
    """Without a terminal nobody is cut off by a slip."""
    assert argosy("cluster", "revoke", "west").code == 2
    assert argosy("cluster", "revoke", "west", "-y").code == 0
    (request,) = api.requests["RevokeCluster"]
    assert request.name == "west"


def test_policy_of_a_queue_is_set_from_a_file_and_shown_as_one(api: FakeApi, argosy: Any, tmp_path: Path) -> None:
    """YAML in, JSON on the wire, YAML out; without a policy the installation's holds."""
    file = tmp_path / "policy.yaml"
    file.write_text("level: restricted\nhostPorts: [30000-30100]\n")
    assert argosy("queue", "policy", "set", "red", "-f", str(file)).code == 0
    assert json.loads(api.policies["red"]) == {"level": "restricted", "hostPorts": ["30000-30100"]}
    assert argosy("queue", "policy", "get", "red").out == "level: restricted\nhostPorts:\n- 30000-30100\n"
    assert argosy("queue", "policy", "set", "red", "--none").code == 0
    assert argosy("queue", "policy", "get", "red").out.startswith("# queue red has the installation")
    assert argosy("queue", "policy", "set", "red").code == 2
