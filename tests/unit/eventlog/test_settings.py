"""Settings of the log on Pulsar: what is refused, and which names follow."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from argosy_core.errors import InvalidRequest
from argosy_eventlog.pulsar import PulsarSettings
from argosy_eventlog.pulsar.settings import admin_url_of, check_url, require_client


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("pulsar://broker:6650", "http://broker:8080"),
        ("pulsar://one:6650,two:6650", "http://one:8080"),
        ("pulsar+ssl://broker:6651", "https://broker:8443"),
        ("pulsar://[::1]:6650", "http://[::1]:8080"),
    ],
    ids=["plain", "several", "tls", "ipv6"],
)
def test_the_admin_api_is_beside_the_broker_unless_named(url: str, expected: str) -> None:
    """Its usual port on the first host; a setting goes before."""
    assert admin_url_of(url, PulsarSettings()) == expected
    assert admin_url_of(url, PulsarSettings(admin_url="http://elsewhere:80/")) == "http://elsewhere:80"


def test_a_log_on_pulsar_needs_the_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is missing is named by the extra that brings it."""
    require_client()
    monkeypatch.setitem(sys.modules, "_pulsar", None)

    with pytest.raises(InvalidRequest, match=r"argosy-eventlog\[pulsar\]"):
        require_client()


@pytest.mark.parametrize("url", ["", "broker:6650", "http://broker:8080", "pulsar://", "pulsar://a/b", "pulsar://[x"])
def test_what_names_no_broker_is_refused(url: str) -> None:
    """With the form that would be right."""
    with pytest.raises(InvalidRequest, match="pulsar://host:6650"):
        check_url(url)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"tenant": "a/b"}, "pulsar.tenant"),
        ({"namespace": ""}, "pulsar.namespace"),
        ({"namespace": "events"}, "must differ"),
        ({"token": "x", "token_file": "y"}, "not both"),
        ({"operation_timeout_s": 0.5}, "operation_timeout_s"),
        ({"max_message_bytes": 0}, "max_message_bytes"),
    ],
    ids=["tenant", "namespace", "one-namespace", "two-tokens", "hasty", "nothing"],
)
def test_settings_that_cannot_work_are_refused(values: dict[str, Any], said: str) -> None:
    """By name."""
    with pytest.raises(InvalidRequest, match=said):
        PulsarSettings(**values)


def test_topics_are_named_after_their_pools() -> None:
    """One for leases and one for events, in namespaces that do not share policies."""
    settings = PulsarSettings(tenant="t", namespace="n", events_namespace="e")
    assert settings.log_topic("gpu") == "persistent://t/n/leases-gpu"
    assert settings.events_topic("gpu") == "persistent://t/e/job-events-gpu"
    assert settings.audit_topic == "persistent://t/e-audit/records"
    with pytest.raises(InvalidRequest, match="pool"):
        settings.log_topic("a/b")


def test_a_token_is_told_by_its_place_and_never_by_itself(tmp_path: Path) -> None:
    """What cannot be read, is empty or is no text is named by its file; messages say which token was shown."""
    path = tmp_path / "token"
    settings = PulsarSettings(token_file=str(path))
    with pytest.raises(InvalidRequest, match=f"pulsar.token_file {path} cannot be read: No such file"):
        settings.read_token()
    for content, said in ((b" \n", "is empty; write the token into it"), (b"s3cret\xff", "it is no text")):
        path.write_bytes(content)
        with pytest.raises(InvalidRequest, match=said) as caught:
            settings.read_token()
        assert "s3cret" not in str(caught.value)
    path.write_text("s3cret\n", encoding="ascii")
    assert settings.read_token() == PulsarSettings(token="s3cret").read_token() == "s3cret"
    assert settings.credentials == f"the token in pulsar.token_file {path}"
    assert PulsarSettings(token="s3cret").credentials == "the token of pulsar.token"
    assert "name one by pulsar.token_file" in PulsarSettings().credentials


def test_a_file_of_authorities_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """Before anything is dialled."""
    path = tmp_path / "ca.crt"
    settings = PulsarSettings(tls_trust_file=str(path))
    for content, said in ((None, "No such file"), ("nonsense", "")):
        if content is not None:
            path.write_text(content, encoding="ascii")
        with pytest.raises(InvalidRequest, match=f"pulsar.tls_trust_file {path} cannot be read as PEM .*{said}"):
            settings.check_trust_file()
    PulsarSettings().check_trust_file()
