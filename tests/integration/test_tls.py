"""TLS on every port and towards etcd, as processes: who is let in, who is not, and certificates that change.

One etcd and one proxy for the file, which ask everybody for a certificate; what is changed is a proxy of its own.
"""

import asyncio
import json
import re
import socket
import ssl
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import Queue

import grpc
import pytest
from starlette.applications import Starlette

from greenroom.cli.main import main
from greenroom.client import ControlError, Decision, Greenroom, Outcome
from greenroom.control import connections
from greenroom.control.http import HttpServer
from greenroom.pb.etcd import rpc_pb2
from greenroom.tls.settings import TlsSettings
from greenroom.tls.sides import Sides
from tests.support.certificates import HERE, Authority, Issued
from tests.support.client import CALL_SECONDS, EtcdClient, get, put, version_is
from tests.support.control_side import EventLog
from tests.support.greenroom import GATES, PROGRAM, environment
from tests.support.http import ask
from tests.support.runners import GateRunner, shell
from tests.support.secure import Mounted, Party, SecureEtcd, SecureGreenroom
from tests.support.waiting import wait_for
from tests.support.workers import CARDS, Worker

RUN_SECONDS = 60
AT_ONCE = 300
MIB = 1024 * 1024


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def etcd(authority: Authority) -> Iterator[SecureEtcd]:
    with SecureEtcd(authority) as etcd:
        etcd.start()
        yield etcd


@pytest.fixture(scope="module")
def greenroom(
    etcd: SecureEtcd, authority: Authority, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SecureGreenroom]:
    served = authority.issue(HERE, file="greenroom")
    with SecureGreenroom(etcd, tmp_path_factory.mktemp("proxy"), authority, served, authority.ca) as greenroom:
        yield greenroom


@pytest.fixture
def worker(greenroom: SecureGreenroom) -> Iterator[Worker]:
    with greenroom.client() as client:
        worker = Worker(client)
        assert worker.register().succeeded
        yield worker
        client.revoke(worker.lease)


def test_a_gate_runner_is_known_by_its_certificate(greenroom: SecureGreenroom, worker: Worker, tmp_path: Path) -> None:
    place = (f"https://{greenroom.control}", {gate: shell("true") for gate in GATES}, tmp_path)
    with GateRunner(*place, *greenroom.party.arguments("--control-")) as runner:
        wait_for(lambda: runner.health().status == 200, 30, "released")
    with greenroom.control_client() as control:
        assert {gate.reporter for gate in control.instance(worker.instance).gates} == {"worker.fleet"}


def test_etcdctl_goes_through_with_tls_on_both_sides(greenroom: SecureGreenroom) -> None:
    etcdctl = greenroom.etcdctl()
    assert etcdctl.lines("put", "plain", "value") == ["OK"]
    assert etcdctl.lines("get", "plain", "--print-value-only") == ["value"]
    (member,) = etcdctl.json("member", "list")["members"]
    assert member["clientURLs"] == [f"https://{greenroom.address}"]
    lease = etcdctl.json("lease", "grant", "60")["ID"]
    assert "keepalived" in etcdctl.run("lease", "keep-alive", "--once", f"{lease:x}").stdout


def test_a_worker_is_held_and_released_over_tls(greenroom: SecureGreenroom, worker: Worker, etcd: SecureEtcd) -> None:
    """By the command line, which says who it is by its files as well."""
    with etcd.client() as public:
        assert public.get(worker.card_key) is None
        for gate in GATES:
            assert gate in greenroom.must("verdict", worker.instance, gate, "passed", "--reason", "checked")
        assert json.loads(greenroom.must("instance", worker.instance, "-o", "json"))["state"] == "RELEASED"
        assert public.get(worker.card_key) is not None


def test_the_python_client_knows_the_proxy_and_is_known(greenroom: SecureGreenroom, worker: Worker) -> None:
    own, ca = greenroom.party.own, str(greenroom.party.ca)
    assert own is not None
    files = {"ca_file": ca, "cert_file": str(own.cert), "key_file": str(own.key)}
    with Greenroom(f"https://{greenroom.control}", **files) as client:
        assert client.report(worker.instance, GATES[0], Outcome.PASSED, attempt=1).decision is Decision.RECORDED
    with Greenroom(f"https://{greenroom.control}", ca_file=ca) as nobody, pytest.raises(ControlError) as refused:
        nobody.instance(worker.instance)
    assert "cert_file, key_file" in str(refused.value)
    with Greenroom(greenroom.control) as plain, pytest.raises(ControlError, match=r"\(address https://…, ca_file\)"):
        plain.instance(worker.instance)


