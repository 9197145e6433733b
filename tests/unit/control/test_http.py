"""The three pages. Listening is shown in tests/integration."""

import asyncio

import httpx

from greenroom.access.admission import Admission
from greenroom.control.http import Readiness, http_app
from greenroom.control.metrics import Metrics
from greenroom.store.mirror import Mirror
from tests.support.callers import admission, bearer, open_admission
from tests.support.control_side import GATED, EventLog, MovableClock
from tests.support.mirroring import unconnected
from tests.support.policies import policy_in_force

MEMBERS = {"127.0.0.1:1": "not asked yet"}


class Known(Readiness):
    """Readiness without asking etcd."""

    def __init__(self, *reasons: str) -> None:
        upstream = unconnected()
        super().__init__((), upstream, policy_in_force(upstream, log=EventLog()))
        self._reasons = list(reasons)

    async def reasons(self) -> list[str]:
        return self._reasons


async def get(
    path: str, *reasons: str, access: Admission | None = None, open_metrics: bool = False, token: str = ""
) -> httpx.Response:
    metrics = Metrics(Mirror(GATED), clock=MovableClock(), gates=(), methods=(), version="1")
    app = http_app(Known(*reasons), metrics, access or open_admission(), open_metrics=open_metrics)
    headers = {"authorization": token} if token else {}
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://here") as client:
        return await client.get(path, headers=headers)


async def test_live_needs_nothing() -> None:
    assert (await get("/live", "etcd is away")).status_code == 200


async def test_ready_says_why_not() -> None:
    answer = await get("/ready", "etcd is away")
    said = answer.json()
    assert said.pop("policy")["peers"] == []
    assert (answer.status_code, said) == (503, {"ready": False, "reasons": ["etcd is away"], "members": MEMBERS})
    answer = await get("/ready")
    said = answer.json()
    assert "refusal" not in said.pop("policy")
    assert (answer.status_code, said) == (200, {"ready": True, "reasons": [], "members": MEMBERS})


async def test_a_crowd_of_probes_is_one_read_of_etcd() -> None:
    """Each is a read that needs a quorum, and anybody may ask."""

    class Counted(Readiness):
        reads = 0

        async def _why_etcd_does_not_answer(self) -> str | None:
            self.reads += 1
            return "etcd is away"

    upstream = unconnected()
    counted = Counted((), upstream, policy_in_force(upstream, log=EventLog()))
    told = await asyncio.gather(*(counted.reasons() for _ in range(100)))
    assert (told, counted.reads) == ([["etcd is away"]] * 100, 1)


async def test_metrics_are_this_programs_own() -> None:
    answer = await get("/metrics")
    assert 'greenroom_build_info{version="1"} 1.0' in answer.text
    assert "python_gc" not in answer.text


async def test_there_is_nothing_else() -> None:
    assert (await get("/")).status_code == 404


async def test_with_an_access_file_metrics_are_for_those_who_may_look() -> None:
    for token in ("", bearer("stranger"), bearer("late")):
        refused = await get("/metrics", access=admission(), token=token)
        assert refused.status_code == 401
        assert refused.headers["www-authenticate"] == "Bearer"
        said = refused.json()["error"]
        assert (said["status"], said["details"][0]["reason"]) == ("UNAUTHENTICATED", "UNAUTHENTICATED")
    assert (await get("/metrics", access=admission(), token=bearer("grafana"))).status_code == 200
    assert (await get("/metrics", access=admission(), open_metrics=True)).status_code == 200


async def test_probes_are_open_whatever_the_access_file_says() -> None:
    """A kubelet has no token."""
    for path in ("/live", "/ready"):
        assert (await get(path, access=admission())).status_code == 200
