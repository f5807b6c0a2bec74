"""Toy regression."""

from singularbayes_experiments.report.published.number import PaperTable

TABLES = (
    PaperTable(
        "the table of the toy regression's RMSE (no label)",
        "toy",
        "RMSE of two networks",
        "rmse_test_single rmse_test",
        """
        full_rank  0.49623 0.49528
        low_rank   0.50732 0.50296
        """,
        remark="The RMSE of a single draw is not measured here.",
    ),
    PaperTable(
        "tab:toy_iqr",
        "toy",
        "width of the band inside and outside",
        "iqr_published_inside iqr_published_outside iqr_published_ratio num_trained",
        """
        full_rank  0.0254 0.0483 1.90 20,802
        low_rank   0.0467 0.0940 2.01 7,202
        """,
        remark="Its two regions overlap, and both hold training data.",
    ),
)
