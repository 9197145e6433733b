"""What monitoring is told of certificates."""

from pathlib import Path

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.utils import floatToGoString

from greenroom.control.tls_metrics import FromTls
from greenroom.tls.contexts import load_client
from greenroom.tls.files import TlsFiles
from greenroom.tls.refusals import Refusals
from greenroom.tls.reloading import Reloaded
from greenroom.tls.sides import Side
from tests.support.certificates import Authority
from tests.support.control_side import EventLog


def test_each_use_says_until_when_and_whether_its_files_are_in_use(tmp_path: Path) -> None:
    authority, log = Authority(tmp_path), EventLog()
    issued = authority.issue()
    refusals = Refusals("listen", clock=lambda: 0.0, log=log)
    listen = Side(Reloaded("listen", issued.files, load_client, log=log), refusals)
    upstream = Side(Reloaded("upstream", TlsFiles(trusted=issued.trusted), load_client, log=log))
    registry = CollectorRegistry()
    registry.register(FromTls([listen, upstream]))
    authority.issue()
    for _ in range(2):
        listen.reloaded.look()
    authority.issue(ends_in_seconds=-1)
    for _ in range(2):
        listen.reloaded.look()
    refusals.refused("http request")
    told = generate_latest(registry).decode().splitlines()
    in_use = listen.reloaded.loaded.expires
    assert in_use is not None
    assert {line for line in told if not line.startswith("#")} == {
        f'greenroom_tls_certificate_expiry_seconds{{use="listen"}} {floatToGoString(in_use.timestamp())}',
        'greenroom_tls_files_refused{use="listen"} 1.0',
        'greenroom_tls_files_refused{use="upstream"} 0.0',
        'greenroom_tls_reloads_total{use="listen"} 1.0',
        'greenroom_tls_reloads_total{use="upstream"} 0.0',
        'greenroom_tls_reload_failures_total{use="listen"} 1.0',
        'greenroom_tls_reload_failures_total{use="upstream"} 0.0',
        'greenroom_tls_clients_refused_total{use="listen"} 1.0',
        'greenroom_tls_clients_refused_total{use="upstream"} 0.0',
    }
