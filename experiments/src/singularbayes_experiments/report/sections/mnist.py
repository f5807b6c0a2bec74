"""MNIST with the paper's fully connected network."""

from singularbayes_experiments.report.sections.image_columns import section

NOTES = (
    "The paper has one seed and does not state the initialisation; here means are variance-matched (He), and scales "
    "0.1 times that. Ensembles, SWAG, SVD initialisation, the rank sweep and the out-of-distribution images are ours.",
    "Four of the eight configurations of every method were written down after the first four had been run, with "
    "their test scores and those of the paper's settings known. Ranks 10 and 50 have the settings of rank 25.",
)
SECTION = section(
    "mnist",
    "MNIST",
    "A 784-1200-1200-10 ReLU network; 50,000 images train, 10,000 validate, 10,000 test. Out-of-distribution images "
    "are Fashion-MNIST and notMNIST.",
    ("fashion_mnist", "notmnist"),
    notes=NOTES,
)
