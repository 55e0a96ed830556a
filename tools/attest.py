"""Say of wheels, archives and bills what they were made from, signed; and check what somebody said of them.

An archive of images (`docker save`) is signed as a file, and each image in it by its name and id besides, as a machine
tells them of what it has loaded: `docker image inspect --format '{{.Id}}' NAME`.

The statement is in-toto's (v1) with the predicate SLSA provenance (v1): each file by its SHA-256, the commit, and the
pinned requirements by theirs. It is signed by a key of P-256 in an envelope (DSSE v1). Nothing is asked of the network.

Usage: python tools/attest.py key PRIVATE.pem PUBLIC.pem
       python tools/attest.py sign --key PRIVATE.pem --out provenance.json FILE...
       python tools/attest.py verify --key PUBLIC.pem --commit COMMIT provenance.json FILE...
"""

import argparse
import base64
import binascii
import hashlib
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

ROOT = Path(__file__).resolve().parent.parent
PAYLOAD_TYPE = "application/vnd.in-toto+json"
STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "https://slsa.dev/provenance/v1"
BUILD_TYPE = "https://argosy.dev/build/v1"
MATERIALS = ("requirements.txt", "requirements-build.txt", "deploy/docker/Dockerfile")
MAX_BYTES = 1 << 20  # of an envelope; one for all files of a release is a few KiB


class AttestError(Exception):
    """What is said does not hold, or cannot be read."""


def digest(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def images_in(path: Path) -> list[dict[str, Any]]:
    """Return name and id of each image of an archive, as subjects of a statement; nothing of other files."""
    try:
        with tarfile.open(path) as archive:
            listed = archive.extractfile("manifest.json")
            images = json.load(listed) if listed is not None else []
            found = []
            for image in images:
                config = archive.extractfile(image["Config"])
                if config is None:
                    raise AttestError(f"{path.name} lacks the configuration of an image")
                value = hashlib.sha256(config.read()).hexdigest()
                found += [{"name": name, "digest": {"sha256": value}} for name in image["RepoTags"] or ()]
            return found
    except (tarfile.TarError, KeyError, TypeError, ValueError):
        return []


def make_statement(files: Sequence[Path], *, commit: str) -> dict[str, Any]:
    """Return what is said of files that were made from a commit, sorted by name; equal input gives equal bytes."""
    materials = [{"uri": f"file:{name}", "digest": {"sha256": digest(ROOT / name)}} for name in MATERIALS]
    return {
        "_type": STATEMENT,
        "subject": [
            *({"name": file.name, "digest": {"sha256": digest(file)}} for file in sorted(files)),
            *(image for file in sorted(files) for image in images_in(file)),
        ],
        "predicateType": PREDICATE,
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                "externalParameters": {},
                "resolvedDependencies": [{"uri": "git", "digest": {"gitCommit": commit}}, *materials],
            },
            "runDetails": {"builder": {"id": BUILD_TYPE}},
        },
    }


def signed_bytes(payload: bytes) -> bytes:
    """Return what a signature of an envelope is over: type and payload with their lengths (DSSE's PAE)."""
    kind = PAYLOAD_TYPE.encode()
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)


def sign(statement: dict[str, Any], private_key: bytes) -> dict[str, Any]:
    """Return the envelope of a statement.

    Raises:
        AttestError: The key is none of P-256.
    """
    key = _read_key(private_key, is_private=True)
    payload = json.dumps(statement, sort_keys=True, separators=(",", ":")).encode()
    signature = key.sign(signed_bytes(payload), ec.ECDSA(hashes.SHA256()))
    return {
        "payloadType": PAYLOAD_TYPE,
        "payload": base64.b64encode(payload).decode(),
        "signatures": [{"keyid": "", "sig": base64.b64encode(signature).decode()}],
    }


