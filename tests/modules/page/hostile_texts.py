"""A corpus of texts that want to be more than text on a page, for each field that others write."""

from collections.abc import Iterator
from itertools import product
from typing import Final

_MARKUP: Final = (
    "<img src=x onerror=broken()>", "<script>broken()</script>", "<svg/onload=broken()>", "<iframe srcdoc='<b>'>",
    "<a href=javascript:broken()>x</a>", "</textarea><b>", "<style>*{display:none}</style>",
    "<base href=//evil.example>",
    "<meta http-equiv=refresh content=0>", "&lt;script&gt;", "&#x3c;b&#x3e;", "<!--", "]]>", "<math><mi//xlink:href=x>",
)  # fmt: skip
_LINKS: Final = (
    "javascript:broken()", "JaVaScRiPt:broken()", "java\tscript:broken()", "data:text/html,<b>", "//evil.example",
    "https://evil.example", "vbscript:x", "blob:x", "/page/../evil", "\\\\evil.example", "#x", "mailto:x",
)  # fmt: skip
_TEMPLATES: Final = ("{{7*7}}", "${broken()}", "<%= 1 %>", "#{1}", "{%x%}", "%s%n", "{0}", "__proto__", "constructor")
_NODES: Final = (
    '{"tag":"img","props":{"src":"x"},"kids":[]}', '{"type":"script","props":{},"__v":1}', '[["b",{},"x"]]', "null",
    "[]",
)  # fmt: skip
_REORDERED: Final = tuple(f"a{chr(code)}b" for code in (
    *range(0x200B, 0x2010), *range(0x2028, 0x202F), *range(0x2060, 0x2070), 0xAD, 0x34F, 0x61C, 0x115F, 0x17B4, 0x180E,
    0x3164, 0xFEFF, 0xFFA0, 0xFFF0, 0xFFF9, 0xFFFB, 0x1BCA0, 0x1D173, 0xE0001, 0xE0041, 0xE0080, 0xE01F0,
))  # fmt: skip
_CONTROLS: Final = tuple(f"a{chr(code)}b" for code in (*range(0x20), *range(0x7F, 0xA0)))
_TERMINALS: Final = (
    "\x1b[31mred\x1b[0m", "\x1b]52;c;aGk=\x07", "\x1b]8;;https://evil.example\x07x\x1b]8;;\x07", "\x1b]0;title\x07",
    "\x1b[2J", "\x9b31m", "\x1bP+q544e\x1b\\", "\x05", "\x1b[6n",
)  # fmt: skip
_LONG: Final = ("x" * 70_000, "\U0001f600" * 5000, "e\u0301" * 5000, "<" * 5000, "\u0e49" * 3000)
_SURROGATES: Final = ("\ud800", "\udfff", "a\udc00b", "\udc00\ud800", "\U0001f600")


def hostile_texts() -> list[str]:
    """Return the corpus: each text alone, and those of markup, links and templates within and around others."""
    return sorted(set(_made()))


def _made() -> Iterator[str]:
    short = (*_MARKUP, *_LINKS, *_TEMPLATES, *_NODES)
    yield from (*short, *_REORDERED, *_CONTROLS, *_TERMINALS, *_LONG, *_SURROGATES)
    for frame, text in product(("'{}'", '"{}"', "\u202e{}", "{}\x00", "\x1b[1m{}", "pod/{}", "{}\n{}"), short):
        yield frame.replace("{}", text)
