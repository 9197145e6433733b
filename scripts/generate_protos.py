"""Generates proxy/greenroom/pb from protos/.

The generated code is committed, so that using and packaging the project needs no protoc. The rule: nobody edits it by
hand; `--check` generates into a temporary folder and fails when the committed code differs.
"""

from __future__ import annotations

import argparse
import filecmp
import re
import shutil
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROTOS = ROOT / "protos"
TARGET = ROOT / "proxy" / "greenroom" / "pb"

# Python packages as protoc derives them from the folders under protos/, and where the code lives instead.
MOVED_PACKAGES = {"greenroom/control/v1": "control/v1", "etcd": "etcd"}

HEADER = '"""Generated from protos/ by scripts/generate_protos.py; edit the protos instead."""\n'


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing; fail when the committed code is stale")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        fresh = Path(scratch) / "pb"
        generate(Path(scratch) / "raw", fresh)
        if arguments.check:
            return report(stale_files(fresh, TARGET))
        shutil.rmtree(TARGET, ignore_errors=True)
        shutil.copytree(fresh, TARGET)
    return 0


def generate(raw: Path, fresh: Path) -> None:
    """Runs protoc into `raw`, then writes the moved and rewritten files below `fresh`."""
    raw.mkdir(parents=True)
    run_protoc(raw)
    for source, moved in MOVED_PACKAGES.items():
        (fresh / moved).mkdir(parents=True)
        for path in sorted((raw / source).iterdir()):
            if not without_services(path):
                (fresh / moved / path.name).write_text(rewrite_imports(path.read_text()))
    for folder in [fresh, *(path for path in fresh.rglob("*") if path.is_dir())]:
        (folder / "__init__.py").write_text(HEADER)


def run_protoc(raw: Path) -> None:
    plugins = Path(sys.executable).parent
    command = [
        *(sys.executable, "-m", "grpc_tools.protoc"),
        *(f"--proto_path={PROTOS}", f"--proto_path={common_protos()}"),
        *(f"--plugin=protoc-gen-{name}={plugins / f'protoc-gen-{name}'}" for name in ("mypy", "mypy_grpc")),
        *(f"--{kind}_out={raw}" for kind in ("python", "grpc_python", "mypy", "mypy_grpc")),
        *(str(path.relative_to(PROTOS)) for path in sorted(PROTOS.rglob("*.proto"))),
    ]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        sys.exit(f"protoc failed:\n{result.stderr}")


def common_protos() -> Path:
    """The folder that holds google/api/*.proto: googleapis-common-protos ships them beside its modules."""
    spec = find_spec("google.api")
    assert spec is not None
    return Path(next(iter(spec.submodule_search_locations or []))).parent.parent


def without_services(path: Path) -> bool:
    """protoc writes a service file for each proto, empty where the proto has no service."""
    return "_pb2_grpc." in path.name and "Stub" not in path.read_text()


def rewrite_imports(text: str) -> str:
    """protoc imports by the path of the proto; ours live below greenroom.pb, so that no top-level `etcd` appears."""
    for source, moved in MOVED_PACKAGES.items():
        before, after = re.escape(source.replace("/", ".")), f"greenroom.pb.{moved.replace('/', '.')}"
        text = re.sub(rf"^from {before} import ", f"from {after} import ", text, flags=re.MULTILINE)
        text = re.sub(rf"^import {before}\.(\w+)", rf"import {after}.\1", text, flags=re.MULTILINE)
        text = re.sub(rf"(?<![\w./\"']){before}\.(\w+_pb2)\b", rf"{after}.\1", text)
    return text


def stale_files(fresh: Path, committed: Path) -> list[str]:
    """Relative names of files that differ, are missing, or are there without a proto."""
    names = {
        str(path.relative_to(base))
        for base in (fresh, committed)
        for path in base.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    return sorted(name for name in names if not same(fresh / name, committed / name))


def same(left: Path, right: Path) -> bool:
    return left.is_file() and right.is_file() and filecmp.cmp(left, right, shallow=False)


def report(stale: list[str]) -> int:
    for name in stale:
        print(f"generated code is not up to date: proxy/greenroom/pb/{name} (run scripts/generate_protos.py)")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
