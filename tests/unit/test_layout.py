"""The layout of the code: a test file for each source and a source for each test file."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "proxy" / "greenroom"
TESTS = ROOT / "tests" / "unit"
GENERATED = SOURCES / "pb"
# They hold no behaviour: a docstring, or one call.
WITHOUT_TESTS = {"__init__.py", "__main__.py"}
LINES_AT_MOST = 400


def sources() -> list[Path]:
    return [
        path
        for path in sorted(SOURCES.rglob("*.py"))
        if path.name not in WITHOUT_TESTS and not path.is_relative_to(GENERATED)
    ]


def twin(source: Path) -> Path:
    relative = source.relative_to(SOURCES)
    return TESTS / relative.with_name(f"test_{relative.name}")


def test_each_source_has_its_unit_test_file() -> None:
    missing = [str(twin(source).relative_to(ROOT)) for source in sources() if not twin(source).is_file()]
    assert not missing, f"no unit test file: {', '.join(missing)}"


def test_each_unit_test_file_has_its_source() -> None:
    scripts = {TESTS / f"test_{script.name}" for script in (ROOT / "scripts").glob("*.py")}
    twins = {twin(source) for source in sources()} | scripts | {Path(__file__)}
    left = [str(path.relative_to(ROOT)) for path in sorted(TESTS.rglob("test_*.py")) if path not in twins]
    assert not left, f"no source for {', '.join(left)}"


def test_no_source_is_too_long_to_read() -> None:
    lengths = {path.relative_to(ROOT): len(path.read_text().splitlines()) for path in sources()}
    long = [f"{path} ({lines})" for path, lines in lengths.items() if lines > LINES_AT_MOST]
    assert not long, f"over {LINES_AT_MOST} lines: {', '.join(long)}"
