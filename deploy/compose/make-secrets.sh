#!/bin/sh
# Make the passwords of the stack's database, once; each service sees its own, what sets the database up sees all.
set -eu
umask 077
cd /var/lib/argosy
[ ! -e secrets/made ] || exit 0
new_password() {
    python -c 'import secrets; print(secrets.token_urlsafe(24), end="")'
}
for role in administrator migrator api leader relay reader; do
    new_password > "secrets/$role"
done
chmod 0444 secrets/administrator # Postgres reads it, which has another uid
for role in api leader relay; do
    cp "secrets/$role" "$role/password"
done
touch secrets/made # last, so that a run cut short is done again
