"""Headless Chromium for tests, and what is missing to run it."""

import os
import shutil
import tempfile
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

AXE = Path(os.environ.get("DPCONVEX_AXE", ".browser/node_modules/axe-core/axe.min.js"))
LIGHTHOUSE = Path(os.environ.get("DPCONVEX_LIGHTHOUSE", ".browser/node_modules/.bin/lighthouse"))
_QUIET = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--window-size=1280,1000",
)  # fmt: skip


def missing():
    """What has to be installed before pages can be opened: `make test-browser` says how."""
    wanted = [] if find_spec("selenium") else ["the extra browser"]
    wanted += [f"{name}" for name in ("chromium", "chromedriver") if not shutil.which(name)]
    return wanted + ([] if AXE.exists() else ["axe-core (npm)"])


@contextmanager
def open_browser():
    """A browser with a new profile, which logs its requests."""
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
    with tempfile.TemporaryDirectory() as profile:
        for argument in (*_QUIET, f"--user-data-dir={profile}"):
            options.add_argument(argument)
        browser = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
        try:
            yield browser
        finally:
            browser.quit()
