"""`argosy apply`: files become what they declare, shown before, and refused whole."""

from pathlib import Path
from typing import Any

import pytest

from argosy_client import Queue
from argosy_client.declared import Present, compare
from argosy_client.declared_reader import read_declared
from argosy_core.access import Grant
from argosy_core.errors import InvalidRequest
from argosy_testkit.fake_api import FakeApi

FILE = """\
queues:
  - name: tides
    parent: science
    weight: 3
  - name: science
    maxRunningAmounts: {cpu: "64", memory: 1Gi}
    cordon: {reason: audit}
    grants:
      - {subject: "group:sea", verbs: [submit, watch]}
roles:
  - {subject: "user:ada", roles: [operator]}
clusters:
  - name: c1
    cordon: {reason: move}
    cordonedNodes: [{name: n1, reason: disk}]
"""


def test_file_is_shown_then_applied_and_then_holds(api: FakeApi, argosy: Any, tmp_path: Path) -> None:
    """A dry run changes nothing, the real one what was shown, a second one nothing; parents come first."""
    path = tmp_path / "queues.yaml"
    path.write_text(FILE)
    checked = argosy("apply", "-f", str(path), "--dry-run")
    assert (checked.code, api.queues, api.grants) == (0, {}, {})
    made = argosy("apply", "-f", str(path))
    assert made.code == 0, made.err
    assert made.out == checked.out
    assert made.out.splitlines() == [
        "+ queue science",
        "    maxRunningAmounts: {cpu: 64, memory: 1Gi}",
        "~ cordon queue science: audit",
        "+ queue tides",
        "    parent: science",
        "    weight: 3",
        "+ grant user:ada operator",
        "+ grant group:sea submit on science",
        "+ grant group:sea watch on science",
        "~ cordon cluster c1: move",
        "~ cordon node c1/n1: disk",
    ]
    assert (api.queues["tides"].parent, api.queues["tides"].weight) == ("science", 3)
    assert dict(api.queues["science"].max_running_amounts) == {"cpu": 64000, "memory": 1 << 30}
    assert argosy("apply", "-f", str(path)).out == "everything is as declared\n"


def test_change_shows_old_and_new_and_takes_away_what_lists_no_longer_hold(
    api: FakeApi, argosy: Any, tmp_path: Path
) -> None:
    """Lists are whole, other fields stay as they are where the file says nothing."""
    path = tmp_path / "queues.yaml"
    path.write_text(FILE)
    assert argosy("apply", "-f", str(path)).code == 0
    path.write_text(
        "queues:\n- {name: science, weight: 0.5, cordon: null, grants: [{subject: 'user:bob', verbs: [submit]}]}\n"
        "clusters: [{name: c1, cordonedNodes: []}]\n"
    )
    assert argosy("apply", "-f", str(path)).out.splitlines() == [
        "~ queue science",
        "    weight: 1 -> 0.5",
        "~ uncordon queue science",
        "+ grant user:bob submit on science",
        "- grant group:sea submit on science",
        "- grant group:sea watch on science",
        "~ uncordon node c1/n1",
    ]
    assert dict(api.queues["science"].max_running_amounts) == {"cpu": 64000, "memory": 1 << 30}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("queues: [{name: a, wieght: 2}]", "queues[0].wieght: is not known here; did you mean weight?"),
        ("queues: [{name: a}, {name: a}]", "declares queue a a second time"),
        ("queues: [{name: A}]", "lower-case letters"),
        ("queues: [{name: a, weight: -1}]", "queues[0].weight: must be a number from 0"),
        ("queues: [{name: a, maxRunningCount: 1.5}]", "must be a whole number"),
        ("queues: [{name: a, maxRunningAmounts: {cpu: many}}]", "must be a quantity"),
        ("queues: [{name: a, parent: b}]", "is b, a queue that neither exists nor is declared"),
        ("queues: [{name: a, parent: b}, {name: b, parent: a}]", "makes a circle: a below b below a"),
        ("queues: [{name: a, grants: [{subject: ada, verbs: [submit]}]}]", "must be user:NAME or group:NAME"),
        ("queues: [{name: a, grants: [{subject: 'user:ada', verbs: [sumbit]}]}]", "holds 'sumbit'; there are submit"),
        ("roles: [{subject: 'user:a', roles: [king]}]", "there are admin"),
        ("clusters: [{name: nope, cordon: true}]", "is nope, a cluster that has never connected"),
        ("clusters: [{name: c1, cordonedNodes: [{name: nope}]}]", "names nope, which cluster c1 does not have"),
        ("queue: []", "queue: is not known here; did you mean queues?"),
        ("{}", "declares nothing"),
    ],
)
def test_wrong_file_is_refused_whole_with_its_place(
    *, api: FakeApi, argosy: Any, tmp_path: Path, text: str, said: str
) -> None:
    """Whatever is right beside it is not done either."""
    path = tmp_path / "wrong.yaml"
    path.write_text(f"{text}\n---\nqueues: [{{name: right}}]\n" if text != "{}" else text)
    outcome = argosy("apply", "-f", str(path))
    assert outcome.code == 2
    assert said in outcome.err
    assert "wrong.yaml" in outcome.err
    assert api.queues == {}


def test_pool_of_a_queue_and_too_many_levels_are_refused() -> None:
    """What the server would refuse in the middle is found before the beginning."""
    queues = {"a": Queue(name="a", pool="default")}
    present = Present(queues=queues, grants=frozenset[Grant](), clusters={}, nodes={})
    with pytest.raises(InvalidRequest, match="is gpus, but the queue is of pool default"):
        compare(read_declared("queues: [{name: a, pool: gpus}]", source="f.yaml"), present)
    chain = ", ".join(f"{{name: q{n}, parent: q{n - 1}}}" if n else "{name: q0}" for n in range(9))
    with pytest.raises(InvalidRequest, match="level 9; at most 8"):
        compare(read_declared(f"queues: [{chain}]", source="f.yaml"), present)


def test_printed_queues_can_be_applied(api: FakeApi, argosy: Any, tmp_path: Path) -> None:
    """What `queue list` prints is a file of declarations."""
    argosy("queue", "create", "science", "--weight", "2", "--max-amount", "cpu=4", "--preempts-endless")
    path = tmp_path / "printed.yaml"
    path.write_text(argosy("queue", "list", "-o", "yaml").out)
    assert argosy("apply", "-f", str(path)).out == "everything is as declared\n"
    api.queues["science"].weight = 7
    assert "weight: 7 -> 2" in argosy("apply", "-f", str(path)).out
    path.write_text("queues: [{name: science, preemptsEndless: 1}]")
    assert "must be true or false" in argosy("apply", "-f", str(path)).err
