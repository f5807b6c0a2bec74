"""What a step and a prediction of the SST-2 Transformer cost: ours are benchmarks, not records of experiments."""

from singularbayes_experiments.report.published.number import PaperTable

PAGE = "docs/performance.md, SST-2 on a GPU"

TABLES = (
    PaperTable(
        "tab:sst2_profile_main",
        "",
        "SST-2: profile of three methods",
        "num_trained peak_bytes epoch_seconds",
        """
        low_rank       1.47M 357.5MB 5.88s
        full_rank      19.84M 721.1MB 6.45s
        deep_ensemble  49.61M 670.1MB 18.99s
        """,
        remark="The ensemble's time is computed from one member's; its memory was not measured.",
        page=PAGE,
    ),
    PaperTable(
        "tab:sst2_profile_appendix",
        "",
        "SST-2: profile of four methods",
        "num_trained peak_bytes epoch_seconds",
        """
        deterministic  9.92M 505.4MB 4.18s
        low_rank       1.47M 357.5MB 5.88s
        full_rank      19.84M 721.1MB 6.45s
        deep_ensemble  49.61M 670.1MB 18.99s
        """,
        remark="The ensemble's time is computed from one member's; its memory was not measured.",
        page=PAGE,
    ),
    PaperTable(  # a line is the rank of the embedding and that of the matrices
        "tab:sst2_rank_sweep",
        "",
        "SST-2: profile of seven pairs of ranks",
        "num_trained peak_bytes epoch_seconds mc1_seconds mc20_seconds mc100_seconds",
        """
        4,8    0.50M 337.8MB 5.06s 0.214s 6.18s 30.65s
        8,12   0.86M 344.7MB 5.41s 0.221s 6.26s 31.39s
        10,16  1.10M 359.8MB 5.88s 0.228s 6.51s 31.75s
        12,24  1.46M 365.0MB 5.70s 0.225s 6.36s 32.18s
        16,32  1.94M 380.2MB 6.18s 0.229s 6.49s 32.95s
        24,48  2.90M 421.9MB 6.29s 0.232s 6.55s 32.65s
        32,64  3.86M 456.4MB 5.95s 0.239s 6.64s 33.52s
        """,
        page=PAGE,
    ),
)


def profile(label: str) -> dict[str, dict[str, float]]:
    """Returns a table of these, by line and measure.

    >>> profile("tab:sst2_rank_sweep")["4,8"]["mc100_seconds"]
    30.65
    """
    (table,) = (each for each in TABLES if each.label == label)
    found: dict[str, dict[str, float]] = {}
    for (line, measure), number in table.numbers().items():
        found.setdefault(line, {})[measure] = number.value
    return found
