"""Tables of commands, for people and for programs."""

import csv
import io
import json

import pytest

from modules.processes.common.tables import Table, csv_of, lines_of, print_table

_TABLE = Table(("NODE", "LAST-ERROR"), [("n1", "=1+1"), ("n2", 'a "b", c\x1b[2J')], "No nodes.", ("More.",))


def test_people_see_columns_without_control_characters() -> None:
    assert lines_of(_TABLE) == ["NODE   LAST-ERROR", "n1     =1+1", 'n2     a "b", c\\x1b[2J', "More."]
    assert lines_of(_TABLE._replace(rows=[])) == ["No nodes.", "More."]


def test_csv_is_read_back_and_has_no_formula() -> None:
    assert list(csv.reader(io.StringIO(csv_of(_TABLE)))) == [
        ["NODE", "LAST-ERROR"], ["n1", "'=1+1"], ["n2", 'a "b", c\\x1b[2J'],
    ]  # fmt: skip
    assert csv_of(_TABLE._replace(rows=[])) == "NODE,LAST-ERROR\n"


@pytest.mark.parametrize("begins", ["=", "+", "-", "@", "\t"])
def test_every_beginning_of_a_formula_gets_an_apostrophe(begins: str) -> None:
    assert csv_of(Table(("A",), [(f"{begins}1",)], "")).splitlines()[1].startswith("'")


def test_forms(capsys: pytest.CaptureFixture[str]) -> None:
    """JSON has the rows by their headings, or what the command gives; a table without rows is an empty list."""
    print_table("json", _TABLE)
    assert json.loads(capsys.readouterr().out)[0] == {"node": "n1", "last_error": "=1+1"}
    print_table("json", _TABLE._replace(rows=[]))
    assert json.loads(capsys.readouterr().out) == []
    print_table("json", _TABLE, {"all": 1})
    assert json.loads(capsys.readouterr().out) == {"all": 1}
    print_table("csv", _TABLE)
    assert capsys.readouterr().out.splitlines()[0] == "NODE,LAST-ERROR"
    print_table("table", _TABLE)
    assert capsys.readouterr().out.splitlines()[-1] == "More."
