"""A rank that is learned against a sweep of ranks, on SST-2."""

from dataclasses import replace

from singularbayes_experiments.problems.adaptive_rank_sst2 import RANKS
from singularbayes_experiments.report.sections import sst2
from singularbayes_experiments.report.sections.adaptive_rank import VALIDATED, finding

SECTION = replace(
    sst2.SECTION,
    experiment="adaptive_rank_sst2",
    title="A learned rank on SST-2",
    description="The Transformer of the SST-2 page on a reduced budget of 8 epochs and 50 draws, at several fixed "
    "ranks, the same for all weights, with the settings of rank 16. One more method learns the rank of every weight; "
    "it has the best of five configurations of its own. Not an experiment of the paper.",
    tables=(VALIDATED, *sst2.SECTION.tables),
    finding=finding,
    notes=(),
    ranks={f"low_rank_{rank}": rank for rank in RANKS},
    rank_note="One rank for all weights.",
    in_paper=False,
)
