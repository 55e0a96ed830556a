#!/bin/sh
# Make what the stack proves itself by, once: passwords of its database, an authority of its own, a certificate for the
# servers and one for each cluster, and the token of its administrator. Each service sees its own; the authority's key
# is seen by the API alone, which invites further clusters. Called again it renews what ends within 30 days.
set -eu
umask 077
cd /var/lib/argosy
new_password() {
    python -c 'import secrets; print(secrets.token_urlsafe(24), end="")'
}
issue() { # NAME FOLDER OPTIONS...: sign a certificate, and give the holder its copy
    name=$1 folder=$2
    shift 2
    [ -e "authority/$name.pem" ] || argosy certs issue authority "$@" --days 365 > /dev/null
    cp authority/authority.pem "$folder/authority.pem"
    cp "authority/$name.key" "$folder/own.key"
    cp "authority/$name.pem" "$folder/own.new"
    mv "$folder/own.new" "$folder/own.pem" # in one step: who reads it has a pair that fits
}
if [ ! -e secrets/made ]; then
    for role in administrator migrator api leader relay reader; do
        new_password > "secrets/$role"
    done
    chmod 0444 secrets/administrator # Postgres reads it, which has another uid
    for role in api leader relay; do
        cp "secrets/$role" "$role/password"
    done
    touch secrets/made # last, so that a run cut short is done again
fi
[ -e authority/authority.pem ] || argosy certs init authority > /dev/null
argosy certs renew authority --within 30 > /dev/null
hosts=$(echo "$API_HOSTS" | sed 's/,/ --host /g')
# shellcheck disable=SC2086 # one word for each name
issue server server --for-servers --host api --host leader --host relay --host $hosts
issue cluster-a cluster-a --cluster a --host sampler-a
issue cluster-b cluster-b --cluster b --host sampler-b
issue "cluster-$KUBERNETES_CLUSTER" cluster-kubernetes --cluster "$KUBERNETES_CLUSTER" --host sampler-kubernetes
# What seals the secrets of jobs in the database; whoever loses it loses the jobs that it sealed.
[ -e server/encryption-keys ] || argosy admin encryption-key first --keys-file server/encryption-keys > /dev/null
if [ ! -e access/config.toml ]; then
    rm -f access/token
    { echo "tokens:"; argosy admin token admin --secret-file access/token; } > server/tokens.yaml
    cp authority/authority.pem access/authority.pem
    ARGOSY_CONFIG=access/config.toml argosy context set compose --address 127.0.0.1:50051 \
        --authority-file access/authority.pem --token-file access/token > /dev/null
fi
