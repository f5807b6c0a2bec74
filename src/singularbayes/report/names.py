"""What readers call the methods, in the order of tables."""

NAMES = {
    "low_rank": "low-rank",
    "low_rank_svd": "low-rank from SVD",
    "low_rank_laplace": "low-rank Laplace",
    "low_rank_10": "low-rank, rank 10",
    "low_rank_50": "low-rank, rank 50",
    "full_rank": "full-rank",
    "rank_one": "rank-one",
    "deterministic": "deterministic",
    "mc_dropout": "MC dropout",
    "deep_ensemble": "deep ensemble",
    "low_rank_ensemble": "low-rank ensemble",
    "swag": "SWAG",
}
