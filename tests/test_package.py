import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import dpconvex as dc

ROOT = Path(__file__).parents[1]


def test_importing_the_package_imports_nothing_heavy():
    code = "import sys, dpconvex; print([m for m in ('numba', 'sklearn', 'scipy.stats', 'pandas') if m in sys.modules])"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
    )


def test_public_names():
    for name in dc.__all__:
        assert getattr(dc, name) is not None
    with pytest.raises(AttributeError, match="nothing"):
        _ = dc.nothing


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The wheel that the sdist builds, unpacked where nothing else of this tree is."""
    folder = tmp_path_factory.mktemp("package")
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT]
    subprocess.run(build, check=True, capture_output=True)
    with zipfile.ZipFile(next(folder.glob("*.whl"))) as wheel:
        wheel.extractall(folder / "site")
    return folder / "site"


def test_the_wheel_of_the_sdist_holds_every_file(installed):
    ours = {path.relative_to(ROOT / "src") for path in (ROOT / "src").rglob("*") if path.is_file()}
    wanted = {path for path in ours if "__pycache__" not in path.parts}
    assert {path.relative_to(installed) for path in installed.rglob("*") if path.is_file()} >= wanted


def test_the_wheel_works_by_itself(installed):
    code = "import dpconvex as dc; print(dc.__file__); print(dc.recommend(n=500, d=3, budget=dc.Budget(1.0, 1e-6)))"
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.startswith(str(installed))
    assert "What to expect: 500 records" in done.stdout


def test_every_page_names_this_version():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {dc.__version__}\n" in citation
