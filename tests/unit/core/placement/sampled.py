"""Small clusters that are asked for candidates."""

import numpy as np

from argosy_core.job.reading.classes import SchedulingClass
from argosy_core.job.tables.members import Members
from argosy_core.ledger import NodeLedger
from argosy_core.nodes import NodeSpec
from argosy_core.placement import NodeSampler, SampleReply, SampleRequest, commit


def make_ledger(cores: list[int], classes: list[int], **fields: object) -> NodeLedger:
    """Nodes with the given cores, and classes that ask for the given cores."""
    ledger = NodeLedger()
    ledger.put_nodes([NodeSpec(name=f"n{i}", total={"cpu": cpu, "memory": 1000}) for i, cpu in enumerate(cores)])
    for class_id, cpu in enumerate(classes):
        ledger.define_class(class_id, SchedulingClass(requests=(("cpu", cpu),), **fields))  # type: ignore[arg-type]
    return ledger


def ask(
    sampler: NodeSampler | NodeLedger,
    *class_ids: int,
    wanted: int = 1,
    complete: bool = False,
    ratio: float = 0.04,
    seed: int = 0,
    **fields: object,
) -> SampleReply:
    """Ask for candidates of some classes."""
    sampler = sampler if isinstance(sampler, NodeSampler) else NodeSampler(sampler)
    request = SampleRequest(
        class_ids=np.array(class_ids, np.int32),
        wanted=np.full(len(class_ids), wanted, np.int32),
        complete=np.full(len(class_ids), complete, np.int8),
        resources=fields.pop("resources", ("cpu", "pods")),  # type: ignore[arg-type]
        nodes_to_sample_ratio=ratio,
        **fields,  # type: ignore[arg-type]
    )
    return sampler.sample(request, np.random.default_rng(seed))


def candidates(reply: SampleReply, position: int = 0) -> list[int]:
    """Rows of the candidates of a class, best first."""
    return reply.node[reply.candidate[reply.offset[position] : reply.offset[position + 1]]].tolist()


def take(ledger: NodeLedger, node: int, class_id: int, handle: int) -> bool:
    """Place a run on a node; whether it could be."""
    nodes, _ = commit(
        ledger,
        Members.of([handle], [1]),
        class_ids=np.array([class_id], np.int32),
        offsets=np.array([0, 1], np.int32),
        candidates=np.array([node], np.int32),
    )
    return bool(nodes[0] >= 0)
