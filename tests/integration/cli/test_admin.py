"""`argosy admin` against a database."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psycopg
import pytest
from alembic.script import ScriptDirectory
from psycopg.conninfo import make_conninfo

from argosy_cli.root import run
from argosy_core.errors import NotAllowedNow
from argosy_store import LeaderStore
from argosy_store.log import PostgresLog
from argosy_store.schema.inspection import inspect_database
from argosy_store.schema.migrate import require_version
from argosy_store.schema.versions import migration_config
from argosy_store.terms.election import LogState
from argosy_testkit.postgres import today

_DAY_US = 86_400_000_000
_PREFIX = "cli"


@dataclass(frozen=True)
class Outcome:
    """What a command line ended with."""

    code: int
    out: str
    err: str


Admin = Callable[..., Outcome]


@pytest.fixture
def admin(
    empty_database_url: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> Iterator[Admin]:
    """Run `argosy admin` for a database of the test's own."""
    monkeypatch.setenv("ARGOSY_DATABASE_URL", empty_database_url)
    monkeypatch.setenv("ARGOSY_HOME", str(tmp_path))

    def call(*arguments: str) -> Outcome:
        code = run(("admin", *arguments))
        out, err = capfd.readouterr()
        return Outcome(int(code), out, err)

    yield call
    with psycopg.connect(empty_database_url, autocommit=True) as connection:
        rows = connection.execute("SELECT rolname FROM pg_roles WHERE rolname LIKE %s", [f"{_PREFIX}\\_%"]).fetchall()
        for (name,) in rows:
            connection.execute(f"DROP OWNED BY {name} CASCADE".encode())
            connection.execute(f"DROP ROLE {name}".encode())


def head() -> str | None:
    """Return the version of the newest migration."""
    return ScriptDirectory.from_config(migration_config()).get_current_head()


def _problems(outcome: Outcome) -> dict[str, str]:
    """Return what `check` found wrong, but the settings that make the tests' server fast."""
    found = {row["subject"]: row["text"] for row in json.loads(outcome.out) if row["status"] == "problem"}
    found.pop("settings")
    return found


def test_migrate_prepares_an_empty_database_and_may_be_repeated(admin: Admin) -> None:
    """First run and second run say the same, and the tables are there."""
    first = admin("migrate")
    assert (first.code, first.err) == (0, "")
    assert admin("migrate") == first
    assert _problems(admin("check", "-o", "json")) == {}


def test_upgrade_moves_the_tables_of_a_stopped_installation(admin: Admin, empty_database_url: str) -> None:
    """It says what it found and what to do next, and refuses while somebody is connected."""
    first = admin("upgrade")
    assert first.code == 0, first.err
    assert "from version none to" in first.out
    assert "start the servers of this version" in first.out
    assert admin("upgrade", "--grant", "--prefix", _PREFIX).code == 0
    assert _problems(admin("check", "-o", "json", "--prefix", _PREFIX)) == {}
    with psycopg.connect(empty_database_url, application_name="argosy-leader"):
        refused = admin("upgrade")
    assert refused.code != 0
    assert "argosy-leader (1); stop them" in refused.err


def test_upgrade_waits_for_a_session_of_maintenance_that_is_ending(admin: Admin, empty_database_url: str) -> None:
    """A server lists a session for a moment after its end: one that the command itself has closed is no service."""
    with psycopg.connect(empty_database_url, application_name="argosy-maintenance", autocommit=True) as ending:
        ending.execute("SET idle_session_timeout = '2s'")
        done = admin("upgrade")
    assert done.code == 0, done.err


def test_grant_makes_roles_with_rights_and_passwords(admin: Admin, empty_database_url: str, tmp_path: Path) -> None:
    """One command makes an installation whose services have the least rights; the migrator repeats it."""
    password = tmp_path / "password"
    password.write_text("geheim\n")
    granted = admin("migrate", "--grant", "--prefix", _PREFIX, "--role-password-file", f"api={password}")
    assert granted.out.endswith("and every role has its rights\n")
    checked = admin("check", "--prefix", _PREFIX, "-o", "json")
    assert _problems(checked) == {}
    assert f"all by the prefix {_PREFIX} have their rights" in checked.out
    migrator = make_conninfo(empty_database_url, user=f"{_PREFIX}_migrator")
    assert admin("migrate", "--grant", "--prefix", _PREFIX, "--database-url", migrator).code == 0
    with psycopg.connect(empty_database_url) as connection:
        owners = connection.execute(
            "SELECT DISTINCT pg_get_userbyid(relowner) FROM pg_class WHERE relnamespace = 'public'::regnamespace"
        ).fetchall()
        assert owners == [(f"{_PREFIX}_migrator",)]


