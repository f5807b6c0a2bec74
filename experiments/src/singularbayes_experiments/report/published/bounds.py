"""Tables of theory, which have no measured numbers."""

from singularbayes_experiments.report.published.number import PaperTable

TABLES = (
    PaperTable(
        "tab:related_work",
        "",
        "other low-rank posteriors: parameters of a matrix",
        remark="Formulas; the counts of our networks are a column of every experiment.",
        page="README.md, The pieces",
    ),
    PaperTable(
        "tab:loss_constants",
        "",
        "Lipschitz and smoothness constants of losses",
        remark="2B and 1 of the squared error are those of half of it.",
        page="docs/bounds.md, Loss approximation: what a low rank costs",
    ),
)
