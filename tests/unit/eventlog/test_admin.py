"""What is asked of a broker's admin API, and what is told of its answers."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from argosy_core.errors import BackendUnavailable
from argosy_eventlog.pulsar import PulsarSettings, admin
from argosy_eventlog.pulsar.admin import AdminApi

TRACE = "\n --- Unexpected ---\n\nMessage: x.ManagedLedgerException: Not enough bookies\n\nStacktrace:\n\na.b.C"


class Broker(HTTPServer):
    """Answers each call with the next of its answers."""

    answers: list[tuple[int, str]]


class Handler(BaseHTTPRequestHandler):
    """Gives the next answer, the last one for ever."""

    def do_PUT(self) -> None:
        """Answer."""
        assert isinstance(self.server, Broker)
        answers = self.server.answers
        status, reason = answers.pop(0) if len(answers) > 1 else answers[0]
        body = json.dumps({"reason": reason}).encode() if status >= 400 else b""
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the method it replaces
        """Say nothing."""


@pytest.fixture
def broker() -> Iterator[Broker]:
    """A broker that says what the test wants."""
    with Broker(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def api(broker: Broker) -> AdminApi:
    """Return the admin API of a broker."""
    url = f"http://127.0.0.1:{broker.server_address[1]}"
    return AdminApi("pulsar://127.0.0.1:1", PulsarSettings(admin_url=url))


def test_make_asks_again_while_the_storage_of_a_young_broker_does_not_answer(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker answers before its storage does; what it cannot do yet is no reason to give up."""
    monkeypatch.setattr(admin, "_RETRY_PAUSE_S", 0.0)
    broker.answers = [(500, TRACE), (503, "not yet"), (204, "")]

    assert api(broker).make("PUT", "persistent/a/b/c") is True


def test_make_tells_what_exists_already(broker: Broker) -> None:
    """Making is idempotent."""
    broker.answers = [(409, "there")]

    assert api(broker).make("PUT", "persistent/a/b/c") is False


def test_make_tells_as_made_what_is_there_after_an_answer_was_lost(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A busy broker makes the topic and answers too late: the second call finds what the first one made."""
    monkeypatch.setattr(admin, "_RETRY_PAUSE_S", 0.0)
    broker.answers = [(500, "busy"), (409, "there")]

    assert api(broker).make("PUT", "persistent/a/b/c") is True


def test_errors_tell_the_reason_without_the_stack(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker's stack trace helps nobody who sets up a log; after a while the last refusal is told."""
    monkeypatch.setattr(admin, "_YOUNG_BROKER_S", 0.0)
    broker.answers = [(500, TRACE)]

    with pytest.raises(BackendUnavailable) as caught:
        api(broker).make("PUT", "persistent/a/b/c")

    assert str(caught.value).endswith("PUT persistent/a/b/c: x.ManagedLedgerException: Not enough bookies")
