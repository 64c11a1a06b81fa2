import subprocess
import sys

import pytest

import dpconvex as dc


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
