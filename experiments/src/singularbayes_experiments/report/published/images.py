"""MNIST and Fashion-MNIST."""

from singularbayes_experiments.report.published.number import PaperTable

_CLASS_MEANS = (
    "The paper defines the Brier score as a sum over classes, which is at least half the error rate: 0.0093, 0.0134, "
    "0.0140 and 0.0090 here. The printed scores are below that; they look like means over the ten classes."
)
_BINNINGS = "ece_equal_mass_15 ece_equal_width_15 ece_equal_mass_10 ece_equal_width_30"

TABLES = (
    PaperTable(
        "tab:param_counts_mnist",
        "mnist",
        "MNIST: parameters",
        "num_trained",
        """
        full_rank         4,788,010
        low_rank          245,810
        low_rank_laplace  245,810
        rank_one          2,406,398
        """,
        remark="Its compression factors, which are ratios of these numbers, are left out.",
    ),
    PaperTable(
        "tab:results_mnist",
        "mnist",
        "MNIST: four networks",
        "accuracy nll brier ece mean_mi",
        """
        full_rank         98.15% 0.0795 0.0048 0.0082 0.1243
        low_rank          97.32% 0.0924 0.0059 0.0104 0.0956
        low_rank_laplace  97.21% 0.0607 0.0043 0.0117 0.0823
        rank_one          98.21% 0.1156 0.0071 0.0187 0.2104
        """,
        wrong={"brier": _CLASS_MEANS},
    ),
    PaperTable(
        "tab:ece_robustness",
        "mnist",
        "MNIST: ECE in four binnings",
        _BINNINGS,
        """
        full_rank         0.0082 0.0088 0.0075 0.0095
        low_rank          0.0104 0.0118 0.0096 0.0126
        low_rank_laplace  0.0117 0.0131 0.0108 0.0144
        rank_one          0.0187 0.0201 0.0172 0.0219
        """,
    ),
    PaperTable(
        "tab:results_fmnist",
        "fashion_mnist",
        "Fashion-MNIST: four networks",
        "accuracy nll brier ece mean_mi",
        """
        full_rank         89.21% 0.3583 0.1591 0.0262 0.0317
        low_rank          88.69% 0.3186 0.1623 0.0114 0.0354
        low_rank_laplace  87.70% 0.3421 0.1755 0.0135 0.0404
        rank_one          89.07% 0.6928 0.1846 0.0794 0.0038
        """,
    ),
    PaperTable(
        "tab:ece_robustness_fmnist",
        "fashion_mnist",
        "Fashion-MNIST: ECE in four binnings",
        _BINNINGS,
        """
        low_rank          0.0114 0.0120 0.0113 0.0139
        low_rank_laplace  0.0135 0.0135 0.0130 0.0143
        full_rank         0.0262 0.0252 0.0243 0.0291
        rank_one          0.0794 0.0795 0.0794 0.0796
        """,
    ),
)
