"""A proxy among others: what must be true of the store before it serves, and how it says that it is there.

The rule: proxies that disagree about which keys are gated must never serve one store, since one of them would let
through what the other keeps back. The first proxy's templates stand in etcd for as long as any proxy is registered.
"""

import asyncio
import contextlib
import json
import secrets
from collections.abc import Iterable, Mapping
from typing import Any

import grpc

from greenroom.backoff import Backoff
from greenroom.core import txns
from greenroom.core.compares import never
from greenroom.core.keyspace import FIRST_CLIENT_KEY, ROOT, TEMPLATES_DIGEST, Key, prefix_end
from greenroom.errors import StartError
from greenroom.pb.etcd import kv_pb2, rpc_pb2
from greenroom.store.own_leases import own_grant
from greenroom.store.peers import Peer, Peers
from greenroom.store.upstream import Upstream, why

PROXIES = Key(ROOT + b"proxies/")
TTL_SECONDS = 15
"""A proxy that was killed counts as present for so long."""
BEAT_SECONDS = TTL_SECONDS / 3
CALL_SECONDS = 5.0
TRY_SECONDS = 3.0
"""For one beat. After a beat that was missed there is time for two more such tries before the lease ends."""
LONGEST_PAUSE_SECONDS = 1.0


async def refuse_foreign_keys(upstream: Upstream, *, timeout_seconds: float = CALL_SECONDS) -> None:
    """StartError where the reserved area holds a key that is not Greenroom's: clients would lose sight of it.

    A user of etcd that is no root may not look below 0x01, for no shell can write that in a grant; then who gave it its
    role must know.
    """
    for start, end in ((b"\x01", ROOT), (prefix_end(ROOT), FIRST_CLIENT_KEY), (b"\0", b"\x01")):
        request = rpc_pb2.RangeRequest(key=start, range_end=end, keys_only=True, limit=1)
        try:
            found = (await upstream.range(request, timeout_seconds=timeout_seconds)).kvs
        except grpc.aio.AioRpcError as error:
            if start == b"\0" and error.code() is grpc.StatusCode.PERMISSION_DENIED:
                return
            raise
        if found:
            raise StartError(
                f"etcd holds the key {found[0].key!r}, and keys whose first byte is below 0x02 are reserved for "
                "Greenroom: behind it nobody would see that key any more. Move or delete such keys, then start again"
            )


async def refuse_small_role(upstream: Upstream, prefixes: Iterable[bytes]) -> None:
    """StartError where etcd does not let the proxy's user read and write all that it must.

    etcd judges what a Txn would do, though its compare never holds.
    """
    for prefix in (b"\x01", *prefixes) if upstream.has_user else ():
        everything = rpc_pb2.RangeRequest(key=prefix, range_end=prefix_end(prefix), count_only=True)
        txn = rpc_pb2.TxnRequest(compare=[never(ROOT)])
        txn.success.extend((txns.put(prefix, b"", 0), rpc_pb2.RequestOp(request_range=everything)))
        try:
            await upstream.txn(txn, timeout_seconds=CALL_SECONDS)
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.PERMISSION_DENIED:
                raise
            raise StartError(
                f"--upstream-user: etcd does not let it read and write all keys that begin with {prefix!r}; "
                "`greenroom etcd-role` prints what it needs"
            ) from error


