"""What the demo's mesh runs with."""

from dataclasses import fields

from argosy_core.scheduler.settings import RoundSettings
from argosy_local.compose import UNCAPPED
from argosy_local.demo import ROUND_SETTINGS, demo_flags, is_demo, lost_node_of
from argosy_workload.contended import contended


def test_demo_sets_what_rounds_have() -> None:
    """Each setting of virtual time is a flag of the mesh's servers, which are not capped either."""
    assert set(ROUND_SETTINGS) <= {field.name for field in fields(RoundSettings)}
    flags = demo_flags()["server"]
    assert flags[: len(UNCAPPED["server"])] == tuple(UNCAPPED["server"])
    assert flags[len(UNCAPPED["server"]) :] == (
        "--leader-round-promise-after-s",
        "1",
        "--leader-round-run-allowance-s",
        "5",
    )


def test_demo_loses_a_node_in_the_middle_whatever_its_speed() -> None:
    """Twice as fast: in half the time."""
    _, nodes = contended()
    lost, sooner = lost_node_of(nodes), lost_node_of(nodes, speed=2.0)
    assert lost.node in nodes.names
    assert 0.25 * 90 < lost.after_s < 0.6 * 90
    assert sooner.after_s == lost.after_s / 2


def test_demo_is_known_by_its_name_alone() -> None:
    """A file of another name is another workload."""
    assert is_demo("demo")
    assert not is_demo("demo.yaml")
