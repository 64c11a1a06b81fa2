"""Build the sdist, the wheel from it, and install that in an environment of its own: `make package`.

It prints what the package and all it depends on take on the disk.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
CODE = """
import numpy as np, dpconvex as dc
model = dc.PrivateLogisticRegression(feature_bound=1.0, classes=[0, 1]).fit(np.eye(2)[[0, 1] * 50], [0, 1] * 50)
print(dc.__file__, dc.verify(model.receipt_).value)
"""


def build(folder: Path) -> Path:
    """Build the sdist, and from it the wheel, whose path is returned."""
    quiet = {"check": True, "stdout": subprocess.DEVNULL}
    subprocess.run([sys.executable, "-m", "build", "--outdir", folder, ROOT], **quiet)
    return next(folder.glob("*.whl"))


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wheel = build(folder / "dist")
        venv.create(folder / "venv", with_pip=True)
        python = folder / "venv" / "bin" / "python"
        subprocess.run([python, "-m", "pip", "install", "--quiet", wheel], check=True)
        subprocess.run([python, "-m", "pip", "check"], check=True)
        subprocess.run([python, "-c", CODE], check=True, cwd=folder)
        sites = next((folder / "venv" / "lib").glob("python3*/site-packages"))
        sizes = {
            part.name: sum(f.stat().st_size for f in part.rglob("*") if f.is_file()) / 1e6
            for part in sites.iterdir()
            if part.is_dir() and part.name not in ("pip", "setuptools")
        }
        print(
            f"wheel {wheel.stat().st_size / 1e6:.2f} MB; installed {sum(sizes.values()):.0f} MB with all it depends on:"
        )
        for part, size in sorted(sizes.items(), key=lambda pair: -pair[1])[:8]:
            print(f"  {part:<24}{size:7.1f} MB")


if __name__ == "__main__":
    main()
