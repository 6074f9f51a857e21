"""One browser for all pages."""

import pytest
from e2e.browsers import start


@pytest.fixture(scope="session")
def browser():
    found = start()
    yield found
    found.quit()
