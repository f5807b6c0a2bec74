"""A small convolutional network on Fashion-MNIST."""

from singularbayes_experiments.report.sections.image_columns import section

SECTION = section(
    "cnn",
    "A small CNN on Fashion-MNIST",
    "Two 3 × 3 convolutions with pooling, a hidden layer and the logits; the filters have the same posteriors as the "
    "dense weights. Out-of-distribution images are MNIST and notMNIST. Not an experiment of the paper.",
    ("mnist", "notmnist"),
    notes=(
        "The earlier runs have no ensembles, hence the dashes in the table of paired differences. Every method has "
        "four configurations, tried with one seed; all but the first were written down after runs of the first, whose "
        "test scores had been seen; those runs were not kept.",
    ),
    in_paper=False,
)
