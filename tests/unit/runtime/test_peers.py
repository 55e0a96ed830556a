"""Tests of what one peer may hold: places and a rate, by given times."""

from __future__ import annotations

import pytest

from argosy_core.errors import QuotaExceeded
from argosy_runtime.peers import (
    MAX_WAIT_S,
    Peer,
    PeerRateLimiter,
    Place,
    PlaceLimits,
    Places,
    RefusalThrottle,
    parse_peer,
)

ONE, TWO, FAR = Peer("a:1", "a"), Peer("a:2", "a"), Peer("b:1", "b")
LIMITS = PlaceLimits(name="calls", total=6, per_host=4, per_connection=2)


class Room:
    """Places, and the errors that calls were ended with."""

    def __init__(self, limits: PlaceLimits = LIMITS) -> None:
        """Start with all free."""
        self.places = Places(limits)
        self.ended: list[str] = []

    def take(self, peer: Peer, now_s: float = 0.0, *, body: bool = True) -> Place:
        """Take a place for a call whose message is there or not."""
        place = self.places.take(peer, now_s=now_s, give_up=lambda error: self.ended.append(error.reason))
        if body:
            self.places.note_body(place)
        return place


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("ipv4:10.0.0.7:50312", "ipv4:10.0.0.7"),
        ("ipv6:%5B2001:db8::1%5D:50312", "ipv6:2001:db8::"),
        ("ipv6:[2001:db8::7:1]:50312", "ipv6:2001:db8::"),
        ("ipv6:%5Bfe80::1%25eth0%5D:50312", "ipv6:fe80::"),
        ("ipv6:%5B::ffff:10.0.0.7%5D:50312", "ipv4:10.0.0.7"),
        ("ipv6:odd", "ipv6:odd"),
        ("unix:", "unix:"),
    ],
)
def test_host_is_address_without_port_and_network_of_one_machine(text: str, host: str) -> None:
    """Ports tell connections apart; addresses that one machine has at will are one host."""
    assert parse_peer(text) == Peer(text, host)


def test_peer_that_holds_all_it_may_leaves_room_to_others() -> None:
    """A connection is refused at its own limit, then its host's; another host still gets places."""
    room = Room()
    held = [room.take(ONE) for _ in range(2)]
    with pytest.raises(QuotaExceeded, match=r"connection.*calls_per_connection"):
        room.take(ONE)
    held += [room.take(TWO) for _ in range(2)]
    with pytest.raises(QuotaExceeded, match=r"host.*calls_per_host"):
        room.take(Peer("a:3", "a"))
    held += [room.take(FAR) for _ in range(2)]
    with pytest.raises(QuotaExceeded) as caught:
        room.take(Peer("c:1", "c"))
    assert (caught.value.reason, caught.value.retry_delay_s) == ("SERVER_BUSY", 1.0)
    for place in held:
        room.places.release(place)
        room.places.release(place)
    assert room.places.count == 0
    room.take(ONE)


def test_call_without_message_gives_its_place_to_one_that_needs_it() -> None:
    """The oldest call without its message goes, of the same connection if that is at its limit; fresh ones stay."""
    room = Room()
    room.take(ONE, body=False)
    room.take(ONE, 1.0)
    with pytest.raises(QuotaExceeded):
        room.take(ONE, 0.01)
    room.take(ONE, 1.0)
    assert room.ended == ["CALLER_BUSY"]
    assert room.places.count == 2
    for peer in (TWO, TWO, FAR, FAR):
        room.take(peer, 2.0, body=False)
    room.take(Peer("c:1", "c"), 3.0)
    assert room.ended == ["CALLER_BUSY", "SERVER_BUSY"]
    assert room.places.count == 6


