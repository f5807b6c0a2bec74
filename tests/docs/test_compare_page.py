"""The comparison of compare.md: tables and radars are those of its record, and its script trains."""

import importlib.util
import json
import re
import sys
from dataclasses import asdict, replace
from pathlib import Path

import marks
import numpy as np
import pytest
from scipy import stats

import singularbayes as sb
from singularbayes.demo import noisy_digits
from singularbayes.evaluation import Evaluation, comparison_table

DOCS = Path(__file__).parents[2] / "docs"
RECORD = json.loads((DOCS / "compare.json").read_text(encoding="utf-8"))
RUNS = [Evaluation.from_json(json.dumps(run)) for run in RECORD["evaluations"]]


@pytest.fixture(scope="module")
def script():
    specification = importlib.util.spec_from_file_location("compare_page", DOCS / "scripts" / "compare.py")
    module = importlib.util.module_from_spec(specification)
    sys.modules["compare_page"] = module  # where dataclasses look their types up
    specification.loader.exec_module(module)
    return module


def test_the_tables_of_the_pages_are_those_of_the_record(script, tmp_path):
    for page in script.PAGES:
        copy = tmp_path / page.name
        copy.write_text(page.read_text(encoding="utf-8"), encoding="utf-8")
        tables = comparison_table.markdown(script.table_of(RUNS))
        marks.fill(copy, "compare.py", script.shown(page.name, tables))
        assert copy.read_text(encoding="utf-8") == page.read_text(encoding="utf-8")
        assert copy.read_text(encoding="utf-8").count("| low-rank 16 | ") == 1


def test_a_page_without_marks_is_refused(script, tmp_path):
    (tmp_path / "page.md").write_text("no marks")
    with pytest.raises(ValueError, match=r"page\.md needs <!-- compare\.py --> and <!-- end --> once; got 0"):
        marks.fill(tmp_path / "page.md", "compare.py", "")


def test_the_record_is_of_the_settings_and_holds_every_method_and_seed(script):
    settings = script.Settings()
    assert RECORD["settings"] == json.loads(json.dumps(asdict(settings)))
    methods = list(dict.fromkeys(run.method for run in RUNS))
    assert len(methods) == 9
    assert [(run.method, run.seed) for run in RUNS] == [(m, seed) for m in methods for seed in settings.seeds]
    assert {"keras", "jax", "numpy"} <= RECORD["versions"].keys() and RECORD["machine"]["cpu"]


def test_the_numbers_stored_are_those_of_the_shapes():
    stored = {run.method: run.num_stored for run in RUNS}
    shapes = [(64, 128), (128, 128), (128, 8)]
    biases, weights = sum(n for _, n in shapes), sum(m * n for m, n in shapes)
    point = weights + biases
    low_rank = sum(2 * min(16, n) * (m + n) for m, n in shapes) + biases
    assert stored == {
        "low-rank 16": low_rank,
        "full-rank": 2 * weights + biases,
        "rank-one": point + 2 * sum(m + n for m, n in shapes),
        "2-tied": point + 2 * sum(m + n for m, n in shapes),
        "deterministic": point,
        "MC dropout": point,
        "SWAG": (2 + 19) * point,
        "deep ensemble of 5": 5 * point,
        "low-rank ensemble of 5": 5 * low_rank,
    }


def test_what_the_page_counts_is_in_the_record():
    page = " ".join((DOCS / "compare.md").read_text(encoding="utf-8").split())
    data = noisy_digits.load(tuple(RECORD["settings"]["held_out"]), RECORD["settings"]["split"])
    train, test, ood = (len(part[1]) for part in (data.train, data.test, data.ood))
    assert f"{train} images to train, {test} to test, and the {ood} images of 8 and 9" in page
    accuracy = np.mean([run.metrics["accuracy"] for run in RUNS])
    error = np.sqrt(accuracy * (1 - accuracy) / test)
    assert f"the accuracy of {test} images has a standard error of about {error:.3f} from the images" in page
    intervals = page.split("<!-- compare.py -->")[1].split("<!-- end -->")[0].count(" [")
    assert intervals == 47 and "Forty-seven intervals at 95 % are shown" in page


