"""Rewriting the assertions of test modules once, where several processes collect all of them.

pytest rewrites the assertions of a test module when it imports it, and keeps the result beside it. In a new clone all
processes of pytest-xdist would do that for the same module at the same time: they import the same modules in the same
order. So each begins with its share, and finds the modules of the others' shares rewritten when it comes to them.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from _pytest.assertion import rewrite


def collected(config: pytest.Config) -> Iterator[Path]:
    """Yield the modules that pytest collects from for its arguments, in the same order in every process."""
    for each in sorted({config.invocation_params.dir / argument.partition("::")[0] for argument in config.args}):
        yield from sorted(each.rglob("test_*.py")) if each.is_dir() else [each]


def keep_rewritten(config: pytest.Config, sources: list[Path]) -> None:
    """Rewrite these modules and keep the results, unless they are kept already.

    What is wrong with a module is shown by its import.
    """
    if sys.dont_write_bytecode:
        return
    for source in sources:
        kept = kept_beside(source)
        if is_kept(source) or not rewrite.try_makedirs(kept.parent):
            continue
        try:
            source_hash, code = rewrite._rewrite_test(source, config)
        except (OSError, SyntaxError, ValueError):
            continue
        rewrite._write_pyc(config.stash[rewrite.assertstate_key], code, source_hash, kept)


def kept_beside(source: Path) -> Path:
    """Return pytest's file of the rewritten module."""
    return rewrite.get_cache_dir(source) / (source.stem + rewrite.PYC_TAIL)


def is_kept(source: Path) -> bool:
    """Return whether the rewritten module is kept and up to date."""
    return rewrite._read_pyc(source, kept_beside(source)) is not None
