"""The event log on Apache Pulsar: one persistent topic per pool, one message per record.

`log.PulsarLog` is the log, `admin` makes and checks topics, `sender.PulsarSender` publishes to other systems. They are
imported from their modules, because those that speak to brokers load Pulsar's client.

Source: 003 "Architecture" (lease messages on Pulsar); design section 5, "Ingest".
"""

from __future__ import annotations

from argosy_eventlog.pulsar.settings import PulsarSettings

__all__ = ["PulsarSettings"]
