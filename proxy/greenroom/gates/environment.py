"""What a check is told about the instance that it checks: the names of its environment's variables.

The rule: these are all. Runners set them, the built-in checks take their defaults from them, and `greenroom check
serve` takes no others from whoever posts them.
"""

from enum import StrEnum


class Variable(StrEnum):
    """One variable. All values are text; one that does not apply is not set."""

    BASE_URL = "OPENAI_BASE_URL"
    """Of the frontend that sees the instance, such as http://127.0.0.1:8000/v1."""
    MODEL = "DYN_VALIDATION_MODEL"
    INSTANCE = "GREENROOM_INSTANCE"
    GATE = "GREENROOM_GATE"
    ATTEMPT = "GREENROOM_ATTEMPT"
    NAMESPACE = "GREENROOM_NAMESPACE"
    COMPONENT = "GREENROOM_COMPONENT"
    ENDPOINT = "GREENROOM_ENDPOINT"
    CARD_DIGEST = "GREENROOM_CARD_DIGEST"
    ADDRESS = "GREENROOM_ADDRESS"
    """Where the instance itself listens."""
    CONTROL = "GREENROOM_CONTROL"
    """The proxy's control port."""
