"""Fashion-MNIST with the network of MNIST; the paper changes nothing else, nor do we (`images.py`).

Its numbers: low-rank Gaussian 88.69 %, NLL 0.3186, ECE 0.0114, MI 0.0354; Laplace 87.70 %, 0.3421, 0.0135, 0.0404;
full-rank 89.21 %, 0.3583, 0.0262, 0.0317; rank-one 89.07 %, 0.6928, 0.0794, 0.0038.
"""

from singularbayes_experiments.methods.experiment import Experiment
from singularbayes_experiments.problems import images
from singularbayes_experiments.problems.image_configurations import CONFIGURATIONS
from singularbayes_experiments.problems.images import PAPER_METHODS, QUICK, ImageSettings

# The configuration of every method with the least validation NLL: experiments/results/fashion_mnist_trials.jsonl.
CHOICE = {
    "low_rank": "beta 0.3, rate 0.001",
    "low_rank_svd": "beta 0.3, rate 0.001, batch size 64",
    "low_rank_laplace": "beta 0.3, rate 0.001",
    "full_rank": "beta 0.3, rate 0.0003",
    "rank_one": "printed form, beta 1, 10 epochs",
    "deterministic": "7 epochs",
    "deep_ensemble": "10 epochs",
    "low_rank_ensemble": "beta 0.1, rate 0.001",
    "swag": "5 epochs, then 20 of SGD 0.01",
}
TUNED = CONFIGURATIONS.tuned(CHOICE)

EXPERIMENT = Experiment(
    summary="Fashion-MNIST with the network of MNIST.",
    problem=images.ImageProblem("fashion_mnist", "fashion_mnist", ood=("mnist", "notmnist")),
    presets={"paper": ImageSettings(), "chosen": TUNED, "quick": QUICK},
    paper_methods=PAPER_METHODS,
    configurations=CONFIGURATIONS,
    choice=CHOICE,
)
