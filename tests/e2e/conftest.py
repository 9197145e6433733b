"""Fixtures of the end-to-end ring: where Dynamo is, a model folder for the run, an etcd and a log folder a test file.

Rule: without Dynamo the ring is skipped, unless GREENROOM_REQUIRE names `dynamo`: then it fails.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.support.dynamo import Dynamo, make_model
from tests.e2e.support.store import Store
from tests.support.parts import missing

DYNAMO_VERSION = "1.6.1"


def _dynamo_home() -> Path:
    """The same folder as scripts/setup_dynamo.py makes."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "greenroom"
    return Path(os.environ.get("GREENROOM_DYNAMO") or cache / f"dynamo-{DYNAMO_VERSION}")


@pytest.fixture(scope="session")
def dynamo_python() -> Path:
    python = _dynamo_home() / "bin" / "python"
    if not python.exists():
        missing("dynamo", f"no environment at {_dynamo_home()}; scripts/setup_dynamo.py makes it")
    return python


@pytest.fixture(scope="session")
def model_folder(dynamo_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model") / "tiny"
    make_model(dynamo_python, folder)
    return folder


@pytest.fixture(scope="module")
def dynamo(dynamo_python: Path, model_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Dynamo:
    return Dynamo(dynamo_python, model_folder, tmp_path_factory.mktemp("logs"))


@pytest.fixture(scope="module")
def store(dynamo: Dynamo) -> Iterator[Store]:
    with Store() as running:
        yield running
