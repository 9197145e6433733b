"""A gate of the kind `url`: its environment is posted as JSON, and 200 is a pass.

The rule: anything else is no verdict, since what listens there may be about to start. So it is asked again, each time
after a longer pause, until the time is up; what was answered last is the reason then.
"""

import asyncio
import json
from collections.abc import Mapping
from typing import Final

from greenroom.core.record import bounded_reason
from greenroom.gates.http_call import CallFailed, post
from greenroom.gates.result import Outcome, Result, with_last_words
from greenroom.gates.url_place import UrlPlace

OK: Final = 200
REDIRECTS: Final = range(300, 400)
FIRST_PAUSE_SECONDS: Final = 0.5
LONGEST_PAUSE_SECONDS: Final = 15.0


async def ask_url(place: UrlPlace, environment: Mapping[str, str], seconds: float, *, times_out: str) -> Result:
    """Asks until 200 or until the time is up; `times_out` says what was over then."""
    body = json.dumps(dict(environment)).encode()
    last = ""
    pause_seconds = FIRST_PAUSE_SECONDS
    try:
        async with asyncio.timeout(seconds):
            while True:
                passed, last = await _asked_once(place, body)
                if passed:
                    return Result(Outcome.PASSED, last)
                await asyncio.sleep(pause_seconds)
                pause_seconds = min(LONGEST_PAUSE_SECONDS, 2 * pause_seconds)
    except TimeoutError:
        return Result(Outcome.FAILED, with_last_words(times_out, last))


async def _asked_once(place: UrlPlace, body: bytes) -> tuple[bool, str]:
    """Whether it passed, and the answer in words."""
    try:
        answer = await post(place, body)
    except CallFailed as error:
        return False, str(error)
    if answer.status == OK:
        return True, bounded_reason(answer.text)
    note = ", a redirect, which is not followed" if answer.status in REDIRECTS else ""
    return False, f"{place.address} answered {answer.status}{note}{f': {answer.text}' if answer.text else ''}"
