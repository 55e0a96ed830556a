"""Requests and placements over the wire, from the leader's codec to the sampler's."""

from __future__ import annotations

import numpy as np

from argosy_core.job.members import Members
from argosy_core.placement import CommitRequest, Placements, SampleRequest
from argosy_sampler.codec import read_commit, read_placements, read_sample
from argosy_server.leader.sessions.cluster_codec import commit_request, placement_parts, sample_request


def test_sample_request_comes_as_it_went() -> None:
    """A column or number that one of the codecs forgets would be asked with its default."""
    went = SampleRequest(
        round_number=7,
        class_ids=np.array([3, 5], np.int32),
        wanted=np.array([1, 2], np.int32),
        complete=np.array([0, 1], np.int8),
        resources=("cpu", "memory"),
        nodes_to_sample_ratio=0.25,
        deadline_ms=150,
        strategy="round-robin",
        extra_count=9,
    )
    came = read_sample(sample_request(went, epoch=1, classes=[]))
    columns = ("class_ids", "wanted", "complete")
    fields = ("round_number", "resources", "nodes_to_sample_ratio", "deadline_ms", "strategy", "extra_count")
    assert [getattr(came, name).tolist() for name in columns] == [getattr(went, name).tolist() for name in columns]
    assert [getattr(came, name) for name in fields] == [getattr(went, name) for name in fields]


def test_members_that_are_committed_and_listed_come_as_they_went() -> None:
    """Two members of one run on two nodes stay two on their way to the sampler."""
    members = Members.of([7, 7], [2, 2], np.array([0, 1]))
    ones, places = np.ones(2, np.int32), np.arange(3, dtype=np.int32)
    asked = CommitRequest(members=members, class_ids=ones, offset=places, candidate=places[:2])
    assert read_commit(commit_request(asked, epoch=1)).members.pairs() == members.pairs()
    listed = Placements(members=members, class_ids=ones, node=places[:2], nodes=("n1", "n2"))
    (part,) = placement_parts(listed, [])
    assert read_placements(part).members.pairs() == members.pairs()
