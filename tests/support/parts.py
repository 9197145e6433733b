"""Parts that a test run can lack: etcdctl, Dynamo, other clients.

The rule: a test of a missing part is skipped by name, except where GREENROOM_REQUIRE lists the part: then it fails.
(scripts/run_tests.py takes a part off that list when the package registry did not answer, and says so at the end.)
"""

import os
from typing import NoReturn

import pytest


def missing(part: str, why: str) -> NoReturn:
    """Ends the calling test or fixture: skipped, or failed where the part is required."""
    if part in os.environ.get("GREENROOM_REQUIRE", "").split(","):
        pytest.fail(f"{part} is required and missing: {why}", pytrace=False)
    pytest.skip(f"{part} is missing: {why}")
