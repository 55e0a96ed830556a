"""ServerService: what this server is, and what it takes.

Source: `proto/argosy/api/v1/server.proto`.
"""

from __future__ import annotations

from importlib.metadata import version

from argosy.api.v1 import server_pb2, server_pb2_grpc
from argosy_core.job.reading.manifest_schema_data import KUBERNETES_VERSION
from argosy_core.job.reading.spec import SpecLimits
from argosy_runtime.validation import check_request
from argosy_server.api.calls import Context
from argosy_server.api.submits.submit_items import MAX_ITEM_COUNT
from argosy_server.config import ServerConfig

__all__ = ["ServerService"]

_MAX_PAGE_SIZE = 1000  # as the rules of the list requests say


class ServerService(server_pb2_grpc.ServerServiceServicer):
    """Answers from the configuration.

    Args:
        config: The server's configuration.
        limits: Bounds of specs.
    """

    def __init__(self, config: ServerConfig, limits: SpecLimits) -> None:
        """Make the answer, which never changes."""
        features = [server_pb2.FEATURE_YAML_MANIFESTS, server_pb2.FEATURE_FILTERED_WATCH]
        if config.events_url:
            features.append(server_pb2.FEATURE_EVENT_RELAY)
        self._answer = server_pb2.GetServerInfoResponse(
            version=version("argosy-server"),
            default_pool=config.pool,
            limits=server_pb2.ServerLimits(
                max_request_bytes=config.grpc.max_message_bytes,
                max_jobs_per_request=config.api.max_jobs_per_request,
                max_items_per_request=MAX_ITEM_COUNT,
                max_manifests_per_spec=limits.max_manifest_count,
                max_manifest_bytes=limits.max_manifest_bytes,
                max_queued_count=config.api.max_queued_count,
                max_page_size=_MAX_PAGE_SIZE,
            ),
            features=features,
            kubernetes_version=KUBERNETES_VERSION,
        )

    async def GetServerInfo(  # noqa: N802 - the protocol's name
        self, request: server_pb2.GetServerInfoRequest, context: Context
    ) -> server_pb2.GetServerInfoResponse:
        """Answer version, limits and features."""
        del context
        check_request(request)
        return self._answer
