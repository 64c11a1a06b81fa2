"""Constants of the prediction, made by `benchmarks/prediction.py --write`: not to be edited by hand."""

# For each task and algorithm a and b of log(excess) = a + b log r.
EXCESS: dict[str, dict[str, tuple[float, float]]] = {
    "margin": {
        "MirrorDescent": (-1.253, 0.235),
        "NoisyGD": (-1.773, 0.690),
        "NoisySGD": (-1.209, 0.615),
        "ObjectivePerturbation": (-1.404, 0.827),
        "OnlineToBatch": (-1.578, 0.459),
        "PhasedERM": (-1.033, 0.627),
        "PhasedSGD": (-1.033, 0.533),
        "PoissonSGD": (-1.572, 0.441),
        "SnowballSGD": (-1.002, 0.564),
    },
    "classes": {
        "NoisyGD": (0.079, 0.827),
        "ObjectivePerturbation": (1.189, 0.827),
        "PoissonSGD": (0.842, 0.441),
    },
    "squares": {
        "MirrorDescent": (-2.957, 0.235),
        "NoisyGD": (-1.621, 1.182),
        "NoisySGD": (-3.544, 0.615),
        "ObjectivePerturbation": (-3.513, 0.827),
        "OnlineToBatch": (-1.756, 0.459),
        "PhasedERM": (-3.140, 0.627),
        "PhasedSGD": (-3.413, 0.533),
        "PoissonSGD": (-3.754, 0.441),
        "SnowballSGD": (-3.201, 0.564),
        "SufficientStatistics": (-2.336, 0.757),
    },
    "hinge": {
        "OnlineToBatch": (0.630, 0.459),
        "PhasedERM": (-0.820, 0.627),
        "PoissonSGD": (-0.446, 0.441),
    },
    "absolute": {
        "OnlineToBatch": (1.323, 0.459),
        "PhasedERM": (-0.950, 0.627),
        "PoissonSGD": (-1.901, 0.448),
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
BAND = 1.49  # half of the width of the band, in log excess
