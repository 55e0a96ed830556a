"""ChangeRequests, and how they and leases see each other."""

import threading

import numpy as np
import pytest

from argosy_core.job.states import JobState
from argosy_store import BoundedFilter, Effects, JobFilter, LabelRequirement, LeaderStore
from argosy_store.replicas import change_requests as change_requests_module
from argosy_testkit.store_world import StoreWorld, encode_change_requests
from argosy_testkit.submissions import make_job_ends, make_leases


def news(world: StoreWorld) -> list[bytes]:
    """Return what the leader hears of change requests."""
    return [payload for _, payload in world.leader.read_changes(1000) if payload.startswith(b"asked")]


def test_cancel_ends_jobs_without_a_live_run_and_marks_the_others(world: StoreWorld) -> None:
    """A job without a run ends in the transaction of the change request; otherwise the leader acts."""
    handles = world.submit_jobs(4)
    waiting, live, ended, other = handles.tolist()
    world.lease(np.array([live]))
    world.leader.apply(world.epoch, Effects(job_updates=make_job_ends(np.array([ended]))))
    result = world.api.set_change_requests(
        None, [live, waiting, ended, 12345], "cancel", encode=encode_change_requests, reason="no use"
    )
    assert result.job_count == 2
    jobs = {job.handle: job for job in world.list_jobs(JobFilter())}
    assert (jobs[waiting].state, jobs[waiting].reason) == (JobState.CANCELLED, "no use")
    assert jobs[waiting].end_time_us is not None
    assert (jobs[live].state, jobs[live].cancel_requested, jobs[live].end_time_us) == (JobState.LEASED, True, None)
    assert jobs[ended].state == JobState.SUCCEEDED
    assert not jobs[other].cancel_requested
    assert news(world) == [b"asked %d:1,%d:0" % (waiting, live)]


def test_reason_of_a_cancel_stays_with_the_job_that_ends_later(world: StoreWorld) -> None:
    """Why somebody cancelled is told of a job that was running as of one that waited; not of one that had ended."""
    stopped, won = world.submit_jobs(2).tolist()
    world.lease(np.array([stopped, won]))
    world.api.set_change_requests(None, [stopped, won], "cancel", encode=encode_change_requests, reason="no use")
    ends = (make_job_ends(np.array([stopped]), JobState.CANCELLED), make_job_ends(np.array([won]), JobState.SUCCEEDED))
    for end in ends:
        world.leader.apply(world.epoch, Effects(job_updates=end))
    assert [job.reason for job in world.api.get_jobs([stopped, won])] == ["no use", None]


def test_cancel_twice_tells_the_leader_once(world: StoreWorld) -> None:
    """Repeating a change request changes nothing; it still counts the jobs it is set on."""
    handles = world.submit_jobs(1)
    world.lease(handles)
    first = world.api.set_change_requests("default", handles, "cancel", encode=encode_change_requests)
    again = world.api.set_change_requests("default", handles, "cancel", encode=encode_change_requests)
    assert first == again
    assert len(news(world)) == 1


def test_change_requests_are_bound_to_their_pool(world: StoreWorld) -> None:
    """With a pool named, jobs of other pools are not meant; each pool's leader hears of its own."""
    other = world.api.create_queue("gpu", weight=1, pool="gpu", create_time_us=1, encode=lambda _: b"queue")
    mine = world.submit_jobs(1)
    theirs = world.submit_jobs(1, queue_id=other.queue_id, pool="gpu")
    both = np.concatenate([mine, theirs])
    assert world.api.set_change_requests("default", both, "cancel", encode=encode_change_requests).job_count == 1
    assert world.api.set_change_requests(None, both, "cancel", encode=encode_change_requests).job_count == 1
    assert [job.state for job in world.api.get_jobs(both.tolist())] == [JobState.CANCELLED] * 2
    assert news(world) == [b"asked %d:1" % mine[0]]


def test_a_filter_means_the_jobs_that_existed_when_the_change_request_was_taken(world: StoreWorld) -> None:
    """A selector has an upper bound; later jobs are not meant."""
    early = world.submit_jobs(3, metadata=(b'{"labels": {"app": "x"}}', b'{"labels": {"app": "y"}}'))
    bound = world.api.highest_handle()
    late = world.submit_jobs(2, metadata=(b'{"labels": {"app": "x"}}',))
    chosen = JobFilter(
        queue_id=world.queue.queue_id,
        job_set="nightly",
        labels=(LabelRequirement(key="app", operator="In", values=("x",)),),
    )
    target = BoundedFilter(job_filter=chosen, upper_handle=bound)
    assert world.api.count_change_requests(target) == 2
    assert world.api.sample_change_requests(target, 20) == early[[0, 2]].tolist()
    assert world.api.set_change_requests(None, target, "cancel", encode=encode_change_requests).job_count == 2
    states = [job.state for job in world.list_jobs(JobFilter())]
    assert states == [6, 1, 6, 1, 1]
    assert late[0] > bound


