"""The numbers that the paper prints, table by table, and which of them cannot be right.

They are here as they are printed: 98.15% is 0.9815, 22.4k is 22,400, .895±.004 is a mean and a standard deviation over
seeds, – is no number. Methods and measures are called as records call them.
"""

import re
from dataclasses import dataclass, field
from decimal import Decimal

_SUFFIXES = {"%": Decimal("0.01"), "k": Decimal(1000), "K": Decimal(1000), "M": Decimal(1_000_000)}
_NUMBER = re.compile(r"([\d,]*\.?\d+)([%kKM]?)")


@dataclass(frozen=True)
class Number:
    """A number of the paper.

    Args:
        printed: as it stands there, without the deviation.
        deviation: over seeds, where it is printed.
        table: the label of its table in the paper's source.
        wrong: why it cannot be right; empty where nothing is known against it.
    """

    printed: str
    deviation: float | None
    table: str
    wrong: str = ""

    @property
    def value(self) -> float:
        """The number in the unit of records.

        >>> Number("98.15%", None, "").value, Number("4,788,010", None, "").value
        (0.9815, 4788010.0)
        """
        digits, unit = self._parts()
        return float(digits * unit)

    @property
    def rounding(self) -> float:
        """How far the unrounded number may be from the printed one: half a unit of its last place.

        >>> Number("22.4k", None, "").rounding
        50.0
        """
        digits, unit = self._parts()
        return float(unit.scaleb(int(digits.as_tuple().exponent)) / 2)

    def _parts(self) -> tuple[Decimal, Decimal]:
        match = _NUMBER.fullmatch(self.printed)
        if match is None:
            raise ValueError(f"A number of the paper needs digits, such as 98.15% or 22.4k; got {self.printed!r}.")
        return Decimal(match[1].replace(",", "")), _SUFFIXES.get(match[2], Decimal(1))


@dataclass(frozen=True)
class PaperTable:
    """A table of the paper: measures, and a line a method.

    Args:
        wrong: why numbers cannot be right, by measure, or by (method, measure).
    """

    label: str
    experiment: str
    measures: str
    lines: str
    wrong: dict[str | tuple[str, str], str] = field(default_factory=dict)

    def numbers(self) -> dict[tuple[str, str], Number]:
        """Returns every number by method and measure."""
        names, found = self.measures.split(), {}
        for line in self.lines.strip().splitlines():
            method, *printed = line.split()
            for name, text in zip(names, printed, strict=True):
                if text != "–":
                    mean, _, deviation = text.partition("±")
                    wrong = self.wrong.get((method, name), self.wrong.get(name, ""))
                    spread = float(deviation) if deviation else None
                    found[method, name] = Number(mean, spread, self.label, wrong)
        return found


def numbers(experiment: str) -> dict[tuple[str, str], Number]:
    """Returns what the paper prints of an experiment, by method and measure; nothing where it has no such experiment.

    >>> numbers("mnist")["low_rank", "nll"].value
    0.0924
    """
    found: dict[tuple[str, str], Number] = {}
    for table in TABLES:
        if table.experiment == experiment:
            found = table.numbers() | found  # the first table counts
    return found


_CLASS_MEANS = (
    "The paper defines the Brier score as a sum over classes, which is at least half the error rate: 0.0093, 0.0134, "
    "0.0140 and 0.0090 here. The printed scores are below that; they look like means over the ten classes."
)
_LSTM_SIZES = (
    "The network as described has 53,569 (deterministic), 107,138 (full-rank), 56,161 (rank-one) and 267,845 "
    "(ensemble) parameters. The printed sizes are multiples of 33,024, one LSTM layer from 64 to 64 units."
)
_NO_RATIO = "A deterministic network has no mutual information: the ratio is 0/0."
_CHANCE = "Scores that are all alike have the share of foreign examples as their AUPR, here 0.762."
_SHARE = (
    "Scores that are all alike have the share of known examples as their AUPR, here 0.103, as another table has it."
)