def test_check_lists_what_is_wrong_and_what_to_do(admin: Admin, empty_database_url: str) -> None:
    """Exit code 1, a line per subject, and below it what to do about each problem."""
    assert _problems(admin("check", "-o", "json")) == {"migrations": f"version none, needed is {head()}"}
    admin("migrate", "--grant", "--prefix", _PREFIX)
    leader, log = LeaderStore(empty_database_url, "p"), PostgresLog(empty_database_url, "p")
    leadership = leader.try_lead("l", "h:1", 600)
    assert leadership is not None
    log.append(leadership.epoch, 1, b"record")
    log.quarantine(log.read(0, 1)[0], "cannot be read", 1)
    leader.try_lead("l", "h:1", 600)
    for store in (leader, log):
        store.close()
    with psycopg.connect(empty_database_url) as connection:
        connection.execute("UPDATE log_ends SET position = 5000")
        connection.execute(f"REVOKE SELECT ON jobs FROM {_PREFIX}_api".encode())
    problems = _problems(admin("check", "--prefix", _PREFIX, "-o", "json"))
    assert problems == {
        "roles": f"{_PREFIX}_api lacks SELECT on jobs",
        "quarantine": "pool p has 1, as: cannot be read",
        "pool p": "the log is applied up to 0, and ends at 5000",
    }
    shown = admin("check", "--prefix", _PREFIX)
    assert shown.code == 1
    assert "quarantine: see `argosy admin quarantine list`" in shown.err
    assert "settings: set fsync = on" in shown.err
    later = inspect_database(empty_database_url, (today() + 30) * _DAY_US, prefix=_PREFIX)
    assert [f.text for f in later if f.subject == "partitions"] == [
        f"there are none for day {today() + 30}, {today() + 31} (days since 1970)"
    ]


@pytest.mark.parametrize(("age_s", "late"), [(300, False), (4000, True)])
def test_check_tells_of_events_that_nobody_relays(
    admin: Admin, empty_database_url: str, age_s: int, *, late: bool
) -> None:
    """A relay that is dead says nothing, so the check looks at what waits for it."""
    admin("migrate")
    leader = LeaderStore(empty_database_url, "p")
    leader.try_lead("l", "h:1", 600)
    leader.close()
    with psycopg.connect(empty_database_url) as connection:
        connection.execute("INSERT INTO event_outbox (pool, create_time_us, payload) VALUES ('p', 7000000, '')")
    now_us = (7 + age_s) * 1_000_000
    (found,) = (finding for finding in inspect_database(empty_database_url, now_us) if finding.subject == "events")
    assert found.is_problem is late
    assert not late or found.text == "those of pool p have waited 4,000 s for a relay"


@pytest.mark.parametrize("resigned", [False, True], ids=["led", "resigned"])
def test_check_tells_of_a_leader_that_cannot_publish(admin: Admin, empty_database_url: str, *, resigned: bool) -> None:
    """Holding the lease is not leading: the check fails, says since when and why, and whom to ask."""
    admin("migrate")
    leader = LeaderStore(empty_database_url, "p")
    leadership = leader.try_lead("l", "h:1", 600)
    assert leadership is not None
    tell = leader.resign if resigned else partial(leader.renew, lease_s=600)
    tell(leadership.epoch, log=LogState(failing_s=100.0, reason="the broker is away"))
    leader.close()
    checked = admin("check", "-o", "json")
    assert checked.code == 1
    has = "nobody leads it; its last leader had" if resigned else "led, epoch 1, but its leader has"
    text = _problems(checked)["pool p"]
    assert re.fullmatch(
        rf"{has} published nothing since [0-9: -]+ UTC \(1\d\d s\), so nothing new is leased: the broker is away", text
    )
    assert "argosy admin check-log" in admin("check").err


