"""A server whose configuration names brokers, where Pulsar's client is not installed."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize("flag", ["--event-log-url", "--events-url"])
def test_server_that_cannot_reach_brokers_ends_before_it_opens_anything(flag: str) -> None:
    """It says what to install, and ends as one that is wrongly configured."""
    program = (
        "import sys; sys.modules['_pulsar'] = None; sys.modules['pulsar'] = None\n"
        "from argosy_server.__main__ import main\n"
        f"sys.exit(main(['--database-url', 'postgresql://127.0.0.1:1/x', {flag!r}, 'pulsar://127.0.0.1:1']))"
    )

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert done.returncode == 2
    assert "argosy-eventlog[pulsar]" in done.stdout + done.stderr
