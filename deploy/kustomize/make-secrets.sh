#!/bin/sh
# Make what an installation by kustomize proves itself by, in a folder: an authority, the servers' certificate, the key that
# seals the secrets of jobs, and tokens for the administrator, for servers and for each CLUSTER. The servers see hashes of
# tokens. Called again it adds what is not there, and renews a certificate that ends within 30 days.
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

add_token() { # FILE OPTIONS...: draw a token into a new file, and tell servers its hash
    [ -e "$1" ] && return
    file=$1
    shift
    [ -e server/tokens.yaml ] || echo "tokens:" > server/tokens.yaml
    rm -f "$file.new" # of a run that was cut short
    argosy admin token "$@" --secret-file "$file.new" >> server/tokens.yaml
    mv "$file.new" "$file"
}
add_token server/token --for-servers
add_token admin/token admin

write_kustomization() { # FOLDER SECRET FILE...: say that files make a secret
    to="$1/kustomization.yaml" secret=$2
    shift 2
    {
        echo "apiVersion: kustomize.config.k8s.io/v1beta1"
        echo "kind: Kustomization"
        echo "namespace: $namespace"
        echo "generatorOptions: {disableNameSuffixHash: true, labels: {app.kubernetes.io/part-of: argosy}}"
        echo "secretGenerator:"
        echo "  - name: $secret"
        echo "    files:"
        for file in "$@"; do
            echo "      - $file"
        done
    } > "$to"
}
write_kustomization . argosy-server server/ca.crt server/tls.crt server/tls.key server/token server/tokens.yaml \
    server/encryption-keys
for cluster in "$@"; do
    of="clusters/$cluster"
    mkdir -p "$of"
    cp authority/authority.pem "$of/ca.crt"
    add_token "$of/token" --cluster "$cluster"
    write_kustomization "$of" argosy-cluster ca.crt token
done
