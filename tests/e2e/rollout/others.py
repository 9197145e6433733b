"""What else is gated in a fleet: adapters, addresses that plain clients look for, and the two halves of a pair.

The rule: as in the story, each chapter tells what happens and notes what was to be seen.
"""

from contextlib import ExitStack

from greenroom.client import Selector, State
from tests.e2e.rollout.site import CHECK_SECONDS, PAIR, WORDS, Site, check
from tests.e2e.rollout.workers import CountedMocker, HeldAddressWorker
from tests.e2e.support.dynamo import NAMESPACE, Frontend, PythonWorker
from tests.support.runners import GateRunner
from tests.support.waiting import wait_for

HANDMADE, ADAPTER, HAND = "handmade", "polite", "hand"
SPLIT = "split"
HOLD = "incident-4712"


def adapter_and_address(site: Site) -> None:
    """A worker with a LoRA adapter, under a rule that holds the instance record too: plain clients route by that."""
    told = site.told
    told.chapter("6. A worker with a LoRA adapter, whose address is held too")
    site.expect_golden(regex=WORDS)
    reason = "first we look at it held"
    site.operator("rollout-hold", "create", "--id", HOLD, "--reason", reason, "--selector", f"component={HAND}")
    store, stack = site.store, site.stack
    direct = site.dynamo.environment(store.url)
    # It serves the same endpoint beside the proxy, so that a plain client that sees it has looked.
    observer = stack.enter_context(PythonWorker(site.dynamo, store, direct, component=HAND, model=HANDMADE))
    told.tell("observer", f"serves {HAND}.generate on etcd itself as instance {observer.instance}, without a model")
    gated = site.dynamo.environment(site.proxy.url)
    worker = stack.enter_context(HeldAddressWorker(site.dynamo, store, gated, component=HAND, model=HANDMADE))
    worker.must("register")
    worker.must(f"register_lora {ADAPTER}")
    told.tell("worker", f"registers {HANDMADE} and its adapter {ADAPTER} as instance {worker.instance}")
    instance = site.wait_passed(worker.instance)
    told.check("the adapter is held with its worker", {HANDMADE, ADAPTER} <= set(instance.models))
    told.check("etcd shows no card of either", not store.keys(worker.card_key))
    told.check("its gates pass though its address is held: previews show it", instance.state is State.HELD)
    seen = wait_for(lambda: plain_client(observer), CHECK_SECONDS, "the plain client sees somebody")
    who = f"a plain client of {HAND}.generate, which goes by addresses and reads no cards"
    told.tell("observer", f"asks with {who}: it has {', '.join(sorted(seen))}")
    told.check("a plain client neither sees nor counts the held worker", seen == {observer.instance})
    status = site.frontend.chat(ADAPTER)
    told.tell("clients", f"who ask for {ADAPTER} are told {status}: no frontend has heard of it")
    told.check("clients cannot chat with the held adapter", status == 404)
    site.operator("rollout-hold", "lift", HOLD)
    site.wait_only_state(worker.instance, State.RELEASED)
    both = {observer.instance, worker.instance}
    told.eventually(
        "once it is released the plain client has it", lambda: plain_client(observer) == both, CHECK_SECONDS
    )
    site.frontend.wait_chat(HANDMADE)
    site.frontend.wait_chat(ADAPTER)
    told.tell("clients", f"chat with {HANDMADE} and {ADAPTER}")
    told.tell("observer", f"asks again: it has {', '.join(sorted(plain_client(observer)))}")


def plain_client(observer: PythonWorker) -> set[str]:
    """The instances that a plain client of the endpoint, which reads no card, can call."""
    return set(observer.must(f"plain {NAMESPACE}.{HAND}.generate").split())


def pair(site: Site) -> None:
    """Prefill and decode are workers of their own; a check needs both, so it asks a preview of all that is held."""
    told = site.told
    told.chapter("7. A pair of prefill and decode")
    prefill, decode = _half(site, "prefill"), _half(site, "decode")
    states = {site.control.instance(half.instance).state for half in (prefill, decode)}
    told.check("both halves are held", states == {State.HELD})
    with site.control.open_preview(selector=Selector(model=SPLIT)) as preview, ExitStack() as stack:
        environment = site.dynamo.environment(f"http://{preview.address}")
        inside = stack.enter_context(Frontend(site.dynamo, environment, name="frontend-pair"))
        inside.wait_listed(SPLIT)
        told.tell("preview", f"of all that is held of {SPLIT}: a frontend on {preview.address} finds both halves")
        status = site.frontend.chat(SPLIT)
        told.tell("clients", f"who ask for {SPLIT} are told {status}")
        told.check("clients cannot chat with the held pair", status == 404)
        gates = {PAIR: check("completion", "--max-tokens", "8")}
        inner = {"OPENAI_BASE_URL": f"{inside.url}/v1"}
        runner = GateRunner(site.proxy.control, gates, site.dynamo.folder, name="runner-pair", **inner)
        stack.enter_context(runner)
        for half in (prefill, decode):
            site.wait_state(half.instance, State.RELEASED)
    before = (prefill.requests(), decode.requests())
    site.frontend.wait_chat(SPLIT)
    asked = [half.name for half, count in zip((prefill, decode), before, strict=True) if half.requests() > count]
    told.tell("clients", f"chat with {SPLIT}; {' and '.join(asked)} have a part in it")
    told.check("both halves have answered", len(asked) == 2)


def _half(site: Site, mode: str) -> CountedMocker:
    environment = site.dynamo.environment(site.proxy.url)
    half = ("--disaggregation-mode", mode)
    worker = CountedMocker(site.dynamo, site.store, environment, *half, model=SPLIT, name=mode, component=mode)
    site.stack.enter_context(worker)
    site.told.tell(worker.name, f"worker registers {SPLIT} as instance {worker.instance}")
    return worker