class Presence:
    """This proxy's registration, on a lease of its own. `address` is that of its control API, on the machine `host`."""

    def __init__(
        self,
        upstream: Upstream,
        *,
        policy_digest: str,
        templates_digest: str,
        address: str,
        host: str,
        version: str,
        log: Any,
        proxy_id: str | None = None,
    ) -> None:
        self._upstream, self._log = upstream, log
        self._templates = templates_digest
        self.proxy_id = proxy_id or secrets.token_hex(4)
        said = {"policy": policy_digest, "templates": templates_digest, "address": address, "host": host}
        self._said = {**said, "version": version}
        self._peers = Peers(policy_digest, log=log)
        self._policy_changed = asyncio.Event()
        self._written = b""
        self._lease = 0
        self._alive_until = 0.0
        self._why_not = "it did not register yet"
        self._is_away = False
        self._no_space = False

    @property
    def key(self) -> Key:
        """Where the registration lies."""
        return Key(PROXIES + self.proxy_id.encode())

    @property
    def peers(self) -> Mapping[str, Peer]:
        """The other proxies, by id, as of the last beat."""
        return self._peers.known

    @property
    def differing(self) -> frozenset[str]:
        """Those of them whose policy is another one than this proxy's."""
        return self._peers.differing

    def policy_changed(self, digest: str) -> None:
        """Another policy is in force here: `run` tells the others at once."""
        self._said["policy"] = digest
        self._peers.policy_changed(digest)
        self._policy_changed.set()

    async def start(self) -> None:
        """Registers; where etcd is full, goes on without: leases and reads do not need it, and `run` makes up for it.

        StartError as of `register`. The templates must stand in etcd already: a full etcd lets nobody change them.
        """
        try:
            await self.register()
        except grpc.aio.AioRpcError as error:
            if not _is_full(error) or not await self._templates_stand():
                raise
            self._went_away(error)

    async def register(self) -> None:
        """Registers, if the templates allow it: StartError says which proxies run with others, and what to do."""
        start = _time()
        granted = await self._upstream.lease_grant(own_grant(TTL_SECONDS), timeout_seconds=CALL_SECONDS)
        self._lease = granted.ID
        others = await self._register_on_lease()
        self._alive_until = start + TTL_SECONDS
        self._peers.seen(others)

    async def run(self) -> None:
        """Keeps the registration alive until cancelled; StartError where another's templates took over meanwhile."""
        backoff, pause = Backoff(longest_seconds=LONGEST_PAUSE_SECONDS), BEAT_SECONDS
        while True:
            await self._pause(pause)
            try:
                async with asyncio.timeout(TRY_SECONDS):
                    await self._stay()
            except (grpc.aio.AioRpcError, TimeoutError) as error:
                self._went_away(error)
                pause = backoff.next_seconds()
            else:
                self._came_back()
                backoff.reset()
                pause = BEAT_SECONDS

    @property
    def why_not_ready(self) -> str | None:
        """Why others do not see this proxy, for people; None while it is registered, as far as is known.

        None as well while etcd is full: no proxy could register then, and clients had nowhere to go.
        """
        is_registered = self._alive_until > _time()
        return None if is_registered or self._no_space else f"this proxy is not registered in etcd: {self._why_not}"

    async def _pause(self, seconds: float) -> None:
        """Until the next beat, or there is something to tell."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._policy_changed.wait()
        self._policy_changed.clear()

    async def _stay(self) -> None:
        """One beat and a look at the others; a new registration where the last one is gone, or was not completed."""
        if self._alive_until:
            if await self._beat():
                await self._tell_and_look()
                return
            self._alive_until, self._why_not = 0.0, "its lease ended"
            self._log.warning("presence.lost", proxy=self.proxy_id)
        await self.register()

    def _went_away(self, error: Exception) -> None:
        """Told when it begins, not with each beat that fails."""
        self._why_not, self._no_space = why(error, TRY_SECONDS), _is_full(error)
        if not self._is_away:
            self._is_away = True
            self._log.warning("presence.away", proxy=self.proxy_id, reason=self._why_not)

    def _came_back(self) -> None:
        self._no_space = False
        if self._is_away:
            self._is_away = False
            self._log.info("presence.back", proxy=self.proxy_id)

    async def close(self) -> None:
        """Ends the registration at once, so that proxies with other templates need not wait for its lease."""
        if not self._lease:
            return
        request = rpc_pb2.LeaseRevokeRequest(ID=self._lease)
        self._lease, self._alive_until = 0, 0.0
        try:
            await self._upstream.lease_revoke(request, timeout_seconds=CALL_SECONDS)
        except grpc.aio.AioRpcError as error:
            self._log.warning("presence.not_revoked", reason=why(error, CALL_SECONDS))

    async def _beat(self) -> bool:
        """One keepalive; whether the lease is still there."""
        start = _time()
        answer = await self._upstream.lease_keep_alive(rpc_pb2.LeaseKeepAliveRequest(ID=self._lease))
        if answer is None or answer.TTL <= 0:
            return False
        self._alive_until = start + answer.TTL
        return True

    async def _tell_and_look(self) -> None:
        """What is new here is written, and what the others say is read."""
        value, everybody = self._value, _everybody()
        if value == self._written:
            found = await self._upstream.range(everybody, timeout_seconds=CALL_SECONDS)
        else:
            look = rpc_pb2.RequestOp(request_range=everybody)
            txn = rpc_pb2.TxnRequest(success=[txns.put(self.key, value, self._lease), look])
            found = (await self._upstream.txn(txn, timeout_seconds=CALL_SECONDS)).responses[1].response_range
            self._written = value
        self._peers.seen(_others(found.kvs, self.key))

    @property
    def _value(self) -> bytes:
        return json.dumps(self._said).encode()

    async def _templates_stand(self) -> bool:
        """Whether the templates in etcd are these already."""
        request = rpc_pb2.RangeRequest(key=TEMPLATES_DIGEST)
        found = (await self._upstream.range(request, timeout_seconds=CALL_SECONDS)).kvs
        return [kv.value for kv in found] == [self._templates.encode()]

    async def _register_on_lease(self) -> dict[str, dict[str, Any]]:
        """The other proxies, by id."""
        value, registration = self._value, self._registration()
        answer = await self._upstream.txn(registration, timeout_seconds=CALL_SECONDS)
        self._written = value
        if answer.succeeded:
            return _others(answer.responses[1].response_range.kvs, self.key)
        alone = answer.responses[0].response_txn
        if not alone.succeeded:
            await self.close()
            raise self._disagreement(_others(alone.responses[0].response_range.kvs, self.key))
        return {}

    def _registration(self) -> rpc_pb2.TxnRequest:
        """Same templates: register. Other ones, or none: register and set them if no proxy is there."""
        register = txns.put(self.key, self._value, self._lease)
        look = rpc_pb2.RequestOp(request_range=_everybody())
        if_alone = rpc_pb2.TxnRequest(
            compare=[_nobody_registered()],
            success=[txns.put(TEMPLATES_DIGEST, self._templates.encode(), 0), register],
            failure=[look],
        )
        return rpc_pb2.TxnRequest(
            compare=[_templates_are(self._templates)],
            success=[register, look],
            failure=[rpc_pb2.RequestOp(request_txn=if_alone)],
        )

    def _disagreement(self, others: dict[str, dict[str, Any]]) -> StartError:
        named = ", ".join(f"{name} at {_place(said)}" for name, said in sorted(others.items()))
        return StartError(
            f"other proxies serve this etcd with other key templates: {named}. All must gate the same keys: start this "
            "one with their preset, templates and hold, or stop them first (one that was killed counts as present for "
            f"{TTL_SECONDS} s)"
        )


def _everybody() -> rpc_pb2.RangeRequest:
    return rpc_pb2.RangeRequest(key=PROXIES, range_end=prefix_end(PROXIES))


def _place(said: dict[str, Any]) -> str:
    """Where another proxy runs: its control address alone may be one of each machine's own."""
    return f"{said.get('address', 'an unknown address')} on {said.get('host', 'an unknown host')}"


def _time() -> float:
    return asyncio.get_running_loop().time()


def _is_full(error: Exception) -> bool:
    return isinstance(error, grpc.aio.AioRpcError) and error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


def _templates_are(digest: str) -> rpc_pb2.Compare:
    value = digest.encode()
    return rpc_pb2.Compare(
        key=TEMPLATES_DIGEST, target=rpc_pb2.Compare.VALUE, result=rpc_pb2.Compare.EQUAL, value=value
    )


def _nobody_registered() -> rpc_pb2.Compare:
    """A range compare holds for every key of the range, and an existing key has a version above 0."""
    compare = txns.absent(PROXIES)
    compare.range_end = prefix_end(PROXIES)
    return compare


def _others(kvs: Iterable[kv_pb2.KeyValue], own: bytes) -> dict[str, dict[str, Any]]:
    """What the other proxies say of themselves, by id."""
    return {kv.key[len(PROXIES) :].decode("utf-8", "replace"): _said(kv.value) for kv in kvs if kv.key != own}


def _said(value: bytes) -> dict[str, Any]:
    try:
        said = json.loads(value)
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}
