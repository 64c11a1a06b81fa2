"""The pictures of the documentation were drawn from the plans that are made now."""

import json

import figures


def test_pictures_are_current():
    now, known = figures.inputs(), json.loads(figures.RECORD.read_text(encoding="utf-8"))
    assert set(known) == set(now)
    stale = sorted(name for name in now if now[name] != known[name])
    assert not stale, f"other plans are made now: python benchmarks/figures.py --only {' '.join(stale)}"
    assert all((figures.IMAGES / f"{name}.svg").exists() for name in known)
