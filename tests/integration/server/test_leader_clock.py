"""The time that a leader goes by, with a database that takes long to answer."""

from __future__ import annotations

import psycopg
import pytest

from argosy_server.leader.log.publishing import ReportingStore
from argosy_store import LeaderStore

COMMIT_S = 0.4
"""How long each commit of a renewal waits, as for a standby or a busy disk."""


def test_renewals_that_wait_for_their_commits_do_not_put_the_clock_back(database_url: str) -> None:
    """The time in the answer is from before that wait."""
    store = LeaderStore(database_url, "default")
    election = ReportingStore(store)
    leadership = election.try_lead("leader", "127.0.0.1:1", 600.0)
    assert leadership is not None
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(
            "CREATE FUNCTION waits() RETURNS trigger LANGUAGE plpgsql AS"
            f" $$ BEGIN PERFORM set_config('test.none', pg_sleep({COMMIT_S})::text, false); RETURN NULL; END $$;"
            "CREATE CONSTRAINT TRIGGER waits AFTER UPDATE ON pools DEFERRABLE INITIALLY DEFERRED"
            " FOR EACH ROW EXECUTE FUNCTION waits()"
        )
        before = election.clock.now()
        for _ in range(4):
            election.renew(leadership.epoch, 600.0)
        after = election.clock.now()
    store.close()
    assert after.mono_s - before.mono_s >= 4 * COMMIT_S
    assert (after.db_us - before.db_us) / 1e6 == pytest.approx(after.mono_s - before.mono_s, abs=1e-3)
