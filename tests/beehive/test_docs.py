"""What docs/beehive.md says is true: its code blocks run, one after another, and its numbers are the code's."""

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from beehive import Hive, Module
from beehive.dead_letters import CAPACITY, CAPACITY_BYTES
from beehive.inbox import COMMAND_CAPACITY, STATE_CAPACITY, TELEMETRY_CAPACITY
from beehive.simulation import Simulation
from beehive.supervisor import FIRST_DELAY, LONGEST_DELAY

PAGE = (Path(__file__).parents[2] / "docs" / "beehive.md").read_text()


def test_the_code_blocks_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the order of the page, as one module."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len(blocks) >= 4
    page = ModuleType("docs_beehive")
    monkeypatch.setitem(sys.modules, page.__name__, page)
    for number, block in enumerate(blocks):
        exec(compile(block, f"docs/beehive.md, block {number + 1}", "exec"), page.__dict__)  # noqa: S102


def test_the_lines_of_the_readme_run(capsys: pytest.CaptureFixture[str]) -> None:
    """They print what their comment says."""
    (block,) = re.findall(r"```python\n(.*?)```", (Path(__file__).parents[2] / "README.md").read_text(), re.DOTALL)
    exec(compile(block, "README.md", "exec"), {"__name__": "readme"})  # noqa: S102
    assert capsys.readouterr().out.strip() == block.rpartition("# ")[2].strip()


def test_the_numbers_equal_the_codes() -> None:
    """Bounds, tries and delays."""
    text = " ".join(PAGE.split())
    waiting = f"{COMMAND_CAPACITY:,} commands, {STATE_CAPACITY:,} states and {TELEMETRY_CAPACITY} telemetry"
    assert waiting in text
    assert f"doubles from {FIRST_DELAY:g} s to {LONGEST_DELAY:g} s" in text
    assert f"`attempts` tries ({Module.attempts})" in text
    assert f"put timeout of {Hive(Simulation()).put_timeout:g} s" in text
    assert (CAPACITY, CAPACITY_BYTES) == (1000, 4 * 1024**2)


def test_every_metric_is_named() -> None:
    """And none that is not there."""
    source = (Path(__file__).parents[2] / "beehive" / "metrics.py").read_text()
    families = set(re.findall(r'"(beehive_[a-z_]+)"', source))
    named = {name.removesuffix("_total").removesuffix("_count") for name in re.findall(r"beehive_[a-z_]+", PAGE)}
    assert named - {"beehive_"} == families
