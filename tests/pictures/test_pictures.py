"""The pictures in docs/pictures can be made, and show what they are to show."""

import re
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.pictures.demo_node import WAITS, DemoNode, demo_node
from tests.pictures.making import docs_site, fleet_pages, no_site, top_live, trace_page
from tests.support.browser import why_none

PICTURES = Path(__file__).parents[2] / "docs" / "pictures"
MOST_BYTES = 200_000


@pytest.fixture(scope="module")
def node() -> Iterator[DemoNode]:
    """A node with the pods of the demo."""
    with demo_node() as started:
        yield started


@pytest.mark.timeout(600)
@pytest.mark.slow
def test_the_view_in_a_terminal(node: DemoNode, tmp_path: Path) -> None:
    """All pods, what they are, what waits; and nothing that a browser would load from elsewhere."""
    (path,) = top_live(node, tmp_path)
    svg = path.read_text(encoding="utf-8")
    text = text_of(svg)
    assert all(f"default/{name}" in text for name in node.names)
    for word in ("● Ready", "● connected", "Running", "Completed", "CrashLoopBackOff", "what waits, and why · 2"):
        assert word in text
    assert f"default/{WAITS}" in text[text.index("what waits") :]
    assert re.findall(r"(?:href|src|url)[=(]\W*http", svg) == []
    assert 20_000 < path.stat().st_size < MOST_BYTES


@pytest.mark.timeout(600)
@pytest.mark.skipif(bool(why_none()), reason=why_none())
@pytest.mark.slow
def test_the_page_of_a_trace(node: DemoNode, tmp_path: Path) -> None:
    """Light and dark, and not blank."""
    light, dark = trace_page(node, tmp_path)
    for path in (light, dark):
        data = path.read_bytes()
        width, height = png_size(data)
        assert (width, height > 500) == (1280, True)
        assert len(set(pixels(data))) > 50
        assert 20_000 < len(data) < MOST_BYTES
    assert brightness(light) > 200
    assert brightness(dark) < 60


@pytest.mark.timeout(600)
@pytest.mark.skipif(bool(why_none()), reason=why_none())
@pytest.mark.slow
def test_the_page_of_a_fleet(tmp_path: Path) -> None:
    """Light, dark and narrow, and not blank; and each other page."""
    made = {path.name: path for path in fleet_pages(tmp_path)}
    assert sorted(made) == sorted(path.name for path in PICTURES.glob("page-*.png"))
    for path in made.values():
        assert len(set(pixels(path.read_bytes()))) > 50
        assert 15_000 < path.stat().st_size < MOST_BYTES
    assert png_size(made["page-fleet-narrow.png"].read_bytes())[0] == 390
    assert brightness(made["page-fleet.png"]) > 200
    assert brightness(made["page-fleet-dark.png"]) < 60


@pytest.mark.timeout(600)
@pytest.mark.skipif(bool(why_none() or no_site()), reason=why_none() or no_site())
@pytest.mark.slow
def test_a_page_of_the_documentation(tmp_path: Path) -> None:
    (path,) = docs_site(tmp_path)
    data = path.read_bytes()
    assert png_size(data)[0] == 1280
    assert len(set(pixels(data))) > 50
    assert 20_000 < len(data) < MOST_BYTES


@pytest.mark.parametrize("name", ["top-live.svg", "trace-page.png", "trace-page-dark.png", "docs-site.png"])
def test_the_pictures_in_the_repository_have_their_types(name: str) -> None:
    data = (PICTURES / name).read_bytes()
    assert data.startswith(b"<svg" if name.endswith(".svg") else b"\x89PNG")
    assert len(data) < MOST_BYTES


def text_of(svg: str) -> str:
    """The text of a picture, in the order of its lines."""
    found = "".join(re.findall(r"<text[^>]*>([^<]*)</text>", svg))
    return found.replace("&#160;", " ").replace("\xa0", " ").replace("&quot;", '"')


def png_size(data: bytes) -> tuple[int, int]:
    """Width and height of a PNG."""
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    return int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")


def pixels(data: bytes) -> bytes:
    """The filtered lines of a PNG."""
    at, found = 8, b""
    while at < len(data):
        size, kind = int.from_bytes(data[at : at + 4], "big"), data[at + 4 : at + 8]
        found += data[at + 8 : at + 8 + size] if kind == b"IDAT" else b""
        at += 12 + size
    return zlib.decompress(found)


def brightness(path: Path) -> int:
    """The first byte of the first pixel: the background in the corner."""
    return pixels(path.read_bytes())[1]
