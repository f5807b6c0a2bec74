"""Headline numbers of the records: golden.csv was written from the files of lines, before they became Parquet."""

import math
from collections.abc import Mapping

import pandas as pd
import pytest
from singularbayes_experiments import protocol
from singularbayes_experiments.records import RESULTS, connect
from singularbayes_experiments.report import studies, tables
from singularbayes_experiments.report.results import Numbers

GOLDEN = pd.read_csv(RESULTS / "golden.csv", keep_default_na=False)


@pytest.fixture(scope="module")
def numbers() -> Numbers:
    return Numbers(connect())


def shown(value: float | str, row: Mapping[str, str]) -> str:
    """Returns a value with the digits that the golden number has."""
    decimals = len(row["printed"].partition(".")[2])
    if isinstance(value, str):
        return value
    if row["quantity"] == "cost":
        return f"{value:.2g}"
    if row["page"] == "certificates" and row["metric"].endswith(("certificate", "hold-out")):
        return tables.rounded_up(value)
    is_signed = row["quantity"] in ("difference", "low", "high")
    return tables.signed(value, decimals) if is_signed else tables.number(value, decimals)


def find(numbers: Numbers, row: Mapping[str, str]) -> float | str:
    """Returns a golden number by what pages call."""
    experiment, task, preset, method = (row[name] for name in ("experiment", "task", "preset", "method"))
    metric, quantity, rival = row["metric"], row["quantity"], row["rival"]
    key = (experiment, task, preset, method)
    if quantity == "count":
        return count(numbers, row)
    if experiment == "certificates":
        method, seed = method.rsplit(", seed ", 1)
        metric = "parameters" if quantity == "parameters" else metric
        return float(numbers.values(experiment, task, preset, method, metric)[int(seed)])
    if quantity == "choice":
        return numbers.chosen(*key)[0] if metric == "configuration" else numbers.diverged(experiment, task, method)
    if quantity == "parameters":
        return numbers.first(
            *key, "stored" if metric == "stored" and preset in ("paper", "chosen", "refit") else "parameters"
        )
    if quantity == "cost":
        return numbers.cost(*key)
    if metric.startswith("rank:"):
        return numbers.ranks(numbers.tables_of(task, preset), metric.removeprefix("rank:"), preset)[method]
    if rival and experiment == "tables":
        found = numbers.relative(task, method, rival, metric)
        return float(found.mean()) if quantity == "difference" else protocol.standard_error(found)
    if rival:
        found = numbers.paired(*key[:3], method, rival, metric)
        return {"difference": found.mean, "low": found.low, "high": found.high}[quantity]
    return {"mean": numbers.mean, "standard_error": numbers.error}[quantity](*key, metric)


def count(numbers: Numbers, row: Mapping[str, str]) -> int:
    experiment, task, method, metric = (row[name] for name in ("experiment", "task", "method", "metric"))
    score, _, side = metric.partition(":")
    if metric == "configurations":
        return numbers.configurations(experiment, task, method)
    if metric == "seeds":
        return len(numbers.values(experiment, task, row["preset"], method, "nll"))
    if experiment == "protocol":
        return len(numbers.sides(method, row["rival"], score, task)[side])
    if experiment == "adapters":
        pairs = [
            numbers.paired(experiment, each, "protocol", method, row["rival"], "nll") for each in studies.SETTING_NAMES
        ]
        return sum(pair.side() == side for pair in pairs)
    if score == "paper":
        return tables.against_paper(numbers, experiment, row["preset"])[side]
    return len(tables.statements(numbers)[metric])


@pytest.mark.parametrize("page", sorted(set(GOLDEN.page)))
def test_a_golden_number_comes_out_to_the_printed_digit(numbers, page):
    wrong = []
    for row in GOLDEN[GOLDEN.page == page].to_dict("records"):
        try:
            found = find(numbers, row)
        except (LookupError, ValueError) as error:
            wrong.append((row, repr(error)))
            continue
        same = row["value"] == "" or math.isclose(float(row["value"]), float(found), rel_tol=1e-9, abs_tol=1e-12)
        if not same or shown(found, row) != row["printed"]:
            wrong.append((row, found))
    assert not wrong, (len(wrong), wrong[:5])
