"""Groups of a distributed job as people write them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from argosy_client.documents import DocumentOptions, name_places, parse_documents, read_documents
from argosy_core.errors import FieldViolation, InvalidRequest
from argosy_core.job.reading.group_spec import read_group_bag
from argosy_core.job.reading.pod_groups import member_bags
from argosy_core.job.reading.spec import SpecLimits
from argosy_core.job.tables.members import ordinal_of
from argosy_core.reconcile.rendering import BagTemplate, RunIdentity
from argosy_local.processes import free_ports

GROUPS = """\
queue: tides
jobSet: march
spec:
  groups:
  - name: head
    min: 1
    template: {spec: {containers: [{name: main}]}}
  - name: work
    min: 2
    max: 4
    after: head
    maxHops: 2
    sharesNodes: true
    template: {metadata: {labels: {a: b}}, spec: {containers: [{name: main}]}}
"""


def test_groups_of_a_distributed_job_are_read() -> None:
    """A template is a pod without saying so, and what is left out of a group is its maximum and whole nodes."""
    (draft,) = parse_documents(GROUPS, source="f.yaml", options=DocumentOptions())
    head, work = draft.groups
    assert draft.manifests == ()
    assert (head.name, head.minimum, head.maximum, head.max_hops, head.whole_nodes) == ("head", 1, 1, -1, True)
    assert (work.minimum, work.maximum, work.max_hops, work.whole_nodes, work.after) == (2, 4, 2, False, "head")
    assert json.loads(work.template)["kind"] == "Pod"


@pytest.mark.parametrize(
    ("change", "place", "what"),
    [
        (("    min: 2\n", ""), "f.yaml:8:", "spec.groups[1].min: is missing"),
        (("min: 2", "min: 0"), "f.yaml:9:", "spec.groups[1].min: must be a whole number from 1 to 1000, not 0"),
        (("maxHops", "maxHopps"), "f.yaml:12:", "is no field of a group; did you mean maxHops?"),
        (("sharesNodes: true", "sharesNodes: 0"), "f.yaml:13:", "spec.groups[1].sharesNodes: must be true or false"),
        (
            ("  groups:", "  grups: []\n  groups:"),
            "f.yaml:4:",
            "spec.grups: is no field of a spec; did you mean groups?",
        ),
        (("  - name: work", "  - 5\n  - name: work"), "f.yaml:8:", "spec.groups[1]: must be a mapping"),
    ],
)
def test_mistake_in_a_group_is_told_with_its_place(change: tuple[str, str], place: str, what: str) -> None:
    """A fault names file, line, column and field, and what was probably meant."""
    with pytest.raises(InvalidRequest) as told:
        parse_documents(GROUPS.replace(*change), source="f.yaml", options=DocumentOptions())
    faults = [violation.description for violation in told.value.violations]
    assert any(fault.startswith(place) and what in fault for fault in faults), faults


def test_servers_fault_of_a_group_is_told_with_its_place() -> None:
    """What a server says of a template is found in the file as it is written there."""
    drafts = parse_documents(GROUPS, source="f.yaml", options=DocumentOptions())
    fault = FieldViolation(field="specs[0].groups[1].template.metadata.labels.a", description="is bad")
    named = name_places(InvalidRequest("specs[0]", violations=(fault,)), drafts)
    (told,) = named.violations
    assert told.field == "f.yaml:14:36: document 1: spec.groups[1].template.metadata.labels.a"


DISTRIBUTED_EXAMPLE = Path(__file__).parents[3] / "examples" / "distributed-job.yaml"


def test_example_of_a_distributed_job_adds_up() -> None:
    """The example is accepted as it stands, and its members find each other by what they are told."""
    (draft,) = read_documents([str(DISTRIBUTED_EXAMPLE)], DocumentOptions())
    bag = read_group_bag([manifest.encode() for manifest in draft.manifests], draft.groups, SpecLimits())
    assert (bag.violations, bag.field_faults, bag.warnings) == ((), (), ())
    bags = member_bags(bag.body)
    (program,) = json.loads(draft.manifests[0])["data"].values()
    program = program.replace("29500", str(free_ports(1)[0]))
    members = []
    for member, group in enumerate(bags.group_of):
        run = RunIdentity(installation="i", handle=5, ordinal=ordinal_of(1, member), id_high=1, queue="q", job_set="s")
        (container,) = BagTemplate(bags.bodies[group]).render(2, run)["spec"]["containers"]
        told = {one["name"]: one["value"] for one in container["env"]}
        told["ARGOSY_PEERS"] = ",".join(["127.0.0.1"] * len(told["ARGOSY_PEERS"].split(",")))
        command = [sys.executable, "-c", program]
        members.append(subprocess.Popen(command, env=told, stdout=subprocess.PIPE, text=True))
    texts = [member.communicate(timeout=30)[0] for member in members]
    assert [member.returncode for member in members] == [0, 0, 0, 0]
    assert texts[0] == "the sum is 499999500000\n"
