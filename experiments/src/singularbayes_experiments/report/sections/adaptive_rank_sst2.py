"""A rank that is learned against a sweep of ranks, on SST-2."""

from dataclasses import replace

from singularbayes_experiments.problems.adaptive_rank_sst2 import RANKS
from singularbayes_experiments.report.sections import sst2
from singularbayes_experiments.report.sections.adaptive_rank import VALIDATED, finding

SECTION = replace(
    sst2.SECTION,
    experiment="adaptive_rank_sst2",
    title="Ranks on SST-2, and a learned one",
    description="The network of SST-2 on a reduced budget, 8 epochs and 50 draws; only the ranks differ, one for all "
    "weights. One run learns which each needs, with the best of five configurations of its own; the others have the "
    "settings of rank 16.",
    tables=(VALIDATED, *sst2.SECTION.tables),
    finding=finding,
    notes=(),
    ranks={f"low_rank_{rank}": rank for rank in RANKS},
    rank_note="One rank for all weights.",
    in_paper=False,
)
