"""One browser for all pages of a file."""

import pytest
from support.browsers import BROWSER, FLAGS, PHONE, Reader


@pytest.fixture(scope="module")  # its event loop would be in the way of other files' tests
def chromium():
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def show(chromium, files):
    """Open a file as a reader has it."""
    readers = []

    def begin(name, size=PHONE, scheme="light", media="screen"):
        reader = Reader(chromium, size, scheme, is_mobile=size == PHONE)
        readers.append(reader)
        reader.page.emulate_media(media=media)
        reader.page.goto((files / f"{name}.html").as_uri())
        return reader

    yield begin
    for reader in readers:
        reader.context.close()
