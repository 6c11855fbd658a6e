"""The options of `cloudcore run` come from the fields of its configuration."""

import argparse
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
import pytest

from modules.processes.cloudcore.config import CloudCoreConfig
from modules.processes.cloudcore.flags import ADDRESS, Flag, Flags, add_flags, comma_separated, converted, settings_of


class Foreign(msgspec.Struct, frozen=True):
    """A section that another package has."""

    word: str = "w"
    labels: Mapping[str, str] = {}


class Door(msgspec.Struct, frozen=True):
    """A section that may be missing."""

    address: Annotated[str, Flag("--door", ADDRESS, "opens it", port="port")] = "127.0.0.1"
    port: int = 7
    keys: Annotated[tuple[str, ...], Flag("--key", "K", "one"), Flag("--spare-key", "K", "another")] = ("none",)


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """All kinds of fields that options can set."""

    listen: Annotated[str, Flag("--listen", ADDRESS, "default %(default)s", port="listen_port")] = "127.0.0.1"
    listen_port: Annotated[int, msgspec.Meta(ge=0)] = 80
    count: Annotated[Annotated[int, msgspec.Meta(ge=1)] | None, Flag("--count", "N", "of things")] = None
    is_loud: Annotated[bool, Flag("--loud", None, "noise", group="noises")] = False
    who: Annotated[Literal["me", "you"], Flag("--who", None, "default %(default)s")] = "me"
    names: Annotated[tuple[str, ...], Flag("--names", "N,N", "of all", read=comma_separated)] = ()
    door: Annotated[Door | None, Flags("doors")] = None
    foreign: Annotated[
        Foreign, Flags("foreign", {"word": Flag("--word", "W", "a word"), "labels": Flag("--label", "K=V", "a label")})
    ] = Foreign()
    unset: int = 5


def parser() -> argparse.ArgumentParser:
    """Return a parser with the options of the settings."""
    made = argparse.ArgumentParser(exit_on_error=False)
    add_flags(made, Settings)
    return made


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], {}),
        (["--listen", "[::1]:5"], {"listen": "::1", "listen_port": 5}),
        (["--count", "3", "--loud", "--who", "you"], {"count": 3, "is_loud": True, "who": "you"}),
        (["--names", "a, b"], {"names": ("a", "b")}),
        (["--door", "1.2.3.4:5"], {"door": Door("1.2.3.4", 5)}),
        (["--door", "1.2.3.4:5", "--spare-key", "c", "--key", "a"], {"door": Door("1.2.3.4", 5, ("a", "c"))}),
        (["--key", "a"], {}),
        (["--door", ""], {}),
        (["--word", "x", "--label", "a=b", "--label", "c="], {"foreign": Foreign("x", {"a": "b", "c": ""})}),
    ],
)
def test_an_option_sets_its_field_and_others_keep_their_defaults(words: list[str], expected: dict[str, Any]) -> None:
    settings = settings_of(parser().parse_args(words), Settings)

    assert converted(settings, Settings) == Settings(**expected)


@pytest.mark.parametrize("words", [["--count", "0"], ["--listen", ""], ["--listen", "127.0.0.1:x"]])
def test_the_field_bounds_the_value(words: list[str]) -> None:
    with pytest.raises(msgspec.ValidationError):
        converted(settings_of(parser().parse_args(words), Settings), Settings)


def test_the_field_has_the_choices() -> None:
    with pytest.raises(argparse.ArgumentError, match="invalid choice"):
        parser().parse_args(["--who", "they"])


def test_the_help_has_the_groups_and_the_defaults() -> None:
    text = parser().format_help()

    assert "default 127.0.0.1:80\n" in text
    assert "default me\n" in text
    assert text.index("\nnoises:") < text.index("\ndoors:") < text.index("\nforeign:")


def test_without_options_cloudcore_has_the_defaults_of_its_configuration() -> None:
    made = argparse.ArgumentParser()
    add_flags(made, CloudCoreConfig)

    assert converted(settings_of(made.parse_args([]), CloudCoreConfig), CloudCoreConfig) == CloudCoreConfig()
