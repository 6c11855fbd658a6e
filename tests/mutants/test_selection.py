"""Each module of the product is mutated, with tests that are there."""

from tests.mutants import selection
from tests.mutants.selection import PRODUCT, ROOT, TESTS, modules


def test_each_module_of_the_product_is_mutated() -> None:
    """But the laboratory, whose tools are tests themselves."""
    product = {
        str(path.relative_to(ROOT))
        for top in PRODUCT
        for path in (ROOT / top).rglob("*.py")
        if path.name not in selection._NOT
    }
    assert {path for path in product ^ set(modules("")) if not path.startswith("modules/lab/")} == set()
    assert not modules("modules/lab")


def test_the_tests_of_each_package_are_there() -> None:
    named = {one.partition("::")[0] for tests in TESTS.values() for one in tests}
    assert [one for one in sorted(named) if not (ROOT / one).exists()] == []
    assert selection.tests_of("modules/cloud/storage/database/database.py")[0] == "tests/modules/cloud/storage"
    assert selection.tests_of("modules/edge/servicebus/module.py") == ["tests/modules/edge/servicebus"]
    assert selection.tests_of("edged/pods/model.py")[0] == "tests/edged/pods"
