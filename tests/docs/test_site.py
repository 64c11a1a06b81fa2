"""The built site in a real browser, measured by Lighthouse: `make test-browser` installs it.

Of the front page the speed counts as well, on a simulated phone with a slow network: best on an idle machine.
"""

import json
import os
import shutil
import subprocess
import sys
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from browser import LIGHTHOUSE

DOCS = Path(__file__).parents[2] / "docs"
LEAST = 0.95
PAGES = ("index", "guide/getting-started", "algorithms/index", "papers")


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *words):
        pass


@contextmanager
def served(folder):
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=folder)) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    subprocess.run([sys.executable, "-m", "sphinx", "-q", "-W", "-b", "html", DOCS, folder], check=True)
    with served(folder) as address:
        yield address


@pytest.mark.parametrize("page", PAGES)
def test_pages_are_accessible_and_well_made_and_the_front_page_is_fast(page, site, tmp_path):
    found = tmp_path / "found.json"
    subprocess.run(
        [
            LIGHTHOUSE, f"{site}/{page}.html", "--quiet", "--output=json", f"--output-path={found}",
            "--only-categories=performance,accessibility,best-practices",
            "--chrome-flags=--headless=new --no-sandbox --disable-gpu",
        ],
        env={**os.environ, "CHROME_PATH": shutil.which("chromium")}, check=True, timeout=300,
    )  # fmt: skip
    scores = {name: part["score"] for name, part in json.loads(found.read_text())["categories"].items()}
    asked = ["accessibility", "best-practices", *(["performance"] if page == "index" else [])]
    assert all(scores[name] >= LEAST for name in asked), scores
