"""The figures of the documentation that the bench repeats."""

import re

import pytest

from tests.bench import __main__ as bench
from tests.bench.claims import CLAIMS, ROOT, Claim, ClaimError, holds, lines, stated
from tests.bench.rows import Row, Unit

PAGE = """\
50 pods, each with a
configmap, run 1.66 s after the start

| | here | there |
|---|--:|--:|
| 1 pod (9b32a1ba, load 16) | 0.047 s | 0.023 s |
| … × floor | 1.42 | |
| 20 pods | 3,252 and 62 MB | |
| … × floor | 1.65 | |
"""


def test_each_claim_is_on_its_page_and_has_its_section() -> None:
    """A figure that moves, or a row that is renamed, takes its claim along."""
    sections = {section.name for section in bench.SECTIONS}
    for claim in CLAIMS:
        assert stated(claim, (ROOT / claim.page).read_text()) > 0
        assert claim.section in sections


def test_the_commands_that_the_pages_name_exist() -> None:
    sections = {section.name for section in bench.SECTIONS}
    pages = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    named = {module for page in pages for module in re.findall(r"python -m (tests\.[a-z_.]+[a-z])", page.read_text())}
    assert named >= {"tests.bench", "tests.bench.hostile", "tests.bench.crowd"}
    for module in named:
        path = (ROOT / module.replace(".", "/")).with_suffix(".py")
        file = path if path.exists() else path.with_suffix("") / "__main__.py"
        assert "__main__" in file.read_text(), module
    text = (ROOT / "docs" / "performance.md").read_text()
    assert set(re.findall(r"--only ([a-z0-9-]+)", text)) <= sections


@pytest.mark.parametrize(
    ("claim", "figure"),
    [
        (Claim("configmap, run", 0, "bus", ""), 1.66),
        (Claim("1 pod", 2, "bus", ""), 0.023),
        (Claim("… × floor", 1, "bus", "", after="20 pods"), 1.65),
        (Claim("20 pods", 1, "bus", ""), 3252),
        (Claim("20 pods", 1, "bus", "", number=1), 62),
    ],
)
def test_the_figure_of_a_claim(claim: Claim, figure: float) -> None:
    assert stated(claim, PAGE) == figure


@pytest.mark.parametrize(
    "claim", [Claim("2 pods", 1, "", ""), Claim("1 pod", 9, "", ""), Claim("… × floor", 2, "", "")]
)
def test_a_claim_without_a_figure_is_an_error(claim: Claim) -> None:
    with pytest.raises(ClaimError):
        stated(claim, PAGE)


def test_a_rate_holds_when_it_is_not_lower_and_anything_else_when_it_is_not_higher() -> None:
    assert [holds(1.0, now, Unit.SECONDS) for now in (0.1, 1.2, 1.3)] == [True, True, False]
    assert [holds(1000, now, Unit.PER_SECOND) for now in (9000, 810, 790)] == [True, True, False]


def test_a_bench_that_fails_does_not_keep_the_others_from_their_claims(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(_rounds: int) -> list[Row]:
        raise OSError("no such device")

    relist = next(each for each in CLAIMS if each.section == "relist")
    good = Row(relist.what, 0.001, Unit.SECONDS)
    monkeypatch.setattr(bench, "_compile", lambda: None)
    monkeypatch.setattr(
        bench, "SECTIONS", (bench.Section("bus", "bus", broken), bench.Section("relist", "relist", lambda _: [good]))
    )
    assert bench.main(["--claims"]) == 1
    printed = capsys.readouterr().out
    assert "no such device" in printed
    assert printed.count("| not measured | no |") == sum(each.section == "bus" for each in CLAIMS)
    assert f"| relist: {relist.row} |" in printed


def test_the_table_marks_claims_that_do_not_hold() -> None:
    claim = next(each for each in CLAIMS if each.section == "cloud" and each.row.startswith("start with 10,000"))
    then = stated(claim, (ROOT / claim.page).read_text())
    for factor, word in ((1.0, "| yes |"), (2.0, "| **no** |")):
        _, (line, is_held) = lines([claim], {"cloud": [Row(f"{claim.what} → x", then * factor, Unit.SECONDS)]})
        assert (is_held, word in line) == (factor == 1.0, True)
    _, (line, is_held) = lines([claim], {"cloud": []})
    assert ("not measured" in line, is_held) == (True, False)
