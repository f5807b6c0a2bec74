"""MIMIC-III."""

from singularbayes_experiments.report.published.number import PaperTable

_FIVE = "Five networks of 22,401 parameters have 112,005, as the table of results has it (112k)."

TABLES = (
    PaperTable(
        "tab:mimic",
        "mimic3",
        "MIMIC-III: six methods",
        "auroc aupr_err_mi auroc_ood_mi aupr_ood_mi aupr_in_mi nll num_trained",
        """
        deterministic  .922±.003 .145±.035 .500±.000 .544±.000 .456±.000 .284±.017 22.4k
        deep_ensemble  .929±.002 .237±.035 .738±.061 .754±.048 .721±.053 .300±.021 112k
        full_rank      .895±.004 .412±.029 .770±.051 .759±.055 .807±.035 .401±.033 44.8k
        low_rank       .895±.001 .540±.027 .802±.018 .788±.034 .824±.013 .433±.020 13.6k
        low_rank_svd   .898±.001 .486±.155 .713±.069 .719±.046 .738±.074 .452±.035 13.6k
        rank_one       .901±.010 .322±.019 .705±.073 .742±.062 .663±.080 .317±.024 23.3k
        """,
        remark="The data are not open; docs/intensive_care.md says how to get access and run it.",
    ),
    PaperTable(
        "tab:mimic_models",
        "mimic3",
        "MIMIC-III: parameters and initialisation",
        "num_trained",
        """
        deterministic  22.4K
        deep_ensemble  112.7K
        full_rank      44.8K
        low_rank       13.6K
        low_rank_svd   13.6K
        rank_one       23.3K
        """,
        wrong={("deep_ensemble", "num_trained"): _FIVE},
    ),
    PaperTable(
        "tab:mimic_time",
        "mimic3",
        "MIMIC-III: training times",
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
        "MIMIC-III: SWAG",
        "auroc nll ece auroc_ood_mi mi_ratio num_stored train_seconds",
        "swag 0.922±0.001 0.359±0.002 0.190±0.001 0.634±0.047 1.601±0.214 470.42K 104.9",
    ),
)
