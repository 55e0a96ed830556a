"""Partitions by functions that run with their owner's rights, so that no service needs to own a table.

A partition gets the rights of its table, since bulk statements name partitions directly.
"""

from __future__ import annotations

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_STORAGE = (
    "autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_threshold = 20000,"
    " autovacuum_vacuum_insert_threshold = 100000, autovacuum_analyze_scale_factor = 0.2,"
    " autovacuum_analyze_threshold = 20000"
)

# Fill is the percent of a page that inserts fill; what an update adds needs the rest. A run gets five columns at its
# end. The search path names the schema alone: nobody's temporary table can stand in for one of ours.
_STATEMENTS = f"""
CREATE FUNCTION argosy_copy_rights(source regclass, target regclass) RETURNS void
LANGUAGE plpgsql SET search_path = {{schema}}, pg_temp AS $$
DECLARE held record;
BEGIN
    FOR held IN
        SELECT a.privilege_type AS privilege, a.grantee::regrole AS grantee, NULL::name AS attribute
        FROM pg_class c, aclexplode(c.relacl) a WHERE c.oid = source AND a.grantee NOT IN (0, c.relowner)
        UNION ALL
        SELECT a.privilege_type, a.grantee::regrole, t.attname
        FROM pg_class c JOIN pg_attribute t ON t.attrelid = c.oid, aclexplode(t.attacl) a
        WHERE c.oid = source AND a.grantee NOT IN (0, c.relowner)
    LOOP
        IF held.attribute IS NULL THEN
            EXECUTE format('GRANT %s ON %s TO %s', held.privilege, target, held.grantee);
        ELSE
            EXECUTE format('GRANT %s (%I) ON %s TO %s', held.privilege, held.attribute, target, held.grantee);
        END IF;
    END LOOP;
END $$;

CREATE FUNCTION argosy_make_partitions(made_day integer) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = {{schema}}, pg_temp AS $$
DECLARE
    part record;
    low bigint;
    high bigint;
    early boolean;
    name text;
BEGIN
    PERFORM pg_advisory_xact_lock(7310001);
    IF EXISTS (SELECT FROM partition_state WHERE made_day = ANY (days)) THEN
        RETURN false;
    END IF;
    IF (SELECT cardinality(days) FROM partition_state) >= 1000 THEN
        RAISE EXCEPTION 'there are partitions of 1000 days; drop some by retention first';
    END IF;
    FOR part IN
        SELECT * FROM (VALUES (1, 'jobs', 'handle', 45), (2, 'runs', 'handle', 40), (3, 'objects', 'handle', 50),
            (4, 'job_specs', 'day', 0), (5, 'job_set_events', 'day', 0)) AS v (place, owner, key, fill) ORDER BY place
    LOOP
        name := part.owner || '_d' || made_day;
        IF part.key = 'handle' THEN
            low := made_day::bigint << 40;
            high := (made_day::bigint + 1) << 40;
        ELSE
            low := made_day;
            high := made_day + 1;
        END IF;
        EXECUTE format('SELECT EXISTS (SELECT FROM %I WHERE %I >= %s AND %I < %s)',
            part.owner || '_carried', part.key, low, part.key, high) INTO early;
        IF early THEN
            -- Rows that came before their partition are moved into it.
            EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING ALL)', name, part.owner);
            EXECUTE format('WITH moved AS (DELETE FROM %I WHERE %I >= %s AND %I < %s RETURNING *)'
                ' INSERT INTO %I SELECT * FROM moved', part.owner || '_carried', part.key, low, part.key, high, name);
            EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%s) TO (%s)',
                part.owner, name, low, high);
        ELSE
            EXECUTE format('CREATE TABLE %I PARTITION OF %I FOR VALUES FROM (%s) TO (%s)', name, part.owner, low, high);
        END IF;
        IF part.fill > 0 THEN
            EXECUTE format('ALTER TABLE %I SET (fillfactor = %s, {_STORAGE})', name, part.fill);
        END IF;
        PERFORM argosy_copy_rights(part.owner::regclass, name::regclass);
    END LOOP;
    UPDATE partition_state SET days = (SELECT array_agg(d ORDER BY d) FROM unnest(days || made_day) AS d);
    RETURN true;
END $$;

CREATE FUNCTION argosy_close_day(past_day integer) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = {{schema}}, pg_temp AS $$
DECLARE open boolean;
BEGIN
    PERFORM pg_advisory_xact_lock(7310001);
    IF NOT EXISTS (SELECT FROM partition_state WHERE past_day = ANY (days) AND past_day <> ALL (closed_days)) THEN
        RETURN false;
    END IF;
    EXECUTE format('SELECT EXISTS (SELECT FROM %I WHERE state = 0)', 'jobs_d' || past_day) INTO open;
    IF open THEN
        RETURN false;
    END IF;
    UPDATE partition_state SET closed_days = array_append(closed_days, past_day);
    RETURN true;
END $$;

CREATE FUNCTION argosy_drop_partitions(aged_day integer, cutoff_us bigint) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = {{schema}}, pg_temp AS $$
DECLARE
    owner text;
    carried bigint;
BEGIN
    PERFORM pg_advisory_xact_lock(7310001);
    IF NOT EXISTS (SELECT FROM partition_state WHERE aged_day = ANY (days)) THEN
        RETURN 0;
    END IF;
    FOREACH owner IN ARRAY ARRAY['jobs', 'runs', 'objects', 'job_specs', 'job_set_events'] LOOP
        EXECUTE format('ALTER TABLE %I DETACH PARTITION %I', owner, owner || '_d' || aged_day);
    END LOOP;
    EXECUTE format('INSERT INTO jobs_carried SELECT * FROM %I WHERE state = 0 OR end_time_us >= %s',
        'jobs_d' || aged_day, cutoff_us);
    GET DIAGNOSTICS carried = ROW_COUNT;
    IF carried > 0 THEN
        FOREACH owner IN ARRAY ARRAY['runs', 'objects'] LOOP
            EXECUTE format('INSERT INTO %I SELECT t.* FROM %I t WHERE EXISTS (SELECT FROM jobs_carried j JOIN %I'
                ' USING (handle) WHERE j.handle = t.handle)',
                owner || '_carried', owner || '_d' || aged_day, 'jobs_d' || aged_day);
        END LOOP;
        EXECUTE format('INSERT INTO job_specs_carried SELECT t.* FROM %I t WHERE EXISTS (SELECT FROM jobs_carried j'
            ' JOIN %I USING (handle) WHERE j.spec_hash = t.hash)', 'job_specs_d' || aged_day, 'jobs_d' || aged_day);
    END IF;
    FOREACH owner IN ARRAY ARRAY['jobs', 'runs', 'objects', 'job_specs', 'job_set_events'] LOOP
        EXECUTE format('DROP TABLE %I', owner || '_d' || aged_day);
    END LOOP;
    UPDATE partition_state SET days = array_remove(days, aged_day), closed_days = array_remove(closed_days, aged_day);
    RETURN carried;
END $$;

REVOKE ALL ON FUNCTION argosy_copy_rights(regclass, regclass), argosy_make_partitions(integer),
    argosy_close_day(integer), argosy_drop_partitions(integer, bigint) FROM PUBLIC;
"""


def upgrade() -> None:
    """Make the functions, in the schema that the tables are in."""
    connection = op.get_bind()
    schema = connection.exec_driver_sql("SELECT quote_ident(current_schema())").scalar_one()
    connection.exec_driver_sql(_STATEMENTS.replace("{schema}", schema).replace("%", "%%"))


def downgrade() -> None:
    """Refuse: services of this version need them."""
    raise NotImplementedError("there is no way back; restore a backup")