def test_many_calls_at_once_on_one_connection(greenroom: SecureGreenroom, etcd: SecureEtcd) -> None:
    """With TLS etcd serves HTTP/2 by another library than without: it has limits on streams that begin and end."""
    with greenroom.client() as client, etcd.client() as public:
        workers = [Worker(client) for _ in range(AT_ONCE)]
        calls = [
            client.kv.Put.future(
                rpc_pb2.PutRequest(key=worker.card_key, value=worker.card(), lease=worker.lease), timeout=CALL_SECONDS
            )
            for worker in workers
        ]
        calls += [
            client.kv.Put.future(rpc_pb2.PutRequest(key=b"many/%d" % number, value=b"1"), timeout=CALL_SECONDS)
            for number in range(AT_ONCE)
        ]
        for call in calls:
            call.result()
        assert public.prefix(b"many/", count_only=True).count == AT_ONCE
        assert public.prefix(CARDS, count_only=True).count == 0
        assert all(client.get(worker.card_key) for worker in workers)
        for worker in workers:
            client.revoke(worker.lease)


def test_answers_of_many_mib_come_whole(greenroom: SecureGreenroom) -> None:
    with greenroom.client() as client:
        for number in range(6):
            client.put(b"large/%d" % number, bytes([number]) * MIB)
        assert [len(entry.value) for entry in client.prefix(b"large/").kvs] == [MIB] * 6


def code_of(call: Callable[[], object]) -> grpc.StatusCode:
    with pytest.raises(grpc.RpcError) as raised:
        call()
    code: grpc.StatusCode = raised.value.code()  # type: ignore[attr-defined]
    return code


def test_the_public_port_shows_no_held_card_by_any_call(greenroom: SecureGreenroom, worker: Worker) -> None:
    """A frontend has no business with what is held, whatever it asks; once it is public it is shown as any key."""
    card = worker.card_key
    with greenroom.client(address=greenroom.public) as frontend:
        with greenroom.client() as client:
            assert client.get(card) is not None
            assert list(client.time_to_live(worker.lease).keys) == [card]
            assert [url.clientURLs for url in frontend.cluster.MemberList(rpc_pb2.MemberListRequest()).members] == [
                [f"https://{greenroom.public}"]
            ]
        assert frontend.get(card) is None
        assert list(frontend.time_to_live(worker.lease).keys) == []
        read = frontend.txn([version_is(card, 0)], [get(card)], [])
        assert (read.succeeded, read.responses[0].response_range.count) == (True, 0)
        assert frontend.delete(card).deleted == 0
        assert code_of(lambda: frontend.put(card, b"{}", worker.lease)) is grpc.StatusCode.PERMISSION_DENIED
        registered = [put(card, b"{}", worker.lease)]
        assert code_of(lambda: frontend.txn([], registered)) is grpc.StatusCode.PERMISSION_DENIED
        snapshot = frontend.maintenance.Snapshot(rpc_pb2.SnapshotRequest(), timeout=CALL_SECONDS)
        assert code_of(lambda: list(snapshot)) is grpc.StatusCode.UNIMPLEMENTED
        frontend.put(b"v1/planner/frontend", b"1")
        with greenroom.control_client() as control:
            assert control.pass_gates(worker.instance) == "RELEASED"
        assert frontend.get(card) is not None


@pytest.fixture(scope="module")
def strangers(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Party]:
    """Those who should not be let in, and trust the proxy's CA all the same."""
    other = Authority(tmp_path_factory.mktemp("other"))
    return {
        "without a certificate": Party(authority.ca),
        "of another CA": Party(authority.ca, other.issue("worker.fleet")),
        "expired": Party(authority.ca, authority.issue("worker.fleet", file="expired", ends_in_seconds=-1)),
    }


@pytest.mark.parametrize("who", ["without a certificate", "of another CA", "expired"])
def test_strangers_are_let_in_nowhere(
    greenroom: SecureGreenroom, etcd: SecureEtcd, strangers: dict[str, Party], who: str
) -> None:
    """Neither at etcd's ports nor at control; of the HTTP port they see what anybody may."""
    stranger, refused = strangers[who], 'greenroom_tls_clients_refused_total{use="listen"}'
    before = greenroom.metric(refused)
    for address in (greenroom.address, greenroom.public):
        with greenroom.client(stranger, address) as client:
            assert code_of(lambda: client.put(b"stranger", b"was here")) is grpc.StatusCode.UNAVAILABLE
    with greenroom.control_client(stranger) as control:
        assert code_of(control.instances) is grpc.StatusCode.UNAVAILABLE
    with etcd.client() as client:
        assert client.get(b"stranger") is None
    assert greenroom.metric(refused) >= before + 2
    assert "tls.client.refused" in greenroom.log()
    assert "PRIVATE KEY" not in greenroom.log()