TABLES = (
    PaperTable(
        "the toy regression's table of RMSE, which has no label",
        "toy",
        "rmse_test",
        """
        full_rank  0.49528
        low_rank   0.50296
        """,
    ),
    PaperTable(
        "tab:toy_iqr",
        "toy",
        "iqr_published_inside iqr_published_outside iqr_published_ratio num_trained",
        """
        full_rank  0.0254 0.0483 1.90 20,802
        low_rank   0.0467 0.0940 2.01 7,202
        """,
    ),
    PaperTable(
        "tab:param_counts_mnist",
        "mnist",
        "num_trained",
        """
        full_rank         4,788,010
        low_rank          245,810
        low_rank_laplace  245,810
        rank_one          2,406,398
        """,
    ),
    PaperTable(
        "tab:results_mnist",
        "mnist",
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
        "ece_equal_mass_15 ece_equal_width_15 ece_equal_mass_10 ece_equal_width_30",
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
        "ece_equal_mass_15 ece_equal_width_15 ece_equal_mass_10 ece_equal_width_30",
        """
        low_rank          0.0114 0.0120 0.0113 0.0139
        low_rank_laplace  0.0135 0.0135 0.0130 0.0143
        full_rank         0.0262 0.0252 0.0243 0.0291
        rank_one          0.0794 0.0795 0.0794 0.0796
        """,
    ),
    PaperTable(
        "tab:mimic",
        "mimic3",
        "auroc aupr_err_mi auroc_ood_mi aupr_ood_mi aupr_in_mi nll num_trained",
        """
        deterministic  .922±.003 .145±.035 .500±.000 .544±.000 .456±.000 .284±.017 22.4k
        deep_ensemble  .929±.002 .237±.035 .738±.061 .754±.048 .721±.053 .300±.021 112k
        full_rank      .895±.004 .412±.029 .770±.051 .759±.055 .807±.035 .401±.033 44.8k
        low_rank       .895±.001 .540±.027 .802±.018 .788±.034 .824±.013 .433±.020 13.6k
        low_rank_svd   .898±.001 .486±.155 .713±.069 .719±.046 .738±.074 .452±.035 13.6k
        rank_one       .901±.010 .322±.019 .705±.073 .742±.062 .663±.080 .317±.024 23.3k
        """,
    ),
    PaperTable(
        "tab:mimic_time",
        "mimic3",
        "train_seconds",
        """
        deterministic  52.5
        deep_ensemble  221.1
        full_rank      502.4
        rank_one       503.2
        low_rank_svd   524.0
        low_rank       532.2
        """,
    ),
    PaperTable(
        "tab:swag_mimic",
        "mimic3",
        "auroc nll ece auroc_ood_mi mi_ratio num_stored",
        "swag 0.922±0.001 0.359±0.002 0.190±0.001 0.634±0.047 1.601±0.214 470.42K",
    ),
    PaperTable(
        "tab:lstm_results",
        "beijing",
        "mae calibration_error_epistemic picp_95_epistemic auroc_ood_epistemic aupr_ood_epistemic num_trained",
        """
        deterministic  10.79±0.16 – – 0.500 0.500 33K
        full_rank      10.55±0.11 0.111±0.007 0.788±0.012 0.492±0.039 0.743±0.019 132K
        low_rank       10.63±0.20 0.114±0.005 0.790±0.006 0.710±0.021 0.861±0.022 47K
        low_rank_svd   10.70±0.03 0.139±0.022 0.773±0.022 0.687±0.068 0.812±0.026 47K
        rank_one       10.80±0.15 0.307±0.015 0.449±0.025 0.580±0.046 0.751±0.028 66K
        deep_ensemble  10.45±0.03 0.317±0.012 0.310±0.021 0.730±0.029 0.883±0.012 330K
        """,
        wrong={
            ("deterministic", "aupr_ood_epistemic"): _CHANCE,
            **{(m, "num_trained"): _LSTM_SIZES for m in ("deterministic", "full_rank", "rank_one", "deep_ensemble")},
        },
    ),
    PaperTable(
        "tab:swag_beijing",
        "beijing",
        "mae rmse nll_total calibration_error_total picp_95_total mpiw_95_total auroc_ood_epistemic aupr_ood_epistemic "
        "num_stored",
        "swag 10.542±0.057 17.313±0.044 4.323±0.003 0.216±0.001 0.973±0.001 87.01±0.44 0.585±0.054 0.783±0.026 1.18M",
    ),
    PaperTable(
        "tab:calibration_auc",
        "beijing",
        "calibration_area_epistemic",
        """
        full_rank      0.110
        low_rank       0.104
        low_rank_svd   0.126
        rank_one       0.302
        deep_ensemble  0.307
        """,
    ),
    PaperTable(
        "tab:selective_pred_lstm",
        "beijing",
        "mae risk_at_90_epistemic risk_at_80_epistemic",
        """
        full_rank      10.55 9.46 8.82
        low_rank       10.63 9.43 8.71
        low_rank_svd   10.70 9.50 9.06
        rank_one       10.80 9.45 9.42
        deep_ensemble  10.45 9.45 9.21
        """,
    ),
    PaperTable(
        "tab:sst2",
        "sst2",
        "accuracy nll auroc_ood_mi mi_ratio aupr_in_mi aupr_succ_mi num_trained",
        """
        deterministic  .812±.006 .490±.003 .500±.000 .000±.000 .102±.000 .812±.006 9.9M
        deep_ensemble  .825±.006 .434±.023 .657±.009 1.55±0.05 .267±.016 .933±.003 49.6M
        full_rank      .752±.011 .552±.010 .622±.019 1.31±0.07 .222±.028 .888±.006 19.8M
        low_rank       .806±.003 .527±.006 .640±.028 1.35±0.10 .302±.027 .917±.005 1.5M
        low_rank_svd   .800±.005 .516±.002 .616±.011 1.22±0.10 .272±.012 .923±.003 1.5M
        rank_one       .795±.013 .507±.005 .613±.015 1.11±0.09 .271±.027 .931±.004 10.0M
        """,
        wrong={("deterministic", "mi_ratio"): _NO_RATIO, ("deterministic", "aupr_in_mi"): _SHARE},
    ),
    PaperTable(
        "tab:sst2_lowrank_ensemble",
        "sst2",
        "accuracy auroc_ood_mi ece nll",
        """
        low_rank_ensemble  0.814 0.731 0.054 0.415
        swag               0.808±0.010 0.613±0.023 0.111±0.008 0.556±0.022
        """,
    ),
    PaperTable(
        "tab:ood_std_vs_mi",
        "sst2",
        "auroc_ood_mi auroc_ood_std aupr_ood_mi aupr_ood_std aupr_in_mi aupr_in_std",
        """
        deterministic  .500 .500 .897 .897 .103 .103
        deep_ensemble  .658 .663 .930 .932 .267 .282
        full_rank      .622 .623 .921 .921 .222 .223
        low_rank       .641 .642 .919 .920 .302 .303
        low_rank_svd   .616 .619 .903 .904 .273 .274
        rank_one       .613 .615 .904 .905 .273 .273
        """,
    ),
    PaperTable("tab:swag_sst2", "sst2", "mi_ratio num_stored", "swag 1.240±0.072 208.37M"),
)
