"""What a program loads of the client, and when."""

from __future__ import annotations

import json
import subprocess
import sys

import argosy_client
from argosy_client.deferred import DeferredModule


def test_client_loads_what_its_calls_need_and_no_sooner() -> None:
    """The code of messages takes longer to load than most calls take; a command makes one or two."""
    program = (
        "import json, sys, argosy_client.client as c;"
        "print(json.dumps([m for m in sys.modules if m.startswith(('argosy', 'http.'))]));"
        "c.ArgosyClient('127.0.0.1:1')._queues.GetQueue; print('argosy.api.v1.queue_pb2_grpc' in sys.modules)"
    )
    # An event loop is there, since a channel takes one.
    program = f"import asyncio\nasync def main():\n    {program}\nasyncio.run(main())"
    answer = subprocess.run((sys.executable, "-c", program), check=True, capture_output=True, text=True)
    loaded, is_loaded_by_use = answer.stdout.splitlines()
    needless = (
        "queue",
        "cluster",
        "scheduling",
        "access",
        "debug",
        "explanations",
        "planning",
        "issuer",
        "http.client",
    )
    assert [name for name in needless if any(name in one for one in json.loads(loaded) if "_calls" not in one)] == []
    assert is_loaded_by_use == "True"


def test_every_name_of_the_package_is_found() -> None:
    """What is loaded late is there all the same, and what is not there is said as Python says it."""
    assert all(hasattr(argosy_client, name) for name in argosy_client.__all__)
    assert not hasattr(argosy_client, "NoSuchName")


def test_deferred_module_is_the_module_at_the_first_use() -> None:
    """A name is looked up once."""
    colours = DeferredModule("colorsys")
    assert "rgb_to_hsv" not in vars(colours)
    assert colours.rgb_to_hsv is colours.rgb_to_hsv
    assert "rgb_to_hsv" in vars(colours)