@pytest.mark.parametrize(
    ("position", "text"),
    [
        (3, "led, epoch 1, 3 records of the log to apply"),
        (None, "its log is not in this database; the leader's metric argosy_log_lag_records says how much waits"),
        (-1, "its log is not in this database; the leader's metric argosy_log_lag_records says how much waits"),
    ],
    ids=["in the database", "on brokers", "on brokers since lately"],
)
def test_check_counts_what_waits_only_of_a_log_that_it_sees(
    admin: Admin, empty_database_url: str, *, position: int | None, text: str
) -> None:
    """Of a log on brokers the database knows only what was applied."""
    admin("migrate")
    leader, log = LeaderStore(empty_database_url, "p"), PostgresLog(empty_database_url, "p")
    leadership = leader.try_lead("l", "h:1", 600)
    assert leadership is not None
    if position is not None:
        log.append(leadership.epoch, 1, b"record")
        with psycopg.connect(empty_database_url) as connection:
            connection.execute("UPDATE log_ends SET position = %s", [position])
    for store in (leader, log):
        store.close()
    (found,) = (finding for finding in inspect_database(empty_database_url, 0) if finding.subject == "pool p")
    assert (found.status, found.text) == ("ok", text if position == 3 else f"led, epoch 1; {text}")


def test_check_names_each_setting_that_loses_data(empty_database_url: str) -> None:
    """The tests' own server has all three off."""
    texts = [finding.text for finding in inspect_database(empty_database_url, 0) if finding.subject == "settings"]
    assert [text.split()[0] for text in texts] == ["fsync", "full_page_writes", "synchronous_commit"]
    assert texts[2].endswith("a crash loses jobs that were acknowledged")


def test_check_of_a_database_that_cannot_be_reached_says_so(admin: Admin) -> None:
    """Without a database there is one finding."""
    outcome = admin("check", "--database-url", "postgresql://u:pw@127.0.0.1:1/x", "-o", "json")
    assert outcome.code == 1
    (finding,) = json.loads(outcome.out)
    assert finding["subject"] == "database"
    assert "Connection refused" in finding["text"]


def test_roles_prints_sql_and_needs_no_database(admin: Admin, monkeypatch: pytest.MonkeyPatch) -> None:
    """An administrator gets something to run."""
    monkeypatch.delenv("ARGOSY_DATABASE_URL")
    outcome = admin("roles", "--prefix", "x", "--database", "jobs")
    assert 'GRANT CONNECT ON DATABASE "jobs" TO x_leader;' in outcome.out
    assert [role["name"] for role in json.loads(admin("roles", "-o", "json").out)["roles"]][:2] == [
        "argosy_migrator",
        "argosy_api",
    ]
    assert admin("check").code == 2  # nobody said which database


@pytest.mark.parametrize(("version", "shown"), [(140_022, "14.22"), (90_605, "9.605")], ids=["14", "9"])
def test_servers_before_15_are_refused(version: int, shown: str) -> None:
    """It is said what is there and what is needed."""
    with pytest.raises(NotAllowedNow, match=f"Postgres 15 or newer is needed, this one is {shown}"):
        require_version(version)
    require_version(150_000)


def test_ended_sessions_are_listed(admin: Admin, empty_database_url: str) -> None:
    """Operators see what a cluster's processes said that they may not."""
    admin("migrate")
    assert "no session was ended" in admin("sessions").err
    leader = LeaderStore(empty_database_url, "default")
    leader.note_ended_session(cluster="east", role="sampler", host="h", reason="capacity.names has an entry twice")
    leader.close()
    (row,) = json.loads(admin("sessions", "-o", "json").out)
    assert (row["cluster"], row["role"], row["host"]) == ("east", "sampler", "h")
    assert "capacity.names has an entry twice" in admin("sessions").out


def test_quarantine_is_listed_and_what_is_understood_is_retried_or_dropped(
    admin: Admin, empty_database_url: str
) -> None:
    """Operators see what is set aside and why; `check` tells of it until then."""
    admin("migrate")
    leader = LeaderStore(empty_database_url, "default")
    leadership = leader.try_lead("l", "h:1", 600)
    assert leadership is not None
    leader.note_suspects(leadership.epoch, [("executor", "east"), ("job", "7")], "KeyError: why")
    assert _problems(admin("check", "-o", "json"))["suspects"] == (
        "pool default set aside 1 of kind executor, as: KeyError: why;"
        " pool default set aside 1 of kind job, as: KeyError: why"
    )
    listed = json.loads(admin("quarantine", "list", "-o", "json").out)
    assert {(row["kind"], row["key"], row["error"]) for row in listed} == {
        ("executor", "east", "KeyError: why"), ("job", "7", "KeyError: why"),
    }  # fmt: skip
    assert "KeyError: why" in admin("quarantine", "list").out
    retried = admin("quarantine", "retry", "executor", "east")
    assert (retried.code, retried.out) == (0, "executor east is tried again\n")
    assert admin("quarantine", "retry", "executor", "east").code != 0
    assert "`retry` lets it in again" in admin("quarantine", "drop", "job", "7").err
    assert leader.count_suspects() == 1
    leader.close()
