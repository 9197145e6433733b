"""Which keys are gated, which are refused for their shape, and which are nobody's concern."""

import pytest

from greenroom.core.keyspace import Key, in_range, prefix_end
from greenroom.core.templates import (
    DYNAMO_CARDS,
    DYNAMO_INSTANCES,
    GatedKey,
    GatedKeys,
    KeyKind,
    Template,
    UnfitKey,
    dynamo_gated_keys,
)

ID = "6177a228983c0b2b"
CARD = f"v1/mdc/dynamo/backend/generate/{ID}".encode()
CARDS = dynamo_gated_keys(instances=False)
BOTH = dynamo_gated_keys(instances=True)


def test_a_card_is_taken_apart() -> None:
    assert CARDS.classify(CARD) == GatedKey(
        Key(CARD), KeyKind.CARD, ID, {"namespace": "dynamo", "component": "backend", "endpoint": "generate"}
    )


def test_a_lora_card_belongs_to_the_same_instance_and_has_a_suffix() -> None:
    found = CARDS.classify(CARD + b"/lora-a")
    assert isinstance(found, GatedKey)
    assert (found.instance, found.suffix, found.kind) == (ID, "lora-a", KeyKind.CARD)


def test_a_workers_own_card_has_no_suffix() -> None:
    found = CARDS.classify(CARD)
    assert isinstance(found, GatedKey)
    assert found.suffix == ""


def test_an_instance_record_is_gated_only_where_asked() -> None:
    key = f"v1/instances/dynamo/backend/generate/{ID}".encode()
    found = BOTH.classify(key)
    assert isinstance(found, GatedKey)
    assert (found.kind, found.instance) == (KeyKind.INSTANCE, ID)
    assert CARDS.classify(key) is None


@pytest.mark.parametrize(
    "key", [b"", b"v1/mdc", b"v1/mdcx/a", b"V1/mdc/a", b"/v1/mdc/a", b"v1/instances/a", b"\xffv1/mdc/"]
)
def test_keys_outside_every_gated_prefix_are_nobodys_concern(key: bytes) -> None:
    assert CARDS.classify(key) is None


@pytest.mark.parametrize(
    "tail",
    [
        b"",
        b"x",
        b"ns/c/e/" + ID.upper().encode(),
        b"ns/c/e/" + ID.encode() + b"/lora/deeper",
        b"ns/c/e/" + ID.encode() + b"/",
        b"ns/c/e/0" + ID.encode(),
        b"ns/c/e/0x" + ID.encode(),
        b"ns/c/e/0",
        b"ns/c/e/ffffffffffffffff",
        b"ns/c/e/worker-1",
        b"ns/c/e/",
        b"ns//e/" + ID.encode(),
        b"/c/e/" + ID.encode(),
        b"ns/c/" + ID.encode(),
        b"n\xff/c/e/" + ID.encode(),
        b"ns/c/e/" + ID.encode() + b"\n",
        b"ns/c/e/" + ID.encode() + b"/\xc3\x28",
    ],
)
def test_an_odd_key_under_a_gated_prefix_is_named_with_the_shapes_that_fit(tail: bytes) -> None:
    """A frontend routes by anything under the prefix; an odd key that passed would make its worker public."""
    found = CARDS.classify(b"v1/mdc/" + tail)
    assert isinstance(found, UnfitKey)
    assert found.key == b"v1/mdc/" + tail
    assert found.expected == " or ".join(template.pattern for template in DYNAMO_CARDS)


@pytest.mark.parametrize(
    ("pattern", "complaint"),
    [
        ("v1/mdc/{namespace}", "has no {instance}"),
        ("v1/mdc/{instance}/{instance}", "repeated placeholder"),
        ("v1/mdc/{worker}/{instance}", "unknown or repeated placeholder"),
        ("{instance}", "must begin with literal segments"),
        ("v1{instance}", "must begin with literal segments"),
        ("\x01greenroom/{instance}", "must begin with literal segments"),
        ("v1/{instance}-card", "must be a whole segment"),
        ("v1/{namespace}/x{instance}", "must be a whole segment"),
        ("v1/{instance}/{}", "must be a whole segment"),
        ("v1/{instance}/{Suffix}", "must be a whole segment"),
    ],
)
def test_a_pattern_that_could_not_be_matched_is_refused(pattern: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint.replace("{", r"\{")):
        Template(pattern, KeyKind.CARD)


