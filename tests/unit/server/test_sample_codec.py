"""Requests and placements over the wire, from the leader's codec to the sampler's."""

from __future__ import annotations

from dataclasses import fields

import numpy as np

from argosy_core.job.tables.members import Members
from argosy_core.placement import CommitRequest, Placements, SampleReply, SampleRequest, WaitReason
from argosy_sampler.codec import read_commit, read_dropped_classes, read_placements, read_sample, sample_response
from argosy_server.leader.sessions.cluster_codec import commit_request, placement_parts, sample_reply, sample_request


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
        for_promise=np.array([False, True]),
        node_score="fewest-nodes",
        kept=np.array([4, 6], np.int32),
        going=Members.of([7, 7, 9], [2, 2, 1], np.array([0, 1, 0])),
    )
    message = sample_request(went, epoch=1, classes=[], dropped=(4, 9))
    came = read_sample(message)
    columns = ("class_ids", "wanted", "complete", "for_promise", "kept")
    alone = (
        "round_number",
        "resources",
        "nodes_to_sample_ratio",
        "deadline_ms",
        "strategy",
        "extra_count",
        "node_score",
    )
    assert [getattr(came, name).tolist() for name in columns] == [getattr(went, name).tolist() for name in columns]
    assert [getattr(came, name) for name in alone] == [getattr(went, name) for name in alone]
    assert read_dropped_classes(message) == [4, 9]
    assert came.going.pairs() == went.going.pairs()


def test_sample_reply_comes_as_it_went() -> None:
    """Also what most answers leave out."""
    went = SampleReply(
        incarnation=3,
        node=np.array([7], np.int32),
        free=np.array([[1000, 5]], np.int64),
        offset=np.array([0, 1, 1], np.int32),
        candidate=np.zeros(1, np.int32),
        score=np.array([0.5], np.float32),
        examined=np.array([4, 9], np.int32),
        eligible=np.array([1, 0], np.int32),
        filters=("taints",),
        filter_texts=("tainted: {nodes}",),
        rejection=np.array([[0], [9]], np.int32),
        total_free=np.array([4000, 50], np.int64),
        complete=np.array([0, 1], np.int8),
        nearest_misses=("", "n1 lacks 1 cpu"),
        reason=np.array([0, int(WaitReason.PLUGIN)], np.int8),
        texts=("", "closed"),
        retry_after_s=np.array([0, 2.5], np.float32),
        node_kinds=np.array([-1, 5], np.int64),
        could_hold_offset=np.array([0, 0, 1], np.int32),
        could_hold=np.zeros(1, np.int32),
    )
    asked = SampleRequest(
        round_number=7,
        class_ids=np.array([3, 5], np.int32),
        wanted=np.ones(2, np.int32),
        complete=np.zeros(2, np.int8),
        resources=("cpu", "pods"),
        nodes_to_sample_ratio=0.5,
    )
    came = sample_reply(sample_response(went, asked), asked)
    for field in fields(SampleReply):
        expected, found = getattr(went, field.name), getattr(came, field.name)
        assert np.array_equal(expected, found), field.name


def test_members_that_are_committed_and_listed_come_as_they_went() -> None:
    """Two members of one run on two nodes stay two on their way to the sampler."""
    members = Members.of([7, 7], [2, 2], np.array([0, 1]))
    ones, places = np.ones(2, np.int32), np.arange(3, dtype=np.int32)
    asked = CommitRequest(members=members, class_ids=ones, offset=places, candidate=places[:2])
    assert read_commit(commit_request(asked, epoch=1)).members.pairs() == members.pairs()
    listed = Placements(members=members, class_ids=ones, node=places[:2], nodes=("n1", "n2"))
    (part,) = placement_parts(listed, [])
    assert read_placements(part).members.pairs() == members.pairs()
