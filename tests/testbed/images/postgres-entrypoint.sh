#!/bin/bash
# Starts PostgreSQL; an empty data directory is made a database first, as POSTGRES_USER, POSTGRES_DB, POSTGRES_PASSWORD
# and POSTGRES_PASSWORD_FILE say. Scripts in /docker-entrypoint-initdb.d are run then.
set -euo pipefail
case ${1:-postgres} in
    postgres | -*) ;;
    *) exec "$@" ;;
esac
if [ "$(id -u)" = 0 ]; then
    install -d -m 0700 -o postgres -g postgres "$PGDATA"
    install -d -o postgres -g postgres /run/postgresql
    exec setpriv --reuid postgres --regid postgres --init-groups "$0" "$@"
fi
[ "${1:-}" != postgres ] || shift

if [ ! -e "$PGDATA/PG_VERSION" ]; then
    user=${POSTGRES_USER:-postgres}
    database=${POSTGRES_DB:-$user}
    password=${POSTGRES_PASSWORD:-}
    [ -z "${POSTGRES_PASSWORD_FILE:-}" ] || password=$(< "$POSTGRES_PASSWORD_FILE")
    if [ -z "$password" ]; then
        echo "error: set POSTGRES_PASSWORD or POSTGRES_PASSWORD_FILE" >&2
        exit 1
    fi
    initdb --username "$user" --pwfile <(echo "$password") --auth-local trust --auth-host scram-sha-256 \
        --encoding UTF8 --locale C.UTF-8 > /dev/null
    echo "host all all all scram-sha-256" >> "$PGDATA/pg_hba.conf"
    pg_ctl -w start -o "-c listen_addresses= -c unix_socket_directories=/run/postgresql" > /dev/null
    ask=(/usr/bin/psql -q -v ON_ERROR_STOP=1 -h /run/postgresql -U "$user")
    [ "$database" = postgres ] || "${ask[@]}" -d postgres -c "CREATE DATABASE \"$database\""
    for script in /docker-entrypoint-initdb.d/*; do
        case $script in
            *.sh) bash "$script" ;;
            *.sql) "${ask[@]}" -d "$database" -f "$script" ;;
        esac
    done
    pg_ctl -w -m fast stop > /dev/null
fi
exec postgres -c listen_addresses='*' -c unix_socket_directories=/run/postgresql "$@"
