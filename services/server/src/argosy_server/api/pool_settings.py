"""Settings of a pool's rounds that change while it is led: read, checked, stored, listed.

What is set is checked by the pool's leader, whose own configuration it is laid over; then this replica stores it.

Source: design section 9, "Settings"; `proto/argosy/api/v1/scheduling.proto`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from argosy.api.v1 import scheduling_pb2, scheduling_pb2_grpc
from argosy_core.errors import BackendUnavailable, InvalidRequest, Resource, StateConflict
from argosy_core.job.reading.findings import printable
from argosy_runtime.config import setting_texts, value_texts
from argosy_server.api.calls import Context
from argosy_server.api.codecs.changes_codec import encode_settings_change
from argosy_server.api.codecs.job_codec import timestamp
from argosy_server.api.leadership.routing import LeaderRouter, is_forwarded
from argosy_server.api.store_threads import StoreThreads
from argosy_server.leader.hot import HotSettings
from argosy_server.leader.settings import is_hot, require_hot, whole_key
from argosy_store.replicas.api import ApiStore
from argosy_store.replicas.pool_settings import PoolSettingsRow

if TYPE_CHECKING:
    from argosy_server.config import ServerConfig

__all__ = ["PoolSettings"]

_PAGE_SIZE: Final = 100
_MAX_DIGITS: Final = 19  # of an int64
_NOTHING: Final = PoolSettingsRow(0, {}, 0, "", "")


class PoolSettings:
    """What the API does with settings of pools.

    Args:
        store: Where they are.
        threads: Where blocking calls run.
        router: Finds the leader.
        config: This process's own configuration.
    """

    def __init__(self, store: ApiStore, threads: StoreThreads, router: LeaderRouter, config: ServerConfig) -> None:
        """Keep what it needs."""
        self._store = store
        self._threads = threads
        self._router = router
        self._own = HotSettings(config)

    async def get(
        self, pool: str, request: scheduling_pb2.GetPoolSettingsRequest, context: Context
    ) -> scheduling_pb2.GetPoolSettingsResponse:
        """Return the settings of a pool, as its leader sees them if it has one.

        Raises:
            BackendUnavailable: The leader or the database cannot be reached.
        """
        view = self._router.view(pool)
        if view is None and not is_forwarded(context):
            try:
                return await self._router.forward(
                    pool,
                    lambda channel: scheduling_pb2_grpc.SchedulingServiceStub(channel).GetPoolSettings,
                    request,
                    context=context,
                )
            except BackendUnavailable as error:
                if error.reason != "NO_LEADER":
                    raise
        hot, version = view.settings() if view is not None else (self._own, 0)
        newest = await self._newest(pool)
        if view is None:  # as the next leader will begin if it is configured as this process
            hot = HotSettings(hot.base)
            hot.take(newest)
        values, configured = value_texts(hot.present), value_texts(hot.base)
        return scheduling_pb2.GetPoolSettingsResponse(
            newest=_version_message(newest),
            version_in_effect=version,
            fault=printable(hot.fault),
            settings=[
                scheduling_pb2.PoolSetting(
                    key=one.key,
                    value=values[one.key],
                    configured_value=configured[one.key],
                    is_set=one.key in newest.settings,
                    text=one.text,
                )
                for one in setting_texts(type(hot.base))
                if is_hot(one.key)
            ],
        )

    async def set(
        self, pool: str, request: scheduling_pb2.SetPoolSettingsRequest, context: Context
    ) -> scheduling_pb2.SetPoolSettingsResponse:
        """Change settings, all or none, and return what is set by then.

        Raises:
            InvalidRequest: A setting does not change while a pool is led, or values are wrong.
            StateConflict: The newest version is another than expected, or somebody else changed it meanwhile.
            BackendUnavailable: The leader or the database cannot be reached; nothing has changed.
        """
        request = self._with_whole_keys(request)
        require_hot([*request.settings, *request.unset_keys])
        both = set(request.settings) & set(request.unset_keys)
        if both:
            raise InvalidRequest(f"set and unset at once: {', '.join(sorted(both))}")
        newest = await self._newest(pool)
        if request.HasField("expected_version") and request.expected_version != newest.version:
            raise StateConflict(
                f"the settings of pool {pool} are at version {newest.version}, not {request.expected_version}",
                reason="SETTINGS_CHANGED",
                resource=Resource(kind="Pool", name=pool),
            )
        wanted = {key: value for key, value in newest.settings.items() if key not in request.unset_keys}
        wanted |= request.settings
        await self._check(pool, wanted, request, context)
        changed = sorted(key for key in {*wanted, *newest.settings} if wanted.get(key) != newest.settings.get(key))
        row = PoolSettingsRow(newest.version + 1, wanted, 0, "", request.comment)
        if not changed:
            row = newest
        elif not request.validate_only:
            row = await self._threads.run(
                self._store.set_pool_settings,
                pool,
                wanted,
                version=newest.version + 1,
                comment=request.comment,
                news=encode_settings_change(),
                detail=", ".join(f"{key}={wanted.get(key, 'unset')}" for key in changed),
            )
        return scheduling_pb2.SetPoolSettingsResponse(version=_version_message(row))

    def _with_whole_keys(self, request: scheduling_pb2.SetPoolSettingsRequest) -> scheduling_pb2.SetPoolSettingsRequest:
        """Return a request with whole keys in place of their endings.

        Raises:
            InvalidRequest: A setting is set twice.
        """
        hot = [one.key for one in setting_texts(type(self._own.base)) if is_hot(one.key)]
        whole = scheduling_pb2.SetPoolSettingsRequest()
        whole.CopyFrom(request)
        whole.ClearField("settings")
        whole.ClearField("unset_keys")
        for key, value in request.settings.items():
            name = whole_key(key, hot)
            if name in whole.settings:
                raise InvalidRequest(f"{name} is set twice")
            whole.settings[name] = value
        whole.unset_keys.extend(whole_key(key, hot) for key in request.unset_keys)
        return whole

    async def _check(
        self, pool: str, wanted: dict[str, str], request: scheduling_pb2.SetPoolSettingsRequest, context: Context
    ) -> None:
        """Have the leader say whether it could go by settings; this process if there is no leader."""
        view = self._router.view(pool)
        if view is not None:
            view.settings()[0].check(wanted)
            return
        if is_forwarded(context):
            raise BackendUnavailable(f"the leader of pool {pool!r} is changing; try again", reason="NO_LEADER")
        asked = scheduling_pb2.SetPoolSettingsRequest()
        asked.CopyFrom(request)
        asked.validate_only = True
        try:
            await self._router.forward(
                pool,
                lambda channel: scheduling_pb2_grpc.SchedulingServiceStub(channel).SetPoolSettings,
                asked,
                context=context,
            )
        except BackendUnavailable as error:
            if error.reason != "NO_LEADER":
                raise
            self._own.check(wanted)

    async def list(
        self, pool: str, request: scheduling_pb2.ListPoolSettingsRequest
    ) -> scheduling_pb2.ListPoolSettingsResponse:
        """Return versions of a pool's settings, newest first.

        Raises:
            InvalidRequest: The page token is none of ours.
            BackendUnavailable: The database cannot be reached.
        """
        token = request.page_token
        if token and not (token.isascii() and token.isdecimal() and len(token) <= _MAX_DIGITS and int(token) < 1 << 63):
            raise InvalidRequest("page_token is none that this server gave")
        size = request.page_size or _PAGE_SIZE
        rows = await self._threads.run(self._store.list_pool_settings, pool, int(token or 0), size + 1)
        return scheduling_pb2.ListPoolSettingsResponse(
            versions=[_version_message(row) for row in rows[:size]],
            next_page_token=str(rows[size - 1].version) if len(rows) > size else "",
        )

    async def _newest(self, pool: str) -> PoolSettingsRow:
        return await self._threads.run(self._store.pool_settings, pool) or _NOTHING


def _version_message(row: PoolSettingsRow) -> scheduling_pb2.PoolSettingsVersion:
    return scheduling_pb2.PoolSettingsVersion(
        version=row.version,
        settings=row.settings,
        create_time=timestamp(row.create_time_us) if row.create_time_us else None,
        principal=row.principal,
        comment=printable(row.comment),
    )
