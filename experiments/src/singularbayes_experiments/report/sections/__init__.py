"""One file per experiment: what its tables and figures are. An experiment without one gets a plain table."""

from collections.abc import Sequence

from singularbayes_experiments.records.record import Record
from singularbayes_experiments.report.names import NAMES, measure
from singularbayes_experiments.report.rows import words
from singularbayes_experiments.report.section import PARAMETERS, TRAINING, Columns, Section
from singularbayes_experiments.report.sections import (
    adaptive_rank,
    adaptive_rank_sst2,
    beijing,
    cnn,
    fashion_mnist,
    icu,
    kl_study,
    mimic3,
    mnist,
    sst2,
    toy,
    uci,
)

# In the order of the page.
_PAPERS = (toy, mnist, fashion_mnist, beijing, sst2, icu, mimic3)
_MODULES = (*_PAPERS, cnn, kl_study, adaptive_rank, adaptive_rank_sst2, uci)
SECTIONS = {module.SECTION.experiment: module.SECTION for module in _MODULES}


def section_of(experiment: str, records: Sequence[Record]) -> Section:
    """Returns the description of an experiment; of one that has none, a table of all its metrics."""
    if experiment in SECTIONS:
        return SECTIONS[experiment]
    names = dict.fromkeys(name for record in records for name in record.metrics)
    measures = (PARAMETERS, *map(measure, names), TRAINING)
    description = (
        "There is no description of this experiment here, so all its metrics are shown as they are in the records."
    )
    columns = Columns("All metrics", measures, note="Which way is better is shown where the library knows the measure.")
    return Section(experiment, words(experiment).capitalize(), description, (columns,), NAMES, spectra=False)
