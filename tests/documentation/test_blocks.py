"""Pages are read as their authors mean them."""

from tests.documentation.blocks import Block, blocks, commands

_PAGE = """\
# Page

```sh
cloudcore run &          # in the background
echo "$(cloudcore token)" | edgecore join --token - --cloud here > out
```

<!-- parsed only: needs root -->

```sh
sudo edgecore run \\
    --root /x
```

```console
$ edgecore version
edgecore: warning: this is output
edgecore pods are many
```
"""


def test_blocks_have_their_line_and_reason() -> None:
    assert [(each.line, each.language, each.reason, each.runs) for each in blocks(_PAGE)] == [
        (4, "sh", "", True),
        (11, "sh", "needs root", False),
        (16, "console", "", False),
    ]


def test_commands_are_found_in_pipelines_and_substitutions() -> None:
    first, second, _ = blocks(_PAGE)
    assert list(commands(first)) == [
        ("cloudcore", ["run"]),
        ("cloudcore", ["token"]),
        ("edgecore", ["join", "--token", "-", "--cloud", "here"]),
    ]
    assert list(commands(second)) == [("edgecore", ["run", "--root", "/x"])]


def test_a_block_that_shows_an_error_has_no_commands() -> None:
    (block,) = blocks("<!-- not parsed: shows an error -->\n```console\n$ edgecore gett\n```\n")
    assert (block.reason, list(commands(block))) == ("shows an error", [])


def test_of_other_languages_lines_with_commands_count() -> None:
    block = Block(1, "", "edgecore pods\nedgecore: no\nnot edgecore pods\n", "")
    assert list(commands(block)) == [("edgecore", ["pods"])]
