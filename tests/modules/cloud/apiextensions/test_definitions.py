"""Definitions that are refused, and the names that a definition gets."""

from typing import Any

import pytest

from modules.apimachinery.validation.invalid_fields import InvalidFieldsError
from modules.cloud.apiextensions.definitions import prepared_definition
from tests.modules.cloud.apiextensions.definition import definition

NOW = "2027-01-15T08:00:00Z"


@pytest.mark.parametrize("spec", [None, [], ["x"], "x", 1, {"versions": 1}, {"names": [], "versions": [1]}])
def test_a_spec_of_another_shape_is_refused_with_its_place(spec: Any) -> None:
    """Of each the client has what is wrong with it."""
    with pytest.raises(InvalidFieldsError) as error:
        prepared_definition({**definition(), "spec": spec}, None, [], NOW)
    assert "spec" in {cause["field"].partition(".")[0] for cause in error.value.details["causes"]}


@pytest.mark.parametrize("given", ["", None, []])
def test_an_empty_name_counts_as_not_given(given: Any) -> None:
    """The server sets it from the kind."""
    made = prepared_definition(definition(singular=given, listKind=given), None, [], NOW)
    names = made["spec"]["names"]
    assert (names["singular"], names["listKind"]) == ("device", "DeviceList")


def test_a_warning_of_a_deprecated_version_says_something() -> None:
    """Without one, the API server has words of its own."""
    made = definition()
    made["spec"]["versions"][0] |= {"deprecated": True, "deprecationWarning": ""}
    with pytest.raises(InvalidFieldsError, match=r'deprecationWarning: Invalid value: "": must not be an empty string'):
        prepared_definition(made, None, [], NOW)
