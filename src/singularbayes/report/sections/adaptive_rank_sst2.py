"""A rank that is learned against a sweep of ranks, on SST-2."""

from dataclasses import replace

from singularbayes.report.sections import sst2
from singularbayes.report.sections.adaptive_rank import VALIDATED, finding

SECTION = replace(
    sst2.SECTION,
    experiment="adaptive_rank_sst2",
    title="A learned rank on SST-2",
    says="The network of SST-2 at the budget of its rank ablation; only the ranks differ. One run learns which it "
    "needs. Not an experiment of the paper.",
    tables=(VALIDATED, *sst2.SECTION.tables),
    finding=finding,
    notes=(),
    in_paper=False,
)
