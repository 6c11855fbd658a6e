"""The commands of a program with kubectl's verbs."""

import re
import shutil
import subprocess
import sys
from functools import cache
from importlib import import_module

import pytest

from modules.cli.parser import VerbParser, unknown_command
from modules.kubectl.cli import ANSWERS, VERBS, add_answers, arranged
from modules.processes.cloudcore.cli import command_line, main

KUBECTL = shutil.which("kubectl")


@cache
def help_of(*words: str) -> str:
    """What the real kubectl says of itself."""
    return subprocess.run(["kubectl", *words], capture_output=True, text=True, check=True).stdout


@pytest.mark.skipif(KUBECTL is None, reason="no kubectl on this machine")
def test_every_verb_of_the_real_kubectl_is_known() -> None:
    verbs = set(re.findall(r"^  ([a-z][a-z-]+)  ", help_of("--help"), re.MULTILINE))
    assert {"get", "rollout"} <= verbs <= set(ANSWERS)


@pytest.mark.skipif(KUBECTL is None, reason="no kubectl on this machine")
@pytest.mark.parametrize(
    "verb",
    ["get", "events", "delete", "wait", "label", "annotate", "patch", "cordon", "uncordon", "taint", "api-resources",
     "top pod", "top node"],
)  # fmt: skip
def test_every_option_of_the_real_kubectl_is_there_or_refused_with_the_reason(
    verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = help_of("options") + help_of(*verb.split(), "--help")
    verb = verb.split(maxsplit=1)[0]
    _, commands = command_line([verb])
    parser = commands.choices[verb]
    options = re.findall(r"^    (?:(-\w), )?(--[\w-]+)=", shown, re.MULTILINE)
    assert ("-n", "--namespace") in options
    unknown = []
    for option in {name for names in options for name in names if name} - set(parser._option_string_actions):
        with pytest.raises(SystemExit):
            parser.parse_args([option])
        if f"there is no {option} here: " not in capsys.readouterr().err:
            unknown.append(option)
    assert [name for name in sorted(unknown) if name not in ("-n", "--namespace")] == []


def test_every_verb_is_there_or_refused_with_the_remedy() -> None:
    """`completion` and `version` are commands of the programs."""
    _, commands = command_line()
    assert set(ANSWERS) - {"completion"} <= set(commands.choices)


@pytest.mark.parametrize("name", VERBS)
def test_every_verb_has_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([name, "--help"])
    assert ended.value.code == 0
    text = VERBS[name].text
    assert f"\n{text[:1].upper()}{text[1:]}.\n" in capsys.readouterr().out


@pytest.mark.parametrize("name", VERBS)
def test_every_verb_has_a_module_with_both_functions(name: str) -> None:
    module = import_module(VERBS[name].module)
    assert callable(module.add)
    assert callable(module.run)


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (
            ["autoscale", "deployment/web", "--max=3"],
            1,
            "cloudcore has no `autoscale`: nothing is scaled by itself here",
        ),
        (["init"], 2, "`cloudcore run`"),
        (["gett", "pods"], 2, 'unknown command "gett"; did you mean get'),
        (["xyzzy"], 2, 'unknown command "xyzzy"'),
        (["help", "xyzzy"], 2, 'unknown command "xyzzy"'),
        (["--odd", "get"], 2, "--odd"),
        (["get", "pods", "--kubeconfig=x"], 2, "--kubeconfig"),
    ],
)
def test_missing_objects_are_an_error(
    words: list[str], status: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        ended = main(words)
    except SystemExit as exit_:
        ended = int(exit_.code or 0)
    shown = capsys.readouterr()
    assert (ended, shown.out) == (status, "")
    assert said in shown.err
    assert len(shown.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "said"), [(["help"], "COMMAND"), (["help", "get"], "--selector"), (["--help"], "get")]
)
def test_help(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 0
    assert said in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ("get pods", "get pods"),
        ("-n x get pods -o wide", "get -n x pods -o wide"),
        ("--root=r get pods", "get --root=r pods"),
        ("--root r devices history x", "devices history --root r x"),
        ("--root r devices list -o wide", "devices list --root r -o wide"),
        ("--root r devices", "devices --root r"),
        ("devices history x", "devices history x"),
        ("--root r", "--root r"),
        ("--version", "--version"),
        ("--help get", "--help get"),
        ("", ""),
    ],
)
def test_the_command_comes_first(words: str, wanted: str) -> None:
    parser = VerbParser(prog="program")
    commands = parser.add_subparsers()
    commands.add_parser("get")
    within = commands.add_parser("devices").add_subparsers()
    for each in ("history", "list"):
        within.add_parser(each)
    assert arranged(parser, commands, words.split()) == wanted.split()


def test_answers_replace_kubectls_and_leave_commands_alone() -> None:
    parser = VerbParser(prog="program")
    commands = parser.add_subparsers()
    commands.add_parser("get", help="own")
    add_answers(commands, "program", {"get": "nothing", "logs": "look {verb} up", "ps": "see {program} get"})
    chosen = parser.parse_args(["logs", "-f", "x"])
    assert chosen.kubectl == ("program", "logs", "look {verb} up", 1)
    assert parser.parse_args(["ps"]).kubectl[3] == 2
    assert not hasattr(parser.parse_args(["get"]), "kubectl")


@pytest.mark.parametrize(
    ("word", "names", "answer"),
    [
        ("aply", ["apply", "get"], 'unknown command "aply"; did you mean apply?'),
        ("load", ["list", "import"], 'unknown command "load"; did you mean import?'),
        ("rmi", ["list", "import"], 'unknown command "rmi"'),
    ],
)
def test_names_like_an_unknown_one(word: str, names: list[str], answer: str) -> None:
    assert unknown_command(word, names) == answer


def test_only_the_typed_verb_is_loaded() -> None:
    """And nothing heavy for its help."""
    code = (
        "import sys; from modules.processes.cloudcore.cli import command_line; command_line(['version']);"
        "print(*(name for name in sys.modules if name.startswith(('modules.kubectl.', 'modules.cloud.')) "
        "or name in ('http.client', 'websockets', 'sqlalchemy')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    light = ("absent", "arguments", "cli", "parser", "statuses")
    settings = {
        "modules.cloud.apiserver",
        "modules.cloud.apiserver.service_defaults",
        "modules.cloud.authentication",
        "modules.cloud.authentication.jws",
        "modules.cloud.authentication.settings",
        "modules.cloud.authentication.users",
        "modules.cloud.storage",
        "modules.cloud.storage.database",
        "modules.cloud.coordination",
        "modules.cloud.coordination.lease_settings",
        "modules.cloud.messages",
    }
    assert set(done.stdout.split()) <= {f"modules.kubectl.{name}" for name in light} | settings