def test_pages_for_everybody_need_no_certificate_and_others_do(
    greenroom: SecureGreenroom, strangers: dict[str, Party]
) -> None:
    """A kubelet has none; the rest of the port is for those who are known. Whoever shows a bad one sees nothing."""
    nobody = strangers["without a certificate"]
    assert [greenroom.page(path, nobody).status for path in ("/live", "/ready", "/metrics")] == [200, 200, 200]
    assert greenroom.page("/v1/instances", nobody).status == 401
    assert greenroom.page("/v1/instances").status == 200
    assert greenroom.page("/live", strangers["of another CA"]).status == 0
    assert ask(greenroom.http_url.replace("https://", "http://") + "/live").status == 0


def heard(spoken: ssl.SSLSocket) -> bytes:
    """What comes from the other side first; nothing where it closes."""
    try:
        return spoken.recv(1)
    except (ConnectionError, ssl.SSLError):
        return b""


def test_nobody_speaks_to_etcds_port_but_in_http_2_over_tls(greenroom: SecureGreenroom) -> None:
    """A connection that agreed on nothing by ALPN, or on something else, is closed before a byte of it is read."""
    host, _, port = greenroom.address.rpartition(":")
    for protocols in ([], ["http/1.1"]):
        context = greenroom.party.context
        if protocols:
            context.set_alpn_protocols(protocols)
        opened = socket.create_connection((host, int(port)), RUN_SECONDS)
        with context.wrap_socket(opened, server_hostname=host) as spoken:
            assert heard(spoken) == b""
    with EtcdClient(greenroom.address) as plain:
        assert code_of(lambda: plain.get(b"a")) is grpc.StatusCode.UNAVAILABLE


def test_a_client_that_is_told_another_name_trusts_nobody(
    etcd: SecureEtcd, authority: Authority, greenroom: SecureGreenroom
) -> None:
    """The command line says what is wrong, and not merely that nobody answers."""
    place = ("--control", f"https://localhost:{greenroom.control.rpartition(':')[2]}")
    command = [*PROGRAM, "instances", *place, *greenroom.party.arguments("--control-")]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=RUN_SECONDS)
    assert done.returncode == 1
    assert "its certificate is for other names than localhost" in done.stderr


