"""Fashion-MNIST with the network and the settings of MNIST."""

from singularbayes_experiments.report.sections.image_columns import section
from singularbayes_experiments.report.sections.mnist import NOTES

SECTION = section(
    "fashion_mnist",
    "Fashion-MNIST",
    "Pictures of clothes, with the network and the split of the MNIST page. Out-of-distribution images are MNIST "
    "and notMNIST.",
    ("mnist", "notmnist"),
    notes=NOTES,
)
