"""Real parts for tests, for anyone: a Kubernetes control plane, a Pulsar broker, Postgres servers.

`python -m testbed build` fetches and builds what is missing into a cache, `up` starts parts and `down` ends them. Tests
use the classes directly: `testbed.cluster.KubeApi`, `testbed.pulsar.Broker`, `testbed.postgres.Server`.

Where a part comes from: the control plane is built from Go modules (or `ARGOSY_TESTBED_CONTROL_PLANE` names a binary
made so elsewhere). Pulsar and the second Postgres are what the cache holds, else containers where an engine answers and
has or gets the image, else Maven artifacts; `ARGOSY_TESTBED_SOURCE` (`auto`, `container`, `registry`) says otherwise.
The first Postgres is the embedded one. A part that cannot be had is an error that says what is missing.
"""
