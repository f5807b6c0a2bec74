"""Fashion-MNIST with the network and the settings of MNIST."""

from singularbayes_experiments.report.sections.image_columns import section
from singularbayes_experiments.report.sections.mnist import NOTES

SECTION = section(
    "fashion_mnist",
    "Fashion-MNIST",
    "The network, the split and the settings of MNIST with pictures of clothes. Out-of-distribution images are MNIST "
    "and notMNIST.",
    ("mnist", "notmnist"),
    notes=NOTES,
)
