"""Balanced accuracy on UCI Adult: of the usual threshold, of a moved one, and of class weights, which need a fit.

python benchmarks/thresholds.py [--draws 4]
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np

import dpconvex as dc

SHARE = 0.24  # of the second class, from general knowledge
RICH = ">50K"


def main() -> None:
    """Print means over fresh noise."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=4)
    draws = parser.parse_args().draws
    warnings.simplefilter("ignore", dc.errors.RepeatedReleaseWarning)
    frame, income, schema = dc.datasets.load("adult")
    test = dc.datasets.load("adult", split="test")
    rich = (test.target == RICH).to_numpy()
    weights = {RICH: 1.0, "<=50K": SHARE / (1.0 - SHARE)}

    def fit(epsilon: float, class_weight: dict[str, float] | None) -> np.ndarray:
        model = dc.PrivateLogisticRegression(epsilon, schema=schema, class_weight=class_weight)
        return model.fit(frame, income).predict_proba(test.frame)[:, 1]

    def balanced(above: np.ndarray) -> float:
        return float(above[rich].mean() + (~above[~rich]).mean()) / 2.0

    print(f"balanced accuracy, means of {draws} fits")
    for epsilon in (0.2, 1.0, 4.0):
        plain = [fit(epsilon, None) for _ in range(draws)]
        weighted = [fit(epsilon, weights) for _ in range(draws)]
        scores = (
            np.mean([balanced(p > 0.5) for p in plain]),
            np.mean([balanced(p > SHARE) for p in plain]),
            np.mean([balanced(p > 0.5) for p in weighted]),
        )
        print(
            f"epsilon {epsilon:g}: above 0.5 {scores[0]:.3f}, above {SHARE:g} {scores[1]:.3f}, weighted {scores[2]:.3f}"
        )


if __name__ == "__main__":
    main()