def test_message_that_does_not_come_in_time_ends_its_call() -> None:
    """Only what is overdue ends; it is said whether others still wait."""
    room = Room()
    room.take(ONE, body=False)
    room.take(TWO, 5.0, body=False)
    room.take(FAR)
    assert room.places.end_overdue(9.9, 10.0)
    assert not room.ended
    assert room.places.end_overdue(10.0, 10.0)
    assert room.ended == ["BODY_TIMEOUT"]
    assert room.places.end_overdue(15.0, 10.0) is None
    assert room.places.count == 1


def test_calls_overdue_together_end_a_few_at_a_time() -> None:
    """Ending thousands at once would keep everybody else waiting."""
    room = Room(PlaceLimits(name="calls", total=100, per_host=100, per_connection=100))
    for _ in range(50):
        room.take(ONE, body=False)
    after_s = room.places.end_overdue(10.0, 10.0)
    assert after_s is not None
    assert (len(room.ended), after_s) == (32, pytest.approx(0.02))
    assert room.places.end_overdue(10.0 + after_s, 10.0) is None
    assert len(room.ended) == 50


def test_connection_above_its_rate_waits_and_its_neighbour_does_not() -> None:
    """Two seconds' worth passes at once, what follows waits its turn, and time pays for it."""
    rates = PeerRateLimiter(10.0)
    rates.charge(ONE, 20, 0.0)
    assert rates.wait_s(ONE, 0.0) == 0.0
    rates.charge(ONE, 5, 0.0)
    assert rates.wait_s(ONE, 0.0) == pytest.approx(0.5)
    assert rates.wait_s(TWO, 0.0) == 0.0
    assert rates.wait_s(ONE, 0.5) == pytest.approx(0.0)


def test_host_of_many_connections_has_four_times_the_rate() -> None:
    """Connections that use their bursts share the host's rate; one that calls now and then does not wait for it."""
    rates = PeerRateLimiter(10.0)
    for number in range(100):
        rates.charge(Peer(f"a:{number}", "a"), 1, 0.0)
    assert rates.wait_s(Peer("a:7", "a"), 0.0) == pytest.approx(0.5)
    assert rates.wait_s(Peer("a:7", "a"), 0.1) == rates.wait_s(Peer("a:new", "a"), 0.0) == 0.0
    assert rates.wait_s(FAR, 0.0) == 0.0


def test_peer_that_stops_is_served_again_within_seconds() -> None:
    """What a flood asked for is not held against its peer for ever."""
    rates = PeerRateLimiter(10.0)
    rates.charge(ONE, 1e9, 0.0)
    assert rates.wait_s(ONE, 2 * MAX_WAIT_S) == 0.0


def test_refusals_of_a_host_are_spaced_and_another_host_does_not_wait_for_them() -> None:
    """The first takes a second, those that came with it a hundredth more each, none longer than 20 s."""
    throttle = RefusalThrottle()
    waits_s = [throttle.wait_s(ONE, 5.0) for _ in range(301)]
    assert waits_s[0] == pytest.approx(1.0)
    assert waits_s[300] == pytest.approx(4.0)
    assert throttle.wait_s(FAR, 5.0) == pytest.approx(
        1.0 + 300 / 400, abs=0.01
    )  # beside all that are refused, 400 a second
    assert max(throttle.wait_s(ONE, 5.0) for _ in range(3000)) == pytest.approx(20.0)
    assert throttle.wait_s(ONE, 60.0) == pytest.approx(1.0)


def test_flood_of_names_takes_bounded_memory() -> None:
    """As many peers are known as are bounded; without a limit nobody is."""
    rates = PeerRateLimiter(1.0)
    for number in range(6000):
        rates.charge(Peer(f"{number}:1", str(number)), 1, 0.0)
    assert max(len(rates._connections), len(rates._hosts)) <= 4096
    throttle = RefusalThrottle()
    for number in range(6000):
        throttle.wait_s(Peer(f"{number}:1", str(number)), 1.0)
    assert len(throttle._last_s) <= 4096
    unlimited = PeerRateLimiter(0.0)
    unlimited.charge(ONE, 1e9, 0.0)
    assert unlimited.wait_s(ONE, 0.0) == 0.0
