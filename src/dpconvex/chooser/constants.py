"""Constants of the prediction, made by `benchmarks/prediction.py --write`: not to be edited by hand."""

# For each task and algorithm a and b of log(excess) = a + b log r.
EXCESS: dict[str, dict[str, tuple[float, float]]] = {
    "margin": {
        "NoisyGD": (-1.160, 0.632),
        "NoisySGD": (-1.222, 0.612),
        "ObjectivePerturbation": (-1.396, 0.829),
        "OnlineToBatch": (-1.593, 0.461),
        "PhasedERM": (-1.030, 0.627),
        "PhasedSGD": (-1.042, 0.526),
        "PoissonSGD": (-1.579, 0.440),
        "SnowballSGD": (-1.014, 0.563),
    },
    "classes": {
        "NoisyGD": (-0.164, 0.632),
        "ObjectivePerturbation": (1.191, 0.829),
        "PoissonSGD": (0.844, 0.440),
    },
    "squares": {
        "NoisyGD": (-1.713, 1.159),
        "NoisySGD": (-3.580, 0.612),
        "ObjectivePerturbation": (-3.471, 0.829),
        "OnlineToBatch": (-1.923, 0.461),
        "PhasedERM": (-3.152, 0.627),
        "PhasedSGD": (-3.440, 0.526),
        "PoissonSGD": (-3.780, 0.440),
        "SnowballSGD": (-3.235, 0.563),
        "SufficientStatistics": (-2.348, 0.756),
    },
    "hinge": {
        "OnlineToBatch": (0.651, 0.461),
        "PhasedERM": (-0.808, 0.627),
        "PoissonSGD": (-0.450, 0.440),
    },
    "absolute": {
        "OnlineToBatch": (1.309, 0.461),
        "PhasedERM": (-0.960, 0.627),
        "PoissonSGD": (-1.922, 0.446),
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
BAND = 1.46  # half of the width of the band, in log excess