def test_roles_are_made_over_tls(etcd: SecureEtcd, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    password = tmp_path / "password"
    password.write_text("secret\n")
    command = ["etcd-role", "--apply", "--upstream", etcd.endpoint, "--proxy-password-file", str(password)]
    assert main([*command, *etcd.party.arguments("--upstream-")]) == 0
    assert "user greenroom: added" in capsys.readouterr().out
    with etcd.client() as client:
        assert list(client.auth.UserList(rpc_pb2.AuthUserListRequest()).users) == ["greenroom"]


def serve(*arguments: str) -> str:
    """What a start that fails says, in its one line."""
    command = [*PROGRAM, "serve", "--gate", "smoke=900s", *arguments]
    ports = [f"--{port}listen" for port in ("", "control-", "http-")]
    listens = [part for port in ports for part in (port, f"{HERE}:0")]
    done = subprocess.run(
        [*command, *listens], env=environment(), capture_output=True, text=True, timeout=RUN_SECONDS, check=False
    )
    assert done.returncode in (1, 2), done.stderr
    return next(line for line in done.stderr.splitlines() if line.startswith("greenroom: "))


def test_an_etcd_that_is_not_who_it_should_be_is_told(etcd: SecureEtcd, authority: Authority, tmp_path: Path) -> None:
    elsewhere = f"https://localhost:{etcd.port}"
    own = etcd.party.arguments("--upstream-")
    assert "TLS: Hostname mismatch" in serve("--upstream", elsewhere, *own)
    other = Authority(tmp_path / "other")
    stranger = Party(other.ca, etcd.party.own).arguments("--upstream-")
    assert "TLS: unable to get local issuer certificate" in serve("--upstream", etcd.endpoint, *stranger)
    nobody = Party(authority.ca).arguments("--upstream-")
    # Which alert it is depends on the etcd's age.
    assert re.search("TLS: .* alert .*certificate", serve("--upstream", etcd.endpoint, *nobody))


@pytest.fixture
def mounted(authority: Authority, tmp_path: Path) -> Mounted:
    made = Mounted(tmp_path / "mounted")
    made.swap(authority.issue(HERE, file="first"))
    return made


def shown_by(greenroom: SecureGreenroom, ca: Path, own: Issued | None) -> str:
    """The end of the certificate that etcd's port shows to a new connection."""
    host, _, port = greenroom.address.rpartition(":")
    context = Party(ca, own).context
    context.set_alpn_protocols(["h2"])
    opened = socket.create_connection((host, int(port)), RUN_SECONDS)
    with context.wrap_socket(opened, server_hostname=host) as spoken:
        return str((spoken.getpeercert() or {})["notAfter"])


def test_certificates_change_while_all_runs(
    etcd: SecureEtcd, authority: Authority, mounted: Mounted, tmp_path: Path
) -> None:
    """A keepalive stream lives on through new certificates of a new CA; a bad swap changes nothing and is told.

    The client's certificate is of the old CA: once that is taken out, it gets no new connection.
    """
    new = Authority(tmp_path / "new")
    with SecureGreenroom(etcd, tmp_path, authority, mounted.served, mounted.served.ca) as greenroom:
        reloads, failures = (f'greenroom_tls_{name}_total{{use="listen"}}' for name in ("reloads", "reload_failures"))
        with greenroom.client() as client, greenroom.control_client() as control:
            control.instances()
            stream = _KeepAlive(client)
            assert stream.renewed() > 0
            first = shown_by(greenroom, authority.ca, greenroom.party.own)
            mounted.swap(authority.issue(HERE, file="second", ends_in_seconds=7200), key=mounted.served.key)
            wait_for(lambda: greenroom.metric(failures) == 1, describe="the bad key is noticed")
            assert "does not belong to --tls-cert" in greenroom.log()
            assert shown_by(greenroom, authority.ca, greenroom.party.own) == first
            newcomer = Party(new.ca, new.issue("worker.fleet", file="worker"))
            mounted.swap(new.issue(HERE, file="third", ends_in_seconds=9000))
            greenroom_page = lambda: greenroom.page("/metrics", newcomer)  # noqa: E731
            wait_for(lambda: greenroom_page().status == 200, describe="the HTTP port has the new certificate")
            greenroom.party, old = newcomer, greenroom.party
            wait_for(lambda: greenroom.metric(reloads) == 1, describe="the new files are taken up")
            assert shown_by(greenroom, new.ca, newcomer.own) != first
            with greenroom.client() as another, greenroom.control_client() as newer:
                another.put(b"newcomer", b"1")
                newer.instances()
            with greenroom.client(Party(new.ca, old.own)) as late:
                assert code_of(lambda: late.put(b"late", b"1")) is grpc.StatusCode.UNAVAILABLE
            assert stream.renewed() > 0
            control.instances()
            client.put(b"still here", b"1")


class _KeepAlive:
    """A lease, and the one stream that keeps it alive."""

    def __init__(self, client: EtcdClient) -> None:
        self._lease = client.grant(30)
        self._requests: Queue[rpc_pb2.LeaseKeepAliveRequest] = Queue()
        self._answers = client.lease.LeaseKeepAlive(iter(self._requests.get, None), timeout=RUN_SECONDS)

    def renewed(self) -> int:
        """For so many seconds, by one more round on the stream."""
        self._requests.put(rpc_pb2.LeaseKeepAliveRequest(ID=self._lease))
        return int(next(self._answers).TTL)


async def test_who_does_not_shake_hands_with_the_http_port_is_not_waited_for(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before that nobody is among the connections that are bounded, and asyncio waits for a minute."""
    monkeypatch.setattr(connections, "REQUEST_SECONDS", 0.1)
    served = authority.issue(HERE, file="handshakes")
    settings = TlsSettings(control_tls_cert=served.cert, control_tls_key=served.key)
    http = HttpServer(Starlette(), host=HERE, port=0, tls=Sides.load(settings, log=EventLog()).control)
    port = http.start()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(http.run())
        reader, writer = await asyncio.open_connection(HERE, port)
        async with asyncio.timeout(CALL_SECONDS):
            assert await reader.read() == b""
        writer.close()
        http.stop()
