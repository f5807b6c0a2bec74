"""A small convolutional network on Fashion-MNIST."""

from singularbayes_experiments.report.sections.image_columns import section

SECTION = section(
    "cnn",
    "A small CNN on Fashion-MNIST",
    "Two 3 × 3 convolutions with pooling, a hidden layer and the logits, the same posteriors on filters. Not an "
    "experiment of the paper. Four configurations per method, tried with one seed; all but the first were written "
    "down after runs of the first whose test scores were seen; those runs were not kept. Out-of-distribution images "
    "are MNIST and notMNIST.",
    ("mnist", "notmnist"),
    in_paper=False,
)
