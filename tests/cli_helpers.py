import csv
import json
import subprocess
import sys

import numpy as np
from click.testing import CliRunner

from dpconvex.cli import main

WARDS = ["surgery", "heart, lung", 'the "new" ward']


class Clinic:
    """A folder with made-up visits as a raw CSV file: text, numbers, dates, holes, quotes and line breaks."""

    def __init__(self, folder):
        rng = np.random.default_rng(7)
        self.folder, self.data, self.schema = folder, folder / "visits.csv", folder / "schema.json"
        self.model, self.report = folder / "model.json", folder / "report.html"
        age = rng.integers(18, 101, size=600)
        ill = rng.random(600) < 1 / (1 + np.exp(-(age - 60) / 8))
        holes = rng.random((600, 3)) < 0.1
        days = np.datetime64("2020-01-01") + rng.integers(0, 700, size=600)
        self.rows = [
            [
                "" if holes[i, 0] else str(age[i]),
                "" if holes[i, 1] else "FM"[rng.integers(2)],
                "" if holes[i, 2] else str(days[i]),
                WARDS[rng.integers(3)],
                'said "no",\nthen left',
                "yes" if ill[i] else "no",
            ]
            for i in range(600)
        ]
        self.header = ["age", "sex", "admitted", "ward", "note", "ill"]
        self.write(self.data, [self.header, *self.rows])
        self.description = {
            "format": "dpconvex-schema/2",
            "name": str(folder),  # tests share the account of one process
            "rows_per_person": 1,
            "columns": {
                "age": {"type": "number", "low": 18, "high": 100},
                "sex": {"type": "category", "categories": ["F", "M"]},
                "admitted": {"type": "date", "first": "2020-01-01", "last": "2021-12-31", "missing": "flag"},
                "ward": {"type": "category", "categories": WARDS},
                "note": {"type": "ignore", "why": "free text"},
            },
            "target": {"name": "ill", "classes": ["no", "yes"]},
        }
        self.declare()

    def write(self, path, rows, **options):
        with path.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, **options).writerows(rows)
        return path

    def declare(self, **changes):
        description = {k: v for k, v in {**self.description, **changes}.items() if v is not None}
        self.schema.write_text(json.dumps(description), encoding="utf-8")

    def fit(self, *more):
        return dpconvex("fit", self.data, "--schema", self.schema, "--epsilon", 2, "-o", self.model, *more)


def dpconvex(*arguments):
    """Run the command in this process."""
    return CliRunner().invoke(main, [str(a) for a in arguments], catch_exceptions=False)


def shell(*arguments, **options):
    """Run the command in a process of its own."""
    command = [sys.executable, "-m", "dpconvex", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=240, check=False, **options)


def refused(result, *words, code=2):
    """Check that a command ended with one line about what is wrong, and return the line."""
    exit_code = result.exit_code if hasattr(result, "exit_code") else result.returncode
    assert exit_code == code, (exit_code, result.stdout, result.stderr)
    assert result.stdout == ""
    assert result.stderr.startswith("Error: "), result.stderr
    assert len(result.stderr.splitlines()) == 1, result.stderr
    for word in words:
        assert word in result.stderr, result.stderr
    return result.stderr
