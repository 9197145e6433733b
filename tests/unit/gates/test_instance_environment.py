"""What a check is told about its instance."""

from greenroom.gates.instance_environment import card_digest, environment_of, model_of
from greenroom.gates.plan import Job
from greenroom.pb.control.v1 import control_pb2 as pb
from tests.support.shown import shown

JOB = Job("6177a228983c0b2b", "smoke", 3)


def with_cards(*cards: tuple[str, str, bool]) -> pb.Instance:
    """Each a model, a configuration, and whether it is public."""
    instance = shown()
    del instance.gated_keys[:]
    for model, configuration, public in cards:
        instance.gated_keys.add(live=True, public=public, model=model, configuration=configuration)
    return instance


def test_all_that_is_known_is_told() -> None:
    instance = with_cards(("tiny", "tokenizer=5", False))
    assert environment_of(instance, JOB, control="127.0.0.1:2390", base_url="http://127.0.0.1:8000/v1") == {
        "OPENAI_BASE_URL": "http://127.0.0.1:8000/v1",
        "DYN_VALIDATION_MODEL": "tiny",
        "GREENROOM_INSTANCE": "6177a228983c0b2b",
        "GREENROOM_GATE": "smoke",
        "GREENROOM_ATTEMPT": "3",
        "GREENROOM_NAMESPACE": "dynamo",
        "GREENROOM_COMPONENT": "backend",
        "GREENROOM_ENDPOINT": "generate",
        "GREENROOM_CARD_DIGEST": card_digest(instance),
        "GREENROOM_ADDRESS": "127.0.0.1:46537",
        "GREENROOM_CONTROL": "127.0.0.1:2390",
    }


def test_what_is_not_known_is_left_out() -> None:
    told = environment_of(pb.Instance(id="5"), JOB, control="c", base_url="")
    assert sorted(told) == ["GREENROOM_ATTEMPT", "GREENROOM_CONTROL", "GREENROOM_GATE", "GREENROOM_INSTANCE"]


def test_of_several_cards_the_held_one_is_checked() -> None:
    """A released worker that loads an adapter: the base model has passed already."""
    assert model_of(with_cards(("tiny", "", True), ("polite", "", False))) == "polite"
    assert model_of(with_cards(("tiny", "", True), ("polite", "", True))) == "tiny"
    assert model_of(shown(models=("tiny",))) == "tiny"


def test_equal_cards_have_one_digest() -> None:
    one = card_digest(with_cards(("tiny", "tokenizer=5", False), ("polite", "", False)))
    assert one == card_digest(with_cards(("polite", "", True), ("tiny", "tokenizer=5", True)))
    assert one != card_digest(with_cards(("tiny", "tokenizer=6", False), ("polite", "", False)))
    assert len(one) == 16
    assert card_digest(with_cards()) == ""
