"""Which caller a call comes from, and that a stranger learns nothing from how he is refused."""

from datetime import UTC, datetime

import pytest

from greenroom.access.known import NOT_KNOWN, WANTED, Presented
from greenroom.access.refusals import Refusal
from greenroom.access.roles import Role
from greenroom.access.tokens import digest_of
from greenroom.errors import Unauthenticated
from tests.support.callers import TOKENS, access_text, bearer, known_callers

NOW = datetime(2026, 1, 1, tzinfo=UTC)
RUNNER = "spiffe://fleet/runner"
WITH_CERTIFICATES = access_text(
    runner={"role": "reporter", "gates": ["*"], "certificate": RUNNER},
    leaving={
        "role": "viewer",
        "certificate": "old.example",
        "expires": datetime(2026, 1, 1, tzinfo=UTC),
    },
)


def refused(presented: Presented) -> Unauthenticated:
    with pytest.raises(Unauthenticated) as raised:
        known_callers(WITH_CERTIFICATES).caller(presented, NOW)
    assert not any(token in str(raised.value) + repr(presented) for token in TOKENS.values())
    return raised.value


@pytest.mark.parametrize(
    ("token", "name", "role"),
    [("ann", "ann", Role.OPERATOR), ("ci", "ci", Role.REPORTER), ("next-ci", "ci", Role.REPORTER)],
)
def test_a_token_names_its_caller_and_several_may(token: str, name: str, role: Role) -> None:
    """Rotation: the next token is good before the one in use is taken out."""
    caller = known_callers().caller(Presented(bearer(token)), NOW)
    assert (caller.name, caller.role) == (name, role)


def test_a_certificate_names_its_caller() -> None:
    assert known_callers(WITH_CERTIFICATES).caller(Presented(certificate=RUNNER), NOW).name == "runner"


def test_a_token_counts_whatever_certificate_came_with_it() -> None:
    """A mesh puts its own certificate under every call. A token that is refused is not helped by it."""
    known = known_callers(WITH_CERTIFICATES)
    assert known.caller(Presented(bearer("grafana"), RUNNER), NOW).name == "grafana"
    assert refused(Presented(bearer("stranger"), RUNNER)).cause == Refusal.UNKNOWN


@pytest.mark.parametrize(
    ("presented", "cause", "name", "words"),
    [
        (Presented(), Refusal.MISSING, "", WANTED),
        (Presented(""), Refusal.MALFORMED, "", WANTED),
        (Presented("Basic YTpi"), Refusal.MALFORMED, "", WANTED),
        (Presented(f"Bearer {digest_of(TOKENS['ann'])}"), Refusal.UNKNOWN, "", NOT_KNOWN),
        (Presented(bearer("stranger")), Refusal.UNKNOWN, "", NOT_KNOWN),
        (Presented(bearer("ann")[:-1]), Refusal.UNKNOWN, "", NOT_KNOWN),
        (Presented(bearer("late")), Refusal.EXPIRED, "late", NOT_KNOWN),
        (Presented(certificate="nobody.example"), Refusal.UNKNOWN, "nobody.example", NOT_KNOWN),
        (Presented(certificate="old.example"), Refusal.EXPIRED, "leaving", NOT_KNOWN),
        (Presented(certificate=RUNNER + "/"), Refusal.UNKNOWN, RUNNER + "/", NOT_KNOWN),
    ],
)
def test_who_is_not_known(presented: Presented, cause: Refusal, name: str, words: str) -> None:
    """The log knows why. Who was refused is told alike of a wrong and of an expired token, and of neither's name."""
    error = refused(presented)
    assert (error.cause, error.caller, str(error), error.metadata) == (cause, name, words, {})


def test_a_caller_is_known_up_to_the_moment_of_its_expiry() -> None:
    known = known_callers(WITH_CERTIFICATES)
    before = datetime(2025, 12, 31, 23, 59, 59, tzinfo=UTC)
    assert known.caller(Presented(certificate="old.example"), before).name == "leaving"


def test_every_hash_is_compared_whichever_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """How long a refusal takes must not tell how near a guess came, nor whether there is such a caller."""
    known = known_callers()
    compared: list[bytes] = []

    def compare(one: bytes, other: bytes) -> bool:
        compared.append(one)
        return one == other

    monkeypatch.setattr("greenroom.access.known.hmac.compare_digest", compare)
    known.caller(Presented(bearer("ann")), NOW)
    first, compared[:] = list(compared), []
    with pytest.raises(Unauthenticated):
        known.caller(Presented(bearer("stranger")), NOW)
    assert first == compared
    assert len(first) == len(TOKENS) - 1