def test_what_the_page_says_it_shows_is_in_the_record():
    scores = {}
    for run in RUNS:
        for name in ("accuracy", "nll", "ece_equal_mass_15", "auroc_ood_entropy", "auroc_ood_mi", "aupr_err_entropy"):
            found = [value for key, value in run.metrics.items() if key.split("/")[-1] == name]
            scores.setdefault(name, {}).setdefault(run.method, []).extend(found)
    means = {name: {method: np.mean(values) for method, values in own.items()} for name, own in scores.items()}
    nll, ece, accuracy = means["nll"], means["ece_equal_mass_15"], means["accuracy"]
    assert min(accuracy, key=accuracy.get) == "low-rank 16" and max(accuracy, key=accuracy.get) == "2-tied"
    first = scores["nll"]["low-rank 16"]
    for method, values in scores["nll"].items():
        difference = np.subtract(values, first)
        half = stats.t.ppf(0.975, len(first) - 1) * difference.std(ddof=1) / np.sqrt(len(first))
        assert (difference.mean() + half < 0) == (method not in ("low-rank 16", "deterministic", "SWAG"))
    assert set(sorted(nll, key=nll.get)[:2]) == {"2-tied", "MC dropout"}
    assert (min(ece, key=ece.get), max(ece, key=ece.get)) == ("low-rank ensemble of 5", "2-tied")
    for name in ("auroc_ood_entropy", "auroc_ood_mi"):
        assert max(means[name], key=lambda method: np.nan_to_num(means[name][method])) == "2-tied"
    ours, theirs = "low-rank ensemble of 5", "deep ensemble of 5"
    better = {
        name: (own[ours] - own[theirs]) * (-1 if name.startswith(("nll", "ece")) else 1) for name, own in means.items()
    }
    assert [name for name, gain in better.items() if gain < 0] == ["aupr_err_entropy"]
    stored = {run.method: run.num_stored for run in RUNS}
    assert stored[ours] / stored[theirs] == pytest.approx(2 / 3, abs=0.03)


def test_the_radars_are_drawn_from_the_record_inside_their_limits(script, tmp_path):
    script.draw(script.table_of(RUNS), tmp_path / "compare.png")
    assert (tmp_path / "compare.png").stat().st_size < 80_000
    assert (DOCS / "compare.png").stat().st_size < 80_000


def test_writing_leaves_a_record_that_gives_the_same_table(script, tmp_path):
    table = script.write(RUNS, script.Settings(), tmp_path, ())
    again = json.loads((tmp_path / "compare.json").read_text(encoding="utf-8"))
    assert script.table_of([Evaluation.from_json(json.dumps(run)) for run in again["evaluations"]]) == table


def test_noise_is_added_to_every_part_and_labels_stay():
    clean = noisy_digits.load((8, 9), 0)
    data = noisy_digits.add_noise(clean, 0.35, 0)
    for part in ("train", "validation", "test", "ood"):
        (x, y), (before, labels) = getattr(data, part), getattr(clean, part)
        assert x.dtype == np.float32 and (y == labels).all()
        assert abs((x - before).std() - 0.35) < 4 * 0.35 / np.sqrt(2 * x.size)


def test_the_script_trains_as_the_settings_say(script):
    settings = replace(script.QUICK, seeds=(7,), epochs=2, units=4)
    trainer = script.Trainer(noisy_digits.add_noise(noisy_digits.load((8, 9), 0), 0.35, 0), settings)
    network = trainer.build(lambda columns: sb.LowRank(min(6, columns), overcomplete=True), 2, dropout=0.5)()
    assert [layer.posterior.rank for layer in network.layers[::2]] == [4, 4, 6]
    assert [layer.rate for layer in network.layers[1::2]] == [0.5, 0.5]
    (model,) = trainer.seeds(lambda _: sb.Deterministic())
    assert int(model.optimizer.iterations) == 2 * -(-len(trainer.data.train[0]) // settings.batch_size)
    assert float(model.optimizer.learning_rate) == pytest.approx(0, abs=1e-8)  # the cosine has ended


def test_the_page_names_the_command_that_makes_it(script):
    page = (DOCS / "compare.md").read_text(encoding="utf-8")
    assert script.COMMAND in page and re.search(r"!\[[^]]{10,}\]\(compare\.png\)", page)
