"""Builders, contract suites and fakes for the tests of Argosy.

Owns: values to test with, one suite per port, and fakes of what is foreign; never of our own classes.
May import: adapters, the core and wire types; no service. Only tests import it.
Start: `cluster_contract` and `eventlog_contract` (the suites), `fake_api`, `fake_kube_api`, `fake_kubelet`.
"""
