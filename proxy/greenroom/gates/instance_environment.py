"""What a check is told about the instance that it checks: the values of `environment.Variable`."""

import hashlib
from collections.abc import Mapping
from typing import Final

from greenroom.gates.environment import Variable
from greenroom.gates.plan import Job
from greenroom.pb.control.v1.control_pb2 import Instance

DIGEST_DIGITS: Final = 16


def environment_of(instance: Instance, job: Job, *, control: str, base_url: str) -> Mapping[str, str]:
    """The variables for one attempt; one whose value is not known is left out."""
    told = {
        Variable.BASE_URL: base_url,
        Variable.MODEL: model_of(instance),
        Variable.INSTANCE: instance.id,
        Variable.GATE: job.gate,
        Variable.ATTEMPT: str(job.attempt),
        Variable.NAMESPACE: instance.namespace,
        Variable.COMPONENT: instance.component,
        Variable.ENDPOINT: next(iter(instance.endpoints), ""),
        Variable.CARD_DIGEST: card_digest(instance),
        Variable.ADDRESS: instance.address,
        Variable.CONTROL: control,
    }
    return {name.value: value for name, value in told.items() if value}


def model_of(instance: Instance) -> str:
    """The model to be checked: that of the first card that is held, or else of the first that there is."""
    cards = [key for key in instance.gated_keys if key.live and key.model]
    held = [key for key in cards if not key.public]
    return next((key.model for key in (*held, *cards)), next(iter(instance.models), ""))


def card_digest(instance: Instance) -> str:
    """What frontends compare of its cards, in short: the same where the cards say the same; empty without any."""
    cards = sorted(f"{key.model} {key.configuration}" for key in instance.gated_keys if key.live and key.model)
    return hashlib.sha256("\n".join(cards).encode()).hexdigest()[:DIGEST_DIGITS] if cards else ""
