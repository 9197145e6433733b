"""What a client's API can say of a plan: the steps beyond it are made aside for it, or left out.

The rule: a dialect says yes to exactly what the client's script has words for.
"""

from tests.support.plan import Step, prefix_end


def rust(step: Step) -> bool:
    """etcd-client-py: no lease on a Put, no ids of leases, no options, and prefixes in place of ranges."""
    match step["do"]:
        case "put":
            return bool(step["lease"] == "0" and not step["options"] and "keep" not in step)
        case "range":
            options = step["options"]
            return _one_or_prefix(step) and (
                not options or (options == {"keys_only": True} and bool(step["range_end"]))
            )
        case "delete":
            return not step["options"] and _one_or_prefix(step)
        case "txn":
            return all(rust_part(part) for part in (*step["success"], *step["failure"])) and not any(
                isinstance(compare["value"], dict) and "kept" in compare["value"] for compare in step["compare"]
            )
        case "watch":
            return bool(step["options"] == {"start_revision": 0})
    return step["do"] in ("revoke", "keepalive", "time_to_live", "events", "unwatch", "lock", "unlock")


def rust_part(step: Step) -> bool:
    """Inside a Txn there are no ranges."""
    return rust(step) and not step.get("range_end")


def _one_or_prefix(step: Step) -> bool:
    return not step["range_end"] or step["range_end"] == prefix_end(step["key"])


def etcdctl(step: Step) -> bool:
    """etcd's command line: no zero bytes in its arguments, no ids of leases, no nested Txns, no ranges of compares."""
    words = [step.get(name, "") for name in ("key", "range_end", "value")]
    if any("\0" in word for word in words) or (step["do"] in ("put", "range", "delete") and not step["key"]):
        return False
    match step["do"]:
        case "range":
            return set(step["options"]) <= {
                "limit",
                "sort_order",
                "sort_target",
                "keys_only",
                "serializable",
                "revision",
            }
        case "txn":
            operations = [*step["success"], *step["failure"]]
            return all(etcdctl(part) and part["do"] != "txn" and not _is_long(part) for part in operations) and not any(
                compare["range_end"] or "\0" in compare["key"] or "\0" in str(compare["value"])
                for compare in step["compare"]
            )
        case "grant" | "canceled":
            return False
        case "watch":
            return bool(step["name"] != "past")
    return True


def _is_long(part: Step) -> bool:
    """Its Txns are read line by line, where these options have no place."""
    return part["do"] == "range" and bool(part["options"])
