"""Why a call was refused, for logs and metrics: callers that are not known are told less."""

from enum import StrEnum


class Refusal(StrEnum):
    """The cause, as operators look for it."""

    MISSING = "missing"
    """Neither a token nor a certificate came with the call."""
    MALFORMED = "malformed"
    """What came is no bearer token."""
    UNKNOWN = "unknown"
    """Nobody has that token or certificate: wrong, or revoked."""
    EXPIRED = "expired"
    ROLE = "role"
    GATE = "gate"
    INSTANCE = "instance"
    NAME = "name"
    """The request says that it is from somebody else."""
    METHOD = "method"
    """The method stands in no table."""
