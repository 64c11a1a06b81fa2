"""Which of many cases that are alike every test run takes; `make test-all` takes the others too."""

import pytest


def one_in(every, cases):
    """One in so many of the cases, the first among them; the others are marked heavy."""
    return [
        case
        if i % every == 0
        else pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.heavy)
        for i, case in enumerate(cases)
    ]