def test_change_requests_are_applied_in_chunks(world: StoreWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """No transaction holds more jobs than a chunk, and every job is reached, by handles and by filter."""
    monkeypatch.setattr(change_requests_module, "CHUNK", 4)
    handles = world.submit_jobs(10)
    result = world.api.set_change_requests(None, handles, "reprioritize", encode=encode_change_requests, priority=5)
    assert result.job_count == 10
    target = BoundedFilter(job_filter=JobFilter(queue_id=world.queue.queue_id), upper_handle=int(handles[-1]))
    assert world.api.set_change_requests(None, target, "cancel", encode=encode_change_requests).job_count == 10
    assert [line.count(b":") for line in news(world)] == [4, 4, 2, 4, 4, 2]
    assert {job.state for job in world.list_jobs(JobFilter())} == {6}
    assert {job.priority for job in world.list_jobs(JobFilter())} == {5}


def test_reprioritize_changes_open_jobs_only(world: StoreWorld) -> None:
    """Ended jobs keep their priority; jobs that have it already are no news."""
    handles = world.submit_jobs(3, priority=1)
    world.leader.apply(world.epoch, Effects(job_updates=make_job_ends(handles[:1])))
    world.api.set_change_requests(None, handles[1:2], "reprioritize", encode=encode_change_requests, priority=4)
    world.api.set_change_requests(None, handles, "reprioritize", encode=encode_change_requests, priority=4)
    assert [job.priority for job in world.list_jobs(JobFilter())] == [1, 4, 4]
    assert news(world) == [b"asked %d:0" % handles[1], b"asked %d:0" % handles[2]]


def test_a_job_that_ends_while_a_change_request_is_on_its_way_stays_as_it_ended(
    world: StoreWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A change request finds its jobs first and sets itself later; what ended in between is not touched."""
    handles = world.submit_jobs(2)
    look_up = change_requests_module._look_up

    def look_up_and_end(*arguments: object) -> object:
        found = look_up(*arguments)  # type: ignore[arg-type]
        world.leader.apply(world.epoch, Effects(job_updates=make_job_ends(handles[:1])))
        return found

    monkeypatch.setattr(change_requests_module, "_look_up", look_up_and_end)
    world.api.set_change_requests(None, handles, "cancel", encode=encode_change_requests)
    assert [job.state for job in world.list_jobs(JobFilter())] == [JobState.SUCCEEDED, JobState.CANCELLED]
    assert news(world) == [b"asked %d:1" % handles[1]]


def test_preview_changes_nothing(world: StoreWorld) -> None:
    """A preview counts, shows a sample and sets nothing."""
    handles = world.submit_jobs(25)
    target = BoundedFilter(job_filter=JobFilter(queue_id=world.queue.queue_id), upper_handle=int(handles[-1]))
    assert world.api.count_change_requests(target) == 25
    assert world.api.sample_change_requests(target, 20) == handles[:20].tolist()
    assert not any(job.cancel_requested for job in world.list_jobs(JobFilter()))


def test_a_lease_and_a_cancel_request_never_miss_each_other(world: StoreWorld) -> None:
    """Whichever comes first, a job is cancelled without a run, or leased with the request set; never both unseen."""
    handles = world.submit_jobs(200)
    second = LeaderStore(world.url, "default")
    barrier = threading.Barrier(2)
    refused: set[int] = set()

    def lease() -> None:
        barrier.wait()
        for chunk in np.array_split(handles, 40):
            applied = second.apply(world.epoch, Effects(new_runs=make_leases(chunk)))
            refused.update(applied.refused_handles.tolist())

    thread = threading.Thread(target=lease)
    thread.start()
    barrier.wait()
    for chunk in np.array_split(handles[::-1], 40):
        world.api.set_change_requests(None, chunk, "cancel", encode=encode_change_requests)
    thread.join()
    second.close()
    for job in world.list_jobs(JobFilter(), limit=1000):
        assert job.cancel_requested
        assert (job.state == JobState.CANCELLED) == (not job.runs)
        assert (job.handle in refused) == (not job.runs)


def test_a_new_priority_and_ends_of_jobs_never_wait_for_each_other_in_a_circle(world: StoreWorld) -> None:
    """A leader that ends jobs while their priorities change loses no transaction to a deadlock, nor does the API."""
    handles = world.submit_jobs(2000)
    second = LeaderStore(world.url, "default")
    barrier = threading.Barrier(2)
    failures: list[Exception] = []

    def end() -> None:
        barrier.wait()
        try:
            for chunk in range(40):
                second.apply(world.epoch, Effects(job_updates=make_job_ends(handles[chunk::40][::-1])))
        except Exception as error:  # noqa: BLE001 - told below
            failures.append(error)

    thread = threading.Thread(target=end)
    thread.start()
    barrier.wait()
    for priority in range(1, 21):
        world.api.set_change_requests(
            None, handles[::-1], "reprioritize", encode=encode_change_requests, priority=priority
        )
    thread.join()
    second.close()
    assert failures == []


def test_a_new_priority_that_is_read_late_does_not_undo_a_newer_one(world: StoreWorld) -> None:
    """The row holds what was asked last; the leader, who hears of it later, writes no priority."""
    handles = world.submit_jobs(1)
    for priority in (4, 7):
        world.api.set_change_requests(None, handles, "reprioritize", encode=encode_change_requests, priority=priority)
    taken = np.array([change for change, _ in world.leader.read_changes(100)], dtype=np.int64)
    world.leader.apply(world.epoch, Effects(deleted_change_ids=taken))
    assert [job.priority for job in world.list_jobs(JobFilter())] == [7]
    assert not [field for field in Effects.__dataclass_fields__ if "priorit" in field]
