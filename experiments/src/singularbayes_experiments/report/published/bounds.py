"""Tables of theory, which have no measured numbers."""

from singularbayes_experiments.report.published.number import PaperTable

TABLES = (
    PaperTable(
        "tab:related_work",
        "",
        "other low-rank posteriors: parameters of a matrix",
        remark="Formulas. The parameters of our networks are a column of the tables of every experiment.",
        page="docs/low_rank.md, Low-rank posteriors",
    ),
    PaperTable(
        "tab:loss_constants",
        "",
        "Lipschitz and smoothness constants of losses",
        remark="The 2B and 1 that it prints for the squared error are the constants of half the squared error.",
        page="docs/bounds.md, Loss approximation: what a low rank costs",
    ),
)
