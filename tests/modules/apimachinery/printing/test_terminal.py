"""What commands print: escapes of a node or pod are shown, JSON and YAML keep their meaning, own colours stay."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from modules.apimachinery.printing.tables import aligned
from modules.apimachinery.printing.terminal import print_error, print_json, print_lines, print_text, print_yaml
from modules.processes.common.doctor.check_result import CheckResult, Level, lines
from modules.processes.edgecore.local.pods import row

EVIL = "\x1b[2J\x1b[31;1mred\x1b[8mhidden\r\n\x9b5m\u202e\x7f"


def test_text_and_lines_have_nothing_that_a_terminal_obeys(capsys: pytest.CaptureFixture[str]) -> None:
    print_text(f"one\ntwo {EVIL}")
    print_lines([f"three {EVIL}"])
    print_error("cloudcore", f"no such pod {EVIL}")
    said = capsys.readouterr()
    for text, count in ((said.out, 4), (said.err, 2)):
        assert all(line.isprintable() for line in text.splitlines())
        assert text.count("\n") == count


def test_a_program_that_reads_the_output_has_each_line_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (tmp_path / "output").open("w") as output:
        monkeypatch.setattr("sys.stdout", output)
        print_lines(["one"])
        assert (tmp_path / "output").read_text() == "one\n"
        print_text("two")
        assert (tmp_path / "output").read_text() == "one\ntwo\n"


def test_own_colours_stay_and_no_others(capsys: pytest.CaptureFixture[str]) -> None:
    print_lines([f"\x1b[31m{EVIL}\x1b[0m"], colours=True)
    text = capsys.readouterr().out
    assert text.startswith("\x1b[31m\\x1b[2J")
    assert text.endswith("\x1b[0m\n")
    assert "\x1b[8m" not in text
    assert "\x1b[2J" not in text
    assert text.count("\n") == 1


@given(
    st.recursive(
        st.text() | st.integers() | st.none(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
@example("\U000e0041\U000e007f\u3164 \U0001f600")
def test_json_and_yaml_say_the_same_as_before(value: Any) -> None:
    with pytest.MonkeyPatch.context() as patch:
        written: list[str] = []
        patch.setattr("sys.stdout.write", written.append)
        print_json({"value": value})
        print_json({"value": value}, indent=2)
        print_yaml({"value": value}, width=120)
    shown = "".join(written)
    assert not {"\x1b", "\x9b", "\u202e", "\x7f"} & set(shown)
    assert json.loads(written[0]) == json.loads(written[1]) == yaml.safe_load(written[2]) == {"value": value}


def test_a_pod_and_a_verdict_stay_one_line_each() -> None:
    pod = {"metadata": {"name": EVIL, "namespace": "d"}, "status": {"reason": EVIL}}
    assert all(line.isprintable() for line in aligned([("NAME",) * 7, row(pod, 0.0)]))
    assert len(lines([CheckResult("check", Level.OK, "text", "")], terminal=True)) == 1


def test_a_node_gives_the_text_of_a_check_no_colour() -> None:
    (line,) = lines([CheckResult("check", Level.FAILED, "\x1b[32m✔ fine", "\x1b[0m")], terminal=True)
    assert line.count("\x1b") == 2, "those of the sign"
