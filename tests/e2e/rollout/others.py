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
    site.operator("rollout-hold", "create", "--id", HOLD, "--reason", "not today", "--selector", f"component={HAND}")
    store, stack = site.store, site.stack
    direct = site.dynamo.environment(store.url)
    # It serves the same endpoint beside the proxy, so that a plain client that sees it has looked.
    observer = stack.enter_context(PythonWorker(site.dynamo, store, direct, component=HAND, model=HANDMADE))
    gated = site.dynamo.environment(site.proxy.url)
    worker = stack.enter_context(HeldAddressWorker(site.dynamo, store, gated, component=HAND, model=HANDMADE))
    worker.must("register")
    worker.must(f"register_lora {ADAPTER}")
    told.tell("worker", f"registers {HANDMADE} and its adapter {ADAPTER} as instance {worker.instance}")
    instance = site.wait_passed(worker.instance)
    told.check("the adapter is held with its worker", {HANDMADE, ADAPTER} <= set(instance.models))
    told.check("its gates pass through a frontend, which sees its held address", instance.state is State.HELD)
    seen = wait_for(lambda: plain_client(observer), CHECK_SECONDS, "the plain client sees somebody")
    told.tell("plain", f"client of {HAND}.generate has {len(seen)} instance: {', '.join(seen)}")
    told.check("a plain client neither sees nor counts the held worker", seen == {observer.instance})
    told.check("nobody else can be asked for the adapter", site.frontend.chat(ADAPTER) == 404)
    site.operator("rollout-hold", "lift", HOLD)
    site.wait_only_state(worker.instance, State.RELEASED)
    both = {observer.instance, worker.instance}
    told.eventually(
        "once it is released the plain client has it", lambda: plain_client(observer) == both, CHECK_SECONDS
    )
    site.frontend.wait_chat(HANDMADE)
    site.frontend.wait_chat(ADAPTER)


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
        told.tell("preview", f"a frontend on {preview.address} lists {SPLIT}; that of the clients answers with 404")
        told.check("clients cannot chat with the held pair", site.frontend.chat(SPLIT) == 404)
        gates = {PAIR: check("completion", "--max-tokens", "8")}
        asked = {"OPENAI_BASE_URL": f"{inside.url}/v1"}
        runner = GateRunner(site.proxy.control, gates, site.dynamo.folder, name="runner-pair", **asked)
        stack.enter_context(runner)
        for half in (prefill, decode):
            site.wait_state(half.instance, State.RELEASED)
    before = (prefill.requests(), decode.requests())
    site.frontend.wait_chat(SPLIT)
    told.tell("clients", f"chat with {SPLIT}")
    told.check("both halves have answered", prefill.requests() > before[0] and decode.requests() > before[1])


def _half(site: Site, mode: str) -> CountedMocker:
    environment = site.dynamo.environment(site.proxy.url)
    half = ("--disaggregation-mode", mode)
    worker = CountedMocker(
        site.dynamo, site.store, environment, *half, model=SPLIT, name=f"{mode} worker", component=mode
    )
    site.stack.enter_context(worker)
    site.told.tell(worker.name, f"registers {SPLIT} as instance {worker.instance}")
    return worker
