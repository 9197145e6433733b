"""The names of a check's environment, which scripts of others rely on."""

from greenroom.gates.environment import Variable


def test_the_names_are_those_that_are_documented() -> None:
    assert [*Variable] == [
        "OPENAI_BASE_URL",
        "DYN_VALIDATION_MODEL",
        "GREENROOM_INSTANCE",
        "GREENROOM_GATE",
        "GREENROOM_ATTEMPT",
        "GREENROOM_NAMESPACE",
        "GREENROOM_COMPONENT",
        "GREENROOM_ENDPOINT",
        "GREENROOM_CARD_DIGEST",
        "GREENROOM_ADDRESS",
        "GREENROOM_CONTROL",
    ]
