"""Constants of the prediction, made by `benchmarks/prediction.py --write`: not to be edited by hand."""

# For each task and algorithm a and b of log(excess) = a + b log r.
EXCESS: dict[str, dict[str, tuple[float, float]]] = {
    "margin": {
        "NoisyGD": (-1.782, 0.458),
        "NoisySGD": (-1.681, 0.410),
        "ObjectivePerturbation": (-1.622, 0.720),
        "PhasedERM": (-1.258, 0.528),
        "PhasedSGD": (-1.340, 0.433),
        "PoissonSGD": (-1.242, 0.536),
        "SnowballSGD": (-1.140, 0.518),
    },
    "classes": {
        "NoisyGD": (-0.351, 0.489),
        "ObjectivePerturbation": (0.465, 0.273),
        "PoissonSGD": (0.430, 0.123),
    },
    "squares": {
        "NoisyGD": (-1.912, 1.054),
        "NoisySGD": (-4.165, 0.437),
        "ObjectivePerturbation": (-3.514, 0.755),
        "PhasedERM": (-3.106, 0.578),
        "PhasedSGD": (-3.331, 0.534),
        "PoissonSGD": (-3.860, 0.407),
        "SnowballSGD": (-3.720, 0.417),
        "SufficientStatistics": (-2.615, 0.669),
    },
    "hinge": {
        "PhasedERM": (-0.598, 0.568),
        "PoissonSGD": (-0.749, 0.345),
    },
    "absolute": {
        "PhasedERM": (-2.538, 0.438),
        "PoissonSGD": (-3.568, 0.174),
    },
}
# What weights of zero lose, per record.
TYPICAL = {
    "margin": 0.354,
    "classes": 2.289,
    "squares": 0.093,
    "hinge": 0.760,
    "absolute": 0.226,
}
BAND = 1.38  # half of the width of the band, in log excess
