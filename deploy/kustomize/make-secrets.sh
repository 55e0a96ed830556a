#!/bin/sh
# Make what an installation by kustomize proves itself by, in a folder: an authority, the servers' certificate, the key that
# seals the secrets of jobs, and tokens for the administrator, for servers and for each CLUSTER; and for each cluster the
# certificate of its sampler's port and the token of the agent that dials it. Who is dialled sees hashes of tokens. Called
# again it adds what is not there, and renews certificates that end within 30 days.
#
# Usage: make-secrets.sh FOLDER [CLUSTER]...      (NAMESPACE=argosy, API_HOSTS=further.example.org,10.0.0.7)
#        kubectl apply -k FOLDER                  where the servers are
#        kubectl apply -k FOLDER/clusters/CLUSTER in each cluster
#
# FOLDER/authority stays with you: whoever has its key is everybody.
set -eu
umask 077
folder=${1:?usage: make-secrets.sh FOLDER [CLUSTER]...}
shift
namespace=${NAMESPACE:-argosy}
mkdir -p "$folder/server" "$folder/admin"
cd "$folder"

[ -e authority/authority.pem ] || argosy certs init authority > /dev/null
if [ ! -e authority/server.pem ]; then
    hosts="--host argosy-server --host localhost --host 127.0.0.1"
    for role in api leader relay; do
        hosts="$hosts --host argosy-$role --host argosy-$role.$namespace --host argosy-$role.$namespace.svc"
    done
    for host in $(echo "${API_HOSTS:-}" | tr ',' ' '); do
        hosts="$hosts --host $host"
    done
    # shellcheck disable=SC2086 # one word for each name
    argosy certs issue authority --for-servers $hosts > /dev/null
fi
argosy certs renew authority > /dev/null
cp authority/authority.pem server/ca.crt
cp authority/authority.pem admin/ca.crt
cp authority/server.pem server/tls.crt
cp authority/server.key server/tls.key
[ -e server/encryption-keys ] || argosy admin encryption-key first --keys-file server/encryption-keys > /dev/null

add_token() { # KNOWN FILE OPTIONS...: draw a token into a new file, and its hash into the file of who is dialled
    [ -e "$2" ] && return
    known=$1 file=$2
    shift 2
    [ -e "$known" ] || echo "tokens:" > "$known"
    rm -f "$file.new" # of a run that was cut short
    argosy admin token "$@" --secret-file "$file.new" >> "$known"
    mv "$file.new" "$file"
}
add_token server/tokens.yaml server/token --for-servers
add_token server/tokens.yaml admin/token admin

write_kustomization() { # FOLDER: begin to say which files make which secrets
    {
        echo "apiVersion: kustomize.config.k8s.io/v1beta1"
        echo "kind: Kustomization"
        echo "namespace: $namespace"
        echo "generatorOptions: {disableNameSuffixHash: true, labels: {app.kubernetes.io/part-of: argosy}}"
        echo "secretGenerator:"
    } > "$1/kustomization.yaml"
}
add_secret() { # FOLDER SECRET FILE...: say that files make a secret
    to="$1/kustomization.yaml"
    printf '  - name: %s\n    files:\n' "$2" >> "$to"
    shift 2
    printf '      - %s\n' "$@" >> "$to"
}
write_kustomization .
add_secret . argosy-server server/ca.crt server/tls.crt server/tls.key server/token server/tokens.yaml \
    server/encryption-keys
for cluster in "$@"; do
    of="clusters/$cluster" of_sampler="authority/cluster-$cluster-sampler"
    mkdir -p "$of/permits" "$of/agent"
    cp authority/authority.pem "$of/ca.crt"
    add_token server/tokens.yaml "$of/token" --cluster "$cluster"
    [ -e "$of_sampler.pem" ] || argosy certs issue authority --cluster "$cluster" --part sampler --host argosy-permits \
        --host argosy-sampler --host "argosy-sampler.$namespace" --host "argosy-sampler.$namespace.svc" > /dev/null
    add_token "$of/permits/tokens.yaml" "$of/agent/token" --cluster "$cluster" --part agent
    write_kustomization "$of"
    add_secret "$of" argosy-cluster ca.crt token
    add_secret "$of" argosy-permits permits/tls.crt permits/tls.key permits/tokens.yaml
    add_secret "$of" argosy-agent ca.crt agent/token
done
for of in clusters/*/permits; do
    [ -d "$of" ] || continue
    of_sampler="authority/cluster-$(basename "$(dirname "$of")")-sampler"
    cp "$of_sampler.pem" "$of/tls.crt"
    cp "$of_sampler.key" "$of/tls.key"
done
