"""MNIST with the paper's fully connected network.

See `images.py` for what the paper did and what is ours.

Its numbers (NOTES: the printed Brier scores are means over classes, not sums):
low-rank Gaussian 97.32 %, NLL 0.0924, ECE 0.0104, MI 0.0956; Laplace 97.21 %, 0.0607, 0.0117, 0.0823; full-rank
98.15 %, 0.0795, 0.0082, 0.1243; rank-one 98.21 %, 0.1156, 0.0187, 0.2104.
"""

from singularbayes_experiments.methods.experiment import Experiment
from singularbayes_experiments.problems import images
from singularbayes_experiments.problems.image_configurations import CONFIGURATIONS
from singularbayes_experiments.problems.images import PAPER_METHODS, QUICK, ImageSettings

# The configuration of every method with the least validation NLL: experiments/results/mnist_trials.jsonl.
CHOICE = {
    "low_rank": "beta 0.1, rate 0.003",
    "low_rank_svd": "beta 0.3, rate 0.001, batch size 64",
    "low_rank_laplace": "beta 0.1, rate 0.003",
    "full_rank": "beta 0.1, rate 0.0003",
    "rank_one": "printed form, beta 1",
    "deterministic": "3 epochs",
    "deep_ensemble": "5 epochs",
    "low_rank_ensemble": "beta 0.1, rate 0.003",
    "swag": "5 epochs, then 20 of SGD 0.003",
}
TUNED = CONFIGURATIONS.tuned(CHOICE)

EXPERIMENT = Experiment(
    summary="MNIST with the paper's fully connected network.",
    problem=images.ImageProblem("mnist", "mnist", ood=("fashion_mnist", "notmnist")),
    presets={"paper": ImageSettings(), "chosen": TUNED, "quick": QUICK},
    paper_methods=PAPER_METHODS,
    configurations=CONFIGURATIONS,
    choice=CHOICE,
)
