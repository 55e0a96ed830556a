"""Days go by the database's clock, what services remember by its timeline, and tables say who works with them.

No server's clock can close, drop or open a day. A standby that was promoted has another timeline than its primary, and
may lack what that had last: numbers and epochs go on far behind those that may have been given.

A day is closed in two steps. First it takes no jobs any more (`first_open_day`), under the exclusive lock but for a
moment only; then its open jobs are counted without any lock, since none can come.
"""

from __future__ import annotations

from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

# A transaction may have begun before midnight and still put jobs into the day before, so yesterday is never past.
_STATEMENTS = """
ALTER TABLE partition_state ADD COLUMN first_open_day integer NOT NULL DEFAULT 0;

CREATE TABLE schema_support (
    singleton boolean PRIMARY KEY DEFAULT true CONSTRAINT schema_support_singleton_check CHECK (singleton),
    oldest_version text NOT NULL
);
INSERT INTO schema_support (oldest_version) VALUES ('0007');

CREATE FUNCTION argosy_now_us() RETURNS bigint
LANGUAGE sql VOLATILE AS $$ SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint $$;

CREATE FUNCTION argosy_timeline() RETURNS text
LANGUAGE sql STABLE AS $$ SELECT substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8) $$;
ALTER TABLE shared_state ADD COLUMN timeline text NOT NULL DEFAULT '';
ALTER TABLE pools ADD COLUMN timeline text NOT NULL DEFAULT '';

CREATE FUNCTION argosy_today() RETURNS integer
LANGUAGE sql VOLATILE SET search_path = {schema}, pg_temp AS $$ SELECT (argosy_now_us() / 86400000000)::integer $$;

CREATE FUNCTION argosy_require_past(past_day integer) RETURNS void
LANGUAGE plpgsql SET search_path = {schema}, pg_temp AS $$
BEGIN
    IF past_day >= argosy_today() - 1 THEN
        RAISE EXCEPTION 'day % is not past: it is day % by the clock of the database', past_day, argosy_today()
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
END $$;

CREATE FUNCTION argosy_open_from(first_day integer) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = {schema}, pg_temp AS $$
BEGIN
    PERFORM argosy_require_past(first_day - 1);
    IF (SELECT first_open_day FROM partition_state) < first_day THEN
        PERFORM pg_advisory_xact_lock(7310001);
        UPDATE partition_state SET first_open_day = greatest(first_open_day, first_day);
    END IF;
END $$;

CREATE OR REPLACE FUNCTION argosy_close_day(past_day integer) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = {schema}, pg_temp AS $$
DECLARE open boolean;
BEGIN
    IF NOT EXISTS (SELECT FROM partition_state WHERE past_day = ANY (days) AND past_day <> ALL (closed_days)) THEN
        RETURN false;
    END IF;
    IF past_day >= (SELECT first_open_day FROM partition_state) THEN
        RAISE EXCEPTION 'day % still takes jobs', past_day USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    EXECUTE format('SELECT EXISTS (SELECT FROM %I WHERE state = 0)', 'jobs_d' || past_day) INTO open;
    IF open THEN
        RETURN false;
    END IF;
    PERFORM pg_advisory_xact_lock(7310001);
    UPDATE partition_state SET closed_days = array_append(closed_days, past_day)
        WHERE past_day = ANY (days) AND past_day <> ALL (closed_days);
    RETURN FOUND;
END $$;

ALTER FUNCTION argosy_drop_partitions(integer, bigint) RENAME TO argosy_detach_and_drop;

CREATE FUNCTION argosy_drop_partitions(aged_day integer, cutoff_us bigint) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = {schema}, pg_temp AS $$
BEGIN
    PERFORM argosy_require_past(aged_day);
    RETURN argosy_detach_and_drop(aged_day, least(cutoff_us, argosy_now_us()));
END $$;

REVOKE ALL ON FUNCTION argosy_now_us(), argosy_timeline(), argosy_today(),
    argosy_require_past(integer), argosy_open_from(integer), argosy_detach_and_drop(integer, bigint),
    argosy_drop_partitions(integer, bigint) FROM PUBLIC;
DO $$
DECLARE held record;
BEGIN
    FOR held IN SELECT a.grantee::regrole AS grantee FROM pg_proc p, aclexplode(p.proacl) a
        WHERE p.oid = 'argosy_detach_and_drop(integer, bigint)'::regprocedure AND a.grantee NOT IN (0, p.proowner)
    LOOP
        EXECUTE format('REVOKE ALL ON FUNCTION argosy_detach_and_drop(integer, bigint) FROM %s', held.grantee);
        EXECUTE format('GRANT EXECUTE ON FUNCTION argosy_drop_partitions(integer, bigint), argosy_open_from(integer)'
            ' TO %s', held.grantee);
    END LOOP;
END $$
"""


def upgrade() -> None:
    """Make the functions, in the schema that the tables are in; who could drop partitions still can."""
    connection = op.get_bind()
    schema = connection.exec_driver_sql("SELECT quote_ident(current_schema())").scalar_one()
    connection.exec_driver_sql(_STATEMENTS.replace("{schema}", schema).replace("%", "%%"))