def test_a_key_is_made_of_its_names() -> None:
    template = DYNAMO_INSTANCES[0]
    names = {"namespace": "dynamo", "component": "backend", "endpoint": "generate", "instance": ID}
    assert template.key(names) == f"v1/instances/dynamo/backend/generate/{ID}".encode()
    with pytest.raises(KeyError):
        template.key({"namespace": "dynamo"})


def test_templates_of_another_service() -> None:
    gated = GatedKeys((Template("/services/{instance}/{namespace}/card", KeyKind.CARD),))
    found = gated.classify(b"/services/ab/blue/card")
    assert isinstance(found, GatedKey)
    assert (found.instance, found.names) == ("ab", {"namespace": "blue"})
    assert isinstance(gated.classify(b"/services/ab/blue/cards"), UnfitKey)
    assert gated.within_one_instance(b"/services/ab/", b"/services/ab0") == "ab"


@pytest.mark.parametrize(
    ("start", "range_end", "reaches"),
    [
        (b"v1/mdc/x", b"", True),
        (b"v1/mdc", b"", False),
        (b"v1/", b"v10", True),
        (b"v1/mdc/x", b"v1/mdc/y", True),
        (b"v1/mdc0", b"v2", False),
        (b"a", b"v1/mdc/", False),
        (b"a", b"v1/mdc/\0", True),
        (b"a", b"\0", True),
        (b"w", b"\0", False),
    ],
)
def test_ranges_that_reach_into_a_gated_prefix(start: bytes, range_end: bytes, reaches: bool) -> None:
    assert CARDS.overlaps(start, range_end) is reaches


@pytest.mark.parametrize(
    ("start", "range_end", "instance"),
    [
        (CARD, prefix_end(CARD + b"/"), ID),
        (CARD + b"/", prefix_end(CARD + b"/"), ID),
        (CARD, CARD + b"\0", ID),
        (CARD + b"/lora-a", CARD + b"/lora-b", ID),
        (CARD + b"/a", CARD + b"/z", ID),
        (CARD + b"/a/deeper", CARD + b"/a/deeper0", ID),
        (CARD + b"/\xff", CARD + b"/\xff\xff", ID),
        # An id that begins with another one is another instance.
        (CARD, prefix_end(CARD), None),
        (CARD, b"\0", None),
        (CARD, b"", None),
        (CARD, b"v1/mdc0", None),
        (CARD + b"/z", CARD + b"/a", None),
        (b"v1/mdc/dynamo/backend/generate/", b"v1/mdc/dynamo/backend/generate0", None),
        (b"v1/mdc/", b"v1/mdc0", None),
        (b"a", b"b", None),
    ],
)
def test_ranges_within_one_instance(start: bytes, range_end: bytes, instance: str | None) -> None:
    assert CARDS.within_one_instance(start, range_end) == instance


def test_a_range_within_one_instance_holds_no_other_instances_card() -> None:
    others = [
        CARD[:-1],
        CARD + b"c",
        CARD[:-1] + b"c",
        CARD + b"0/lora",
        b"v1/mdc/dynamo/backend/generate2/" + ID.encode(),
    ]
    for start, range_end in ((CARD, prefix_end(CARD + b"/")), (CARD + b"/a", CARD + b"/z")):
        assert CARDS.within_one_instance(start, range_end) == ID
        assert not [key for key in others if in_range(key, start, range_end)]


def test_the_digest_tells_what_is_gated_and_not_in_which_order() -> None:
    assert GatedKeys(DYNAMO_CARDS).digest == GatedKeys(DYNAMO_CARDS[::-1]).digest
    assert CARDS.digest != BOTH.digest
    as_instance = GatedKeys(tuple(Template(card.pattern, KeyKind.INSTANCE) for card in DYNAMO_CARDS))
    assert as_instance.digest != CARDS.digest


def test_no_templates_gate_nothing() -> None:
    nothing = GatedKeys(())
    assert nothing.classify(CARD) is None
    assert not nothing.overlaps(b"a", b"\0")
    assert nothing.within_one_instance(CARD, CARD + b"\0") is None
