"""Test modules are rewritten once."""

from pathlib import Path

import pytest

from tests.support import bytecode


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Test modules; the last is no Python."""
    monkeypatch.setattr("sys.dont_write_bytecode", False)
    texts = ("assert 1", "def test_it(): assert 1 == 1", "assert (")
    found = [tmp_path / f"test_{number}.py" for number in range(len(texts))]
    for path, text in zip(found, texts, strict=True):
        path.write_text(text)
    return found


def test_the_rewritten_code_is_pytests(pytestconfig: pytest.Config, sources: list[Path]) -> None:
    bytecode.keep_rewritten(pytestconfig, sources)
    assert [bytecode.is_kept(source) for source in sources] == [True, True, False]
    before = bytecode.kept_beside(sources[0]).stat().st_ino
    sources[1].write_text("def test_it(): assert 2 == 2")
    assert not bytecode.is_kept(sources[1])
    bytecode.keep_rewritten(pytestconfig, sources)
    assert [bytecode.is_kept(source) for source in sources] == [True, True, False]
    assert bytecode.kept_beside(sources[0]).stat().st_ino == before


def test_nothing_is_written_where_python_must_not_write(
    pytestconfig: pytest.Config, sources: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.dont_write_bytecode", True)
    bytecode.keep_rewritten(pytestconfig, sources)
    assert not bytecode.kept_beside(sources[0]).exists()


def test_the_modules_of_this_run_are_found(pytestconfig: pytest.Config) -> None:
    assert Path(__file__) in set(bytecode.collected(pytestconfig))
