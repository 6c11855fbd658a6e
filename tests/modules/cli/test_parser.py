"""The command line of a verb."""

import argparse

import pytest

from modules.cli.parser import VerbParser


def parser() -> VerbParser:
    made = VerbParser(prog="program get", intermixed=True, description="Print objects.")
    made.add_argument("words", nargs="*")
    made.add_argument("-n", "--namespace", default="")
    made.add_argument("-o", "--output", default="")
    made.add_argument("-f", "--filename", action="append", default=[])
    made.add_argument("--dry-run", nargs="?", const="client", default="none")
    made.flag("-w", "--watch", text="watch")
    made.flag("-A", "--all-namespaces", text="all")
    made.flag("--wait", default=True, text="wait")
    made.absent("--context", "there is one server")
    return made


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("pods -n x web", {"words": ["pods", "web"], "namespace": "x"}),
        ("-n=x pods", {"words": ["pods"], "namespace": "x"}),
        ("-nx pods", {"words": ["pods"], "namespace": "x"}),
        ("--namespace x pods", {"words": ["pods"], "namespace": "x"}),
        ("--namespace=x pods", {"words": ["pods"], "namespace": "x"}),
        ("-Awoyaml pods", {"all_namespaces": True, "watch": True, "output": "yaml", "words": ["pods"]}),
        ("--watch=true pods --wait=false", {"watch": True, "wait": False, "words": ["pods"]}),
        ("--watch=F --wait=T", {"watch": False, "wait": True}),
        ("-f a -f b -f -", {"filename": ["a", "b", "-"]}),
        ("-f - pods", {"filename": ["-"], "words": ["pods"]}),
        ("--output -x", {"output": "-x"}),
        ("--dry-run pods", {"dry_run": "client", "words": ["pods"]}),
        ("--dry-run=server pods", {"dry_run": "server", "words": ["pods"]}),
        ("a -- -w b", {"words": ["a", "-w", "b"], "watch": False}),
    ],
)
def test_options_and_names_in_any_order(line: str, wanted: dict[str, object]) -> None:
    chosen = vars(parser().parse_args(line.split()))
    assert {name: chosen[name] for name in wanted} == wanted


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--odd", "unknown flag: --odd"),
        ("--namesp x", "unknown flag: --namesp"),
        ("-x", "unknown shorthand flag: -x"),
        ("pods -n", "flag needs an argument: -n"),
        ("--watch=maybe", "ignored explicit argument 'maybe'"),
        ("--context=x", "there is no --context here: there is one server"),
        ("--context x", "there is no --context here"),
    ],
)
def test_refusals_and_their_reasons(line: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parser().parse_args(line.split())
    assert ended.value.code == 2
    shown = capsys.readouterr().err
    assert said in shown
    assert len(shown.splitlines()) == 1
    assert "(see `program get --help`)" in shown


def test_the_help_has_the_options_under_their_title_and_no_values_of_flags() -> None:
    head, options = parser().format_help().split("\noptions:\n")
    assert head.startswith("usage: program get")
    assert "--watch" in options
    assert "--watch=" not in options


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("token create", "unrecognized arguments: create (see `program token --help`)"),
        ("tokn", 'unknown command "tokn"; did you mean token? (see `program --help`)'),
    ],
)
def test_an_unknown_word_is_the_command_s_own_error(line: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    outer = VerbParser(prog="program")
    outer.add_subparsers().add_parser("token", help="print a token")
    with pytest.raises(SystemExit):
        outer.parse_args(line.split())
    assert capsys.readouterr().err == f"error: {said}\n"


def test_a_command_without_help_is_not_offered(capsys: pytest.CaptureFixture[str]) -> None:
    """It would only say what to do instead."""
    outer = VerbParser(prog="program")
    commands = outer.add_subparsers()
    commands.add_parser("expose")
    commands.add_parser("export", help="write an archive")
    with pytest.raises(SystemExit):
        outer.parse_args(["expos"])
    assert "did you mean export? (see" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        outer.parse_args(["xyzzy"])
    assert "there are export (see" in capsys.readouterr().err


def test_a_parser_of_commands_leaves_the_order_as_it_is() -> None:
    outer = VerbParser(prog="program")
    commands = outer.add_subparsers()
    inner = commands.add_parser("run")
    inner.add_argument("rest", nargs=argparse.REMAINDER)
    assert outer.parse_args(["run", "a", "-x", "--", "b"]).rest == ["a", "-x", "--", "b"]


def test_a_parser_of_commands_says_why_an_option_is_absent(capsys: pytest.CaptureFixture[str]) -> None:
    outer = VerbParser(prog="program")
    outer.absent("--context", "there is one server")
    with pytest.raises(SystemExit):
        outer.parse_args(["--context=x"])
    assert "there is no --context here: there is one server" in capsys.readouterr().err


def test_without_words_those_of_the_process_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["program", "pods"])
    assert parser().parse_args().words == ["pods"]


def test_no_parser_looks_for_translations(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would be on the disk, for each text of each command again."""
    asked: list[str] = []
    monkeypatch.setattr("gettext.find", lambda domain, *_, **__: asked.append(domain))
    parser = VerbParser(prog="edgecore")
    verb = parser.add_subparsers(title="commands").add_parser("get", help="list objects", intermixed=True)
    verb.flag("--watch", text="go on")
    assert "show this help message" in verb.format_help()
    assert asked == []
