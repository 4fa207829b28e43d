"""Pages in headless Chromium, which Playwright drives.

Chromium is the system's (Debian's package ``chromium``); Playwright's own is never downloaded.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect, sync_playwright

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
needs_chromium = pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium: apt-get install chromium"
)
_TIMEOUT_MS = 60_000
expect.set_options(timeout=_TIMEOUT_MS)


@contextmanager
def new_page(home: Path, *, dark: bool = False) -> Iterator[Page]:
    """An empty page of a new browser, which writes to no other folder than ``home``.

    An error or a warning in its console fails the test in the end.
    """
    errors: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, env={"HOME": str(home), "PATH": "/usr/bin:/bin"}
        )
        with browser:
            page = browser.new_page(
                viewport={"width": 1280, "height": 1400},
                color_scheme="dark" if dark else "light",
            )
            page.set_default_timeout(_TIMEOUT_MS)
            page.on("pageerror", lambda error: errors.append(str(error)))
            page.on(
                "console",
                lambda said: (
                    errors.append(said.text)
                    if said.type in ("error", "warning", "assert")
                    else None
                ),
            )
            yield page
    assert errors == []
