"""URLs as gates: 200 passes, anything else is asked again until the time is up."""

from greenroom.addresses import Address
from greenroom.gates.result import Outcome, Result
from greenroom.gates.url_check import ask_url
from greenroom.gates.url_place import UrlPlace
from tests.support.odd_server import OddServer, response
from tests.support.ports import free_port


async def test_200_passes_and_what_it_says_is_the_reason() -> None:
    with OddServer(lambda _: response("all well")) as server:
        place = UrlPlace.of(server.url, allow_remote=False)
        assert await ask_url(place, {"GATE": "x"}, 20, times_out="") == Result(Outcome.PASSED, "all well")
    assert server.bodies == [{"GATE": "x"}]


async def test_it_is_asked_again_until_it_passes() -> None:
    answers = iter([response("soon", "503 Not Yet"), response("", "201 Created"), response("now")])
    with OddServer(lambda _: next(answers)) as server:
        place = UrlPlace.of(server.url, allow_remote=False)
        assert await ask_url(place, {}, 60, times_out="") == Result(Outcome.PASSED, "now")


async def test_at_its_time_the_last_answer_is_the_reason() -> None:
    with OddServer(lambda _: response("", "302 Found", location="/x")) as server:
        place = UrlPlace.of(server.url, allow_remote=False)
        told = await ask_url(place, {}, 0.2, times_out="not over")
    words = f"not over; last: {place.address} answered 302, a redirect, which is not followed"
    assert told == Result(Outcome.FAILED, words)


async def test_that_nobody_listens_is_a_reason_too() -> None:
    port = free_port()
    told = await ask_url(UrlPlace(Address("127.0.0.1", port), "/"), {}, 0.2, times_out="not over")
    assert told.outcome is Outcome.FAILED
    assert told.reason.startswith(f"not over; last: 127.0.0.1:{port}: ")
