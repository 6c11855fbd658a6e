"""Service accounts and the tokens that they get."""

import pytest

from tests.modules.cloud.apiserver.tokens.accounts import Accounts


@pytest.fixture
def accounts() -> Accounts:
    return Accounts()