def verify(envelope: bytes, files: Sequence[Path], public_key: bytes, *, commit: str = "") -> dict[str, Any]:
    """Return what an envelope says, if the key signed it and it says it of just these files.

    Args:
        envelope: The envelope, which may be anybody's.
        files: The files, at least one; each must be named there with the digest that it has.
        public_key: Whom to believe, PEM.
        commit: The commit that they must be made from; empty for any.

    Raises:
        AttestError: Something of that is not so; the message says what.
    """
    payload = _signed_payload(envelope, _read_key(public_key, is_private=False))
    try:
        statement = json.loads(payload)
        kinds = statement["_type"], statement["predicateType"]
        told = {one["name"]: one["digest"]["sha256"] for one in statement["subject"]}
        commits = [
            one["digest"]["gitCommit"]
            for one in statement["predicate"]["buildDefinition"]["resolvedDependencies"]
            if one["uri"] == "git"
        ]
    except (ValueError, KeyError, TypeError) as cause:
        raise AttestError("what was signed is no provenance") from cause
    if kinds != (STATEMENT, PREDICATE):
        raise AttestError(f"what was signed is no provenance, but {kinds}")
    if not files:
        raise AttestError("there is no file to check")
    for file in files:
        if told.get(file.name) != digest(file):
            raise AttestError(f"{file.name} is not the file that was signed")
    if commit and commits != [commit]:
        raise AttestError(f"the files were made from {commits}, not from {commit}")
    return dict(statement)


def _signed_payload(envelope: bytes, key: Any) -> bytes:  # noqa: ANN401 - a key of either kind
    try:
        if len(envelope) > MAX_BYTES:
            raise ValueError
        document = json.loads(envelope)
        payload = base64.b64decode(document["payload"], validate=True)
        signatures = [base64.b64decode(one["sig"], validate=True) for one in document["signatures"]]
        kind = document["payloadType"]
    except (ValueError, KeyError, TypeError, RecursionError, binascii.Error) as cause:
        raise AttestError("this is no signed envelope") from cause
    if kind != PAYLOAD_TYPE:
        raise AttestError("the envelope holds something else")
    for signature in signatures[:8]:
        try:
            key.verify(signature, signed_bytes(payload), ec.ECDSA(hashes.SHA256()))
        except InvalidSignature:
            continue
        return payload
    raise AttestError("the signature is not of this key, or what was signed was changed")


def _read_key(pem: bytes, *, is_private: bool) -> Any:  # noqa: ANN401 - a key of either kind
    try:
        key: Any = (
            serialization.load_pem_private_key(pem, None) if is_private else serialization.load_pem_public_key(pem)
        )
    except (ValueError, TypeError, UnsupportedAlgorithm) as cause:
        raise AttestError("the key cannot be read; it must be PEM, without a password") from cause
    if not isinstance(getattr(key, "curve", None), ec.SECP256R1):
        raise AttestError("the key must be of P-256")
    return key


def make_keys() -> tuple[bytes, bytes]:
    """Return a new private key and its public one, PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    return private, public


def _present_commit() -> str:
    command = ["git", "-C", str(ROOT), "rev-parse", "HEAD"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("key")
    one.add_argument("private", type=Path)
    one.add_argument("public", type=Path)
    one = commands.add_parser("sign")
    one.add_argument("--key", type=Path, required=True)
    one.add_argument("--out", type=Path, required=True)
    one.add_argument("files", type=Path, nargs="+")
    one = commands.add_parser("verify")
    one.add_argument("--key", type=Path, required=True)
    one.add_argument("--commit", default="")
    one.add_argument("envelope", type=Path)
    one.add_argument("files", type=Path, nargs="+")
    options = parser.parse_args()
    try:
        if options.command == "key":
            private, public = make_keys()
            with os.fdopen(os.open(options.private, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(private)
            options.public.write_bytes(public)
        elif options.command == "sign":
            statement = make_statement(options.files, commit=_present_commit())
            envelope = sign(statement, options.key.read_bytes())
            options.out.write_text(json.dumps(envelope, indent=1) + "\n", encoding="utf-8")
        else:
            verify(options.envelope.read_bytes(), options.files, options.key.read_bytes(), commit=options.commit)
            print(f"{len(options.files)} files are as they were signed")
            for image in (one for file in options.files for one in images_in(file)):
                print(f"{image['name']} is image sha256:{image['digest']['sha256']}")
    except (AttestError, OSError) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
