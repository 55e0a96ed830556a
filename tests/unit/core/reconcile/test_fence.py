"""When an executor may act."""

from __future__ import annotations

from argosy_core.reconcile import Fence


def test_fence_is_closed_before_a_welcome_and_after_its_time() -> None:
    """Acting is allowed for the fence's time after the moment the confirmed message was sent."""
    fence = Fence()
    assert not fence.may_act(0.0)
    fence.welcome(15.0, 100.0)
    assert fence.fence_s == 15.0
    assert fence.may_act(114.9)
    assert not fence.may_act(115.0)


def test_confirmation_counts_from_when_the_message_was_sent() -> None:
    """A late answer does not stretch the fence, and an older one does not shorten it."""
    fence = Fence()
    fence.welcome(15.0, 100.0)
    fence.confirm(104.0)
    assert fence.may_act(118.9)
    assert not fence.may_act(119.0)
    fence.confirm(101.0)
    assert fence.may_act(118.9)
