"""The experiment `finetune`: its plan, its batches, and the program against plain `fit`."""

import argparse
import contextlib
import dataclasses
import json
import os
import zlib
from pathlib import Path

import jax
import keras
import numpy as np
import pytest
from singularbayes_experiments.methods import protocol
from singularbayes_experiments.methods.adapter_program import AdapterProgram
from singularbayes_experiments.problems import finetune as plan
from singularbayes_experiments.problems import finetune_model
from singularbayes_experiments.problems.finetune import Adaptation, Setting, Trained
from singularbayes_experiments.problems.finetune_texts import Texts, batches
from singularbayes_experiments.report import finetune as report
from singularbayes_experiments.report import finetune_settings
from singularbayes_experiments.report.adapter_tables import averages, number
from singularbayes_experiments.runs import finetune_laplace, finetune_machine, finetune_stages
from singularbayes_experiments.runs.finetune_records import FinetuneRecords, begin

import singularbayes as sb

ROOT = Path(__file__).parents[2]
RECORDS = report.read(ROOT / "experiments" / "results" / "finetune")
CLASSES, LENGTH, ROWS = 3, 6, 24
WIDTH, INNER = (finetune_model.SIZES[name] for name in ("hidden_dim", "intermediate_dim"))
SCALARS = finetune_model.SIZES["num_layers"] * plan.RANK * (4 * 2 * WIDTH + 2 * (WIDTH + INNER))  # of both factors
EXACT = {"rtol": 2e-4, "atol": 2e-6}
EPSILON = 1e-5  # of Adam: with a tiny one, gradients that are rounding make whole steps


@pytest.mark.parametrize("data", plan.RATES)
def test_every_method_has_sixteen_configurations_and_other_seeds_for_results(data):
    own = {kind: {one.name: one for one in every} for kind, every in plan.configurations(data).items()}
    protocol.require_equal_tuning(own)
    assert {len(every) for every in own.values()} == {16}
    protocol.require_result_seeds(plan.TUNING_SEEDS, plan.RESULT_SEEDS)


def test_chunks_have_each_network_once_and_results_fit_one_chunk():
    tried = plan.configurations("sst2")
    chunks = plan.tuning(tried, finetune_machine.CHUNK)
    assert [len(chunk) for chunk in chunks] == [71, 71, 71, 71, 68]
    assert len({one for chunk in chunks for one in chunk}) == 352
    for chunk in chunks:  # a run is never cut
        assert all(Trained(one.adaptation, one.seed, 0) in chunk for one in chunk)
        assert all(Trained(one.adaptation, one.seed, plan.NETWORKS[one.adaptation.kind] - 1) in chunk for one in chunk)
    different = {method: tried[kind][i] for i, (method, (kind, _)) in enumerate(plan.METHODS.items())}
    different["lora_temperature"] = different["lora"]
    assert len(plan.results(different)) == 65 <= finetune_machine.CHUNK
    assert 2 * len(plan.DEFAULTS) == 66
    assert 2 * len(set(plan.SCALES)) == 2 * len(plan.SCALES) == 62


def test_a_full_setting_tries_three():
    first, second = plan.configurations("sst2")["bayes"][:2]
    rates = [first.learning_rate, second.learning_rate]
    assert [one.learning_rate / rates[0] for one in plan.around([first, first])] == [1, 0.5, 2]
    assert plan.around([first, second]) == (first, second, dataclasses.replace(second, learning_rate=rates[1] / 2))


def test_the_page_shows_what_the_records_have():
    page, guide = (
        (ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("finetuning_results.md", "finetuning.md")
    )
    assert report.filled(page, RECORDS) == page
    assert report.filled_guide(guide, RECORDS) == guide


def test_the_guide_recommends_what_was_run():
    guide = (ROOT / "docs" / "finetuning.md").read_text(encoding="utf-8")
    assert f"near = {finetune_settings.NEAR}" in guide
    table = finetune_settings.recommended_table(RECORDS).splitlines()[2:]
    for (words, code, _, method, one), row in zip(finetune_settings.RECOMMENDED, table, strict=True):
        beta = "()" if one.beta == plan.BETA else f"(beta={one.beta})"
        code = code.replace(finetune_settings.NEAR, "near")
        assert f"| {words} | `{code}` | `{beta}` | {one.learning_rate:g} | {one.dropout:g}" in guide
        wanted = [2, 3] if words.startswith("two") else [4, 5] if words.startswith("many") else [2, 4, 5]
        assert all(cell.strip() != "–" for cell in np.array(row.split("|"))[wanted])  # it was run where it is advised
        posterior = eval(code, {"sb": sb, "near": eval(finetune_settings.NEAR)})
        assert isinstance(posterior, sb.Mixture) == (method == "mixture")
        config = posterior.get_config()
        adapter = keras.saving.deserialize_keras_object(config["posterior"]) if "posterior" in config else posterior
        assert (adapter.rank, adapter.eta) == (plan.RANK, one.eta)
        assert (adapter.random_factors == "a") == (one.kind == "blob")
        width = adapter.prior.scale * (one.eta * plan.INITIAL if getattr(adapter.prior, "relative", False) else 1)
        assert width == pytest.approx(one.width, rel=1e-3)


def test_new_results_of_laplace_and_monteclora_change_what_the_page_says_of_them():
    known = [one for one in RECORDS if (one["setting"], one["method"]) != ("clinc150-10", "monteclora")]
    assert "CLINC150, 10 per intent" not in report.others_lines(known).split("MonteCLoRA")[1]
    tuned = {"stage": "tuning", "setting": "clinc150-10", "method": "monteclora", "kind": "monteclora"}
    result = {**tuned, "stage": "result", "configuration": "learning_rate 0.002, scale 0.01", "settings": {}}
    new = [{**tuned, "seed": seed, "validation": {"nll": 0.3 + seed / 100}} for seed in range(8)]
    new += [{**result, "seed": seed, "test": {"nll": 0.25, "accuracy": 0.9, "ece": 0.1}} for seed in range(5)]
    laplace = {
        "stage": "result",
        "setting": "sst2",
        "method": "laplace",
        "kind": "lora",
        "precisions": {"0.1": 1, "1": 2},
    }
    new += [
        {**laplace, "seed": seed, "configuration": f"prior precision {chosen}", "test": {"nll": 0.5}}
        for seed, chosen in enumerate(("0.1", "1", "0.1", "0.1"))
    ]
    old = [one for one in known if (one["setting"], one["method"]) != ("sst2", "laplace")]
    lines = report.others_lines([*old, *new]).splitlines()
    assert "- SST-2, all rows: 3 of its 4 seeds chose the least precision that was tried." in lines
    assert "- SST-2, all rows: 1 of its 4 seeds chose the greatest precision that was tried." in lines
    assert (
        "- CLINC150, 10 per intent: 8 of 8 tuning runs, validation NLL .300 to .370, chosen lr 0.002, scale 0.01, "
        "results of 5 seeds." in lines
    )
    assert "SST-2, all rows" in report.others_lines(old).splitlines()[0] and "SST-2, all rows" not in lines[0]


def test_the_ece_of_a_calibrated_predictor_is_that_of_its_sample():
    small, large = (report.calibrated_error(0.3, rows, repeats=40) for rows in (200, 20_000))
    assert 0.05 < small < 0.12 and small / large == pytest.approx(10, rel=0.2)  # as 1 / √rows
    # Where nothing is known, each of 15 bins of m rows has the mean |share − ½| = √(1 / (2 π m)).
    uninformed = report.calibrated_error(0.4999, 1500)
    assert uninformed == pytest.approx(np.sqrt(1 / (2 * np.pi * 100)), rel=0.05)


def test_what_the_page_says_in_words_is_so():
    mean, settings = averages, report.settings_of(RECORDS)
    guide = " ".join((ROOT / "docs" / "finetuning.md").read_text(encoding="utf-8").split())
    bayes, lora = (mean(RECORDS, "sst2-4000", "test", "accuracy")[who] for who in ("bayes", "lora"))
    assert f"accuracy is {lora - bayes:.3f} below LoRA's".replace("0.", ".") in guide
    found = mean(RECORDS, "clinc150", "ood", "auroc_entropy"), mean(RECORDS, "clinc150-10", "ood", "auroc_entropy")
    gains = [round(one["mixture"], 3) - round(one["lora_temperature"], 3) for one in found]
    assert np.allclose(gains, 0.001) and "the mixture gains .001 over LoRA with a temperature" in guide
    won = [min(own := mean(RECORDS, one, "test", "nll"), key=own.__getitem__) for one in settings]
    assert f"least NLL on {won.count('mixture')} of {len(settings)} settings" in guide
    against = {
        (one, who): report.difference(RECORDS, one, who, "lora_temperature")
        for one in settings
        for who in ("bayes", "mixture")
    }
    assert not any(cell.endswith("worse") for cell in against.values())
    first = [one for one in RECORDS if one["stage"] == "first result"]
    nll = {who: np.mean([one["test"]["nll"] for one in first if one["method"] == who]) for who in plan.METHODS}
    assert sorted(nll, key=nll.__getitem__)[:2] == ["mc_dropout", "mixture"]
    page = " ".join((ROOT / "docs" / "finetuning_results.md").read_text(encoding="utf-8").split())
    said = f"MC dropout had the least NLL, {number(nll['mc_dropout'])}, before the mixture's {number(nll['mixture'])},"
    assert said in page
    tempered = mean(RECORDS, "sst2", "tempered", "nll")
    said = f"the ensemble then has {number(tempered['lora_ensemble'])} and the mixture {number(tempered['mixture'])}."
    assert said in page
    ahead = {one: report.difference(RECORDS, one, "mixture", "lora_ensemble").split("]")[1].strip() for one in settings}
    assert {one for one, word in ahead.items() if word != "better"} == {"clinc150-10", "clinc150", "banking77-10"}
    assert [ahead[one] for one in ("clinc150-10", "clinc150", "banking77-10")] == ["worse", "", ""]
    assert "On the other four settings the mixture is ahead." in page
    for setting in settings:
        own, tempered, ece = (
            mean(RECORDS, setting, *what) for what in (("test", "nll"), ("tempered", "nll"), ("test", "ece"))
        )
        best = min(tempered, key=tempered.__getitem__)
        assert best == ("lora_ensemble" if setting == "sst2" else min(own, key=own.__getitem__))
        assert abs(ece["mixture"] - ece["lora_temperature"]) < 0.005
        by_entropy, by_mi = (mean(RECORDS, setting, "ood", f"auroc_{what}") for what in ("entropy", "mi"))
        assert all(by_entropy[who] > by_mi[who] for who in by_mi)
        if not setting.startswith("sst2"):
            assert report.difference(RECORDS, setting, "bayes", "blob").endswith("worse")
        assert own["lora_temperature"] - 0.001 < own["laplace"] < own["lora"]
        if setting in ("sst2-4000", "clinc150-10"):
            assert (own["monteclora"] > own["lora"]) == (setting == "sst2-4000")
        blob = next(one for one in RECORDS if report._of(one, setting, "blob"))["settings"]
        assert (blob["beta"], blob["dropout"]) == (1.0, 0.2)


def test_what_the_guide_says_of_random_factors_is_so():
    page = " ".join((ROOT / "docs" / "finetuning_results.md").read_text(encoding="utf-8").split())
    for setting in report.settings_of(RECORDS):
        nll = averages(RECORDS, setting, "test", "nll")
        assert (nll["blob"] < nll["bayes"]) == (not setting.startswith("sst2"))
        assert nll["mixture"] < min(nll["blob"], nll["bayes"])
        if not setting.startswith("sst2"):
            assert nll["blob"] == min(nll[who] for who in ("lora", "lora_temperature", "mc_dropout", "bayes", "blob"))
    found = {}
    for method in ("blob", "bayes"):
        own = [
            one for one in RECORDS if (one["stage"], one["setting"], one["method"]) == ("tuning", "clinc150-10", method)
        ]
        for dropout in {one["settings"]["dropout"] for one in own}:
            names = {one["configuration"] for one in own if one["settings"]["dropout"] == dropout}
            each = [
                np.mean([one["validation"]["nll"] for one in own if one["configuration"] == name]) for name in names
            ]
            found[method, dropout] = f"{min(each):.3f}".removeprefix("0")
    assert set(found) == {("blob", 0.0), ("blob", 0.2), ("bayes", 0.0), ("bayes", 0.1)}
    assert f"it has {found['blob', 0.2]} with that dropout and {found['blob', 0.0]} without" in page
    assert f"the adapter {found['bayes', 0.1]} with .1 and {found['bayes', 0.0]} without" in page


def test_the_greatest_rate_of_small_settings_is_too_much_for_an_adapter_on_full_ones():
    for setting in ("clinc150", "banking77"):
        tuned = [
            one for one in RECORDS if (one["stage"], one["setting"], one["method"]) == ("tuning", setting, "bayes")
        ]
        fast = [one["validation"]["accuracy"] for one in tuned if one["settings"]["learning_rate"] == 6e-3]
        assert len(fast) == 2 and max(fast) < 0.05


def test_laplace_has_every_seed_and_monteclora_the_configuration_that_its_tuning_chooses():
    seeds = {
        method: {
            (one["setting"], one["seed"]) for one in RECORDS if (one["stage"], one["method"]) == ("result", method)
        }
        for method in ("laplace", "monteclora")
    }
    laplace = {setting for setting, _ in seeds["laplace"]}
    assert laplace == set(report.settings_of(RECORDS))
    assert seeds["laplace"] == {(name, seed) for name in laplace for seed in plan.RESULT_SEEDS}
    assert seeds["monteclora"] == {(name, seed) for name in ("sst2-4000", "clinc150-10") for seed in plan.RESULT_SEEDS}
    for setting, seed in seeds["monteclora"]:
        own = [one for one in RECORDS if (one["setting"], one["method"]) == (setting, "monteclora")]
        nll = {}
        for one in own:
            if one["stage"] == "tuning":
                nll.setdefault(one["configuration"], []).append(one["validation"]["nll"])
        assert [len(each) for each in nll.values()] == [len(plan.TUNING_SEEDS)] * 4
        (result,) = [one for one in own if (one["stage"], one["seed"]) == ("result", seed)]
        assert result["configuration"] == min(nll, key=lambda name: np.mean(nll[name]))


def test_the_default_prior_has_the_scale_that_the_rule_chooses():
    found = finetune_settings.scales(RECORDS)
    assert finetune_settings.default_scale(RECORDS) == sb.Adapter(8).prior.scale == 3
    assert min(found[plan.scaled(12.0, dropout=rate)]["sst2-1000"] for rate in (0.0, 0.1)) > np.log(2)
    for c in (1.0, 2.0, 3.0, 4.0, 12.0):
        slow, fast = found[plan.scaled(c)], found[plan.scaled(c, 3e-3)]
        assert all(fast[setting] < slow[setting] for setting in slow)
        dropped = found[plan.scaled(c, dropout=0.1)]
        assert all(dropped[setting] < slow[setting] for setting in ("clinc150-10", "banking77-10"))
    wide, narrow = found[plan.scaled(1.0, eta=0.3, dropout=0.1)], found[plan.scaled(2.0, dropout=0.1)]
    np.testing.assert_allclose(list(wide.values()), list(narrow.values()), atol=0.01)
    starts = [SCALARS * (np.log(c) + 0.5 / c**2 - 0.5) for c in (3, 12)]
    page = " ".join((ROOT / "docs" / "finetuning_results.md").read_text(encoding="utf-8").split())
    assert f"{SCALARS:,} random scalars starts at {round(starts[0], -3):,.0f} nats, a third of before." in page
    assert starts[0] / starts[1] == pytest.approx(1 / 3, abs=0.01)
    assert f"an NLL above that of a coin, which is {number(np.log(2))}." in page
    for beta, c in ((0.0021, 4.0), (0.007, 2.0)):
        equal = found[plan.scaled(1.0, beta=beta)], found[plan.scaled(c)]
        np.testing.assert_allclose(*(list(each.values()) for each in equal), atol=0.021)


def test_what_the_page_says_of_adapters_that_nobody_tunes():
    rows = [row.strip("| ").split(" | ") for row in finetune_settings.defaults_table(RECORDS).splitlines()[2:]]
    nll = {tuple(row[:6]): [float(cell) for cell in row[6:]] for row in rows}
    assert len(nll) == 33
    plain = {key: values for key, values in nll.items() if key[5] == "plain"}
    assert min(plain, key=lambda key: plain[key][3])[::3] == ("100", "0.1")  # β / width² and η
    assert round(float(min(plain, key=lambda key: plain[key][0])[0])) == 100
    assert all(float(min(plain, key=lambda key, at=at: plain[key][at])[0]) <= 1 for at in (1, 2))
    for key, values in plain.items():
        ratio, beta, width, eta, rho_lr, _ = key
        if (eta, rho_lr) == ("0.1", "1"):
            wider = plain[ratio, beta, width, "0.3", "1", "plain"]
            assert float(ratio) > 12 or wider[0] < values[0] - 0.15
            assert float(ratio) > 1 or (wider[1] < values[1] and wider[2] < values[2])
            assert float(ratio) < 99 or (wider[1] > values[1] and wider[2] > values[2])


def test_how_long_networks_of_monteclora_took():
    found = [one for one in RECORDS if one["method"] == "monteclora"]
    minutes = sorted(one["seconds"] / 60 for one in found)
    first, last = [m for m in minutes if m > 7], [m for m in minutes if m <= 7]
    page = " ".join((ROOT / "docs" / "finetuning_results.md").read_text(encoding="utf-8").split())
    assert f"first networks took {min(first):.0f} to {max(first):.0f} minutes each" in page
    assert f"Its last networks took {min(last):.0f} to {max(last):.0f} minutes" in page


def test_no_level_of_the_adapter_is_best_on_all_settings_at_a_rate_that_learns():
    def level(one):
        return tuple(one["settings"][name] for name in ("beta", "eta", "dropout"))

    small = {setting.name for setting in plan.SMALL}
    tuned = [one for one in RECORDS if (one["stage"], one["method"]) == ("tuning", "bayes") and one["setting"] in small]
    loss: dict = {}  # by setting, level and learning rate
    for one in tuned:
        rates = loss.setdefault(one["setting"], {}).setdefault(level(one), {})
        rates[one["settings"]["learning_rate"]] = rates.get(one["settings"]["learning_rate"], 0) + (
            one["validation"]["nll"] / 2
        )
    levels = list(loss["sst2-1000"])
    free = np.array([[min(each[level].values()) for level in levels] for each in loss.values()])
    least = (free - free.min(axis=1, keepdims=True)).mean(axis=0)
    assert len(set(free.argmin(axis=1))) > 1 and levels[least.argmin()] == (0.01, 0.3, 0.1)
    for rate in (2e-4, 6e-4, 2e-3):
        best = {name: min(levels, key=lambda level: each[level][rate]) for name, each in loss.items()}
        assert (len(set(best.values())) == 1) == (rate == 2e-4)
    assert min(loss[name][(0.01, 0.3, 0.1)][2e-4] for name in ("clinc150-10", "banking77-10")) > 1
    for level_rates in zip(*(each.values() for each in loss.values()), strict=True):
        best_rates = [min(rates, key=rates.__getitem__) for rates in level_rates]
        assert max(best_rates) / min(best_rates) <= 10.001


def test_results_have_the_planned_seeds_and_the_least_validation_nll_of_all_configurations():
    for setting in report.settings_of(RECORDS):
        asked = next(one for one in plan.SETTINGS if one.name == setting)
        tuned = [one for one in RECORDS if (one["stage"], one["setting"]) == ("tuning", setting)]
        if asked.tuned_as and not tuned:  # no time for its own tuning
            tuned = [one for one in RECORDS if (one["stage"], one["setting"]) == ("tuning", asked.tuned_as)]
            asked = next(one for one in plan.SETTINGS if one.name == asked.tuned_as)
        for method in plan.METHODS:
            own = [one for one in tuned if one["method"] == method.removesuffix("_temperature")]
            means = {}
            for name in {one["configuration"] for one in own}:
                seeds = {
                    one["seed"]: one["validation"]["nll"] for one in own if one["settings"] == _settings(own, name)
                }
                assert tuple(sorted(seeds)) == plan.TUNING_SEEDS
                means[name] = np.mean(list(seeds.values()))
            results = [
                one for one in RECORDS if (one["stage"], one["setting"], one["method"]) == ("result", setting, method)
            ]
            assert sorted(one["seed"] for one in results) == list(plan.RESULT_SEEDS)
            assert {one["configuration"] for one in results} == {min(means, key=means.__getitem__)}
            planned = {one.name for one in plan.configurations(asked.data)[plan.METHODS[method][0]]}
            first = len(means) == 6 and setting == "sst2-4000"  # the first plan
            assert first or (set(means) == planned if asked.tuned_as is None else len(means) == 3)


def _settings(records, name):
    return next(one["settings"] for one in records if one["configuration"] == name)


def test_the_page_counts_what_is_trained():
    width, lora = WIDTH, SCALARS
    head = 150 * width + 150
    page = (ROOT / "docs" / "finetuning_results.md").read_text(encoding="utf-8")
    assert f"{2 * lora:,} trainable parameters" in page and f"{lora:,};" in page
    assert f"{(2 * lora + head) / (lora + head):.2f} times" in page


def test_a_difference_is_paired_and_says_who_is_better():
    made_up = [
        {"stage": "result", "setting": "sst2", "method": method, "seed": seed, "test": {"nll": seed + above}}
        for method, above in {"bayes": 0.0, "lora": 0.5}.items()
        for seed in (2, 1, 3)
    ]
    assert report.difference(made_up, "sst2", "bayes", "lora") == "−.500 [−.500, −.500] better"
    assert report.difference(made_up, "sst2", "lora", "bayes") == "+.500 [+.500, +.500] worse"


def made_up_texts() -> Texts:
    rng = np.random.default_rng(0)
    tokens = rng.integers(1, 40, (ROWS, LENGTH)).astype("uint16")
    tokens[np.arange(LENGTH) >= rng.integers(2, LENGTH + 1, ROWS)[:, None]] = 0
    return Texts(
        tokens, np.arange(ROWS, dtype="int32") % CLASSES, {"train": np.arange(18), "validation": np.arange(18, 24)}
    )


def test_training_rows_are_per_intent_and_of_their_seed():
    texts, few = made_up_texts(), Setting("few", "clinc150", 2, True, 1)
    rows = [texts.training_rows(few, seed) for seed in (0, 0, 1)]
    assert [np.bincount(texts.labels[each]).tolist() for each in rows] == [[2, 2, 2]] * 3
    np.testing.assert_array_equal(rows[0], rows[1])
    assert rows[0].tolist() != rows[2].tolist()
    assert {row for seed in range(50) for row in texts.training_rows(few, seed)} <= set(range(18))


def test_batches_have_similar_lengths_and_every_row_once():
    texts = made_up_texts()
    epoch = batches(texts, np.arange(20), 5, (0, 0))
    assert sorted(epoch.ravel()) == list(range(20))
    assert (np.ptp(texts.lengths[epoch], axis=1) <= np.ptp(texts.lengths)).all()
    means = texts.lengths[epoch].mean(axis=1)
    assert (np.diff(means) > 0).all()
    assert not np.array_equal(epoch, batches(texts, np.arange(20), 5, (0, 1)))


@pytest.fixture(scope="module")
def trained():
    """A program of four kinds of members, the states before and after three steps, and the rows of these."""
    pytest.importorskip("keras_hub")
    sizes = {"num_layers": 1, "num_heads": 2, "hidden_dim": 8, "intermediate_dim": 12}
    keras.utils.set_random_seed(0)
    backbone = finetune_model.encoder(None, 40, LENGTH, **sizes)
    model = finetune_model.with_adapters(finetune_model.classifier(backbone, CLASSES), 2)
    program, texts = AdapterProgram(model), made_up_texts()
    program.optimizer.epsilon = EPSILON
    kinds = [
        Adaptation("bayes", 1e-2, beta=0.5, head=True),
        Adaptation("lora", 1e-2),
        Adaptation("blob", 0.3, beta=0.5, width=0.2),
        Adaptation("mc_dropout", 1e-2, dropout=0.3),
    ]
    start = program.start([finetune_machine.start_of(Trained(one, seed), 18) for seed, one in enumerate(kinds)])
    before = jax.tree.map(np.asarray, start)
    rows = np.random.default_rng(1).integers(0, 18, (3, 4, 6)).astype("int32")
    data = jax.device_put((texts.tokens, texts.labels, np.zeros(CLASSES, "float32")))
    for step in range(3):
        start, _ = program.train(start, rows[step], np.float32(1.0), program.frozen, data, length=LENGTH)
    return program, texts, before, jax.tree.map(np.asarray, start), rows, data


@pytest.mark.parametrize("member", [0, 1])
def test_a_member_is_the_model_that_fit_trains(trained, member):
    program, texts, before, after, rows, _ = trained
    model = program.model
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(1e-2, epsilon=EPSILON), loss)
    sb.set_kl(model, num_data=18, beta=0.5 if member == 0 else 0.0)
    for variable, values in zip(model.trainable_variables, before["weights"], strict=True):
        variable.assign(values[member])
    posteriors = [*program.adapters, program.head]
    for posterior, values in zip(posteriors, before["references"], strict=True):
        posterior.factors[0].reference.assign(values[member])
    posteriors[0].seed_generator.state.assign(before["seed"][member])
    ids = rows[:, member].ravel()
    tokens = texts.tokens[ids].astype("int32")
    x = {"token_ids": tokens, "segment_ids": 0 * tokens, "padding_mask": (tokens != 0).astype("int32")}
    model.fit(x, texts.labels[ids], batch_size=6, shuffle=False, verbose=0)
    for variable, values in zip(model.trainable_variables, after["weights"], strict=True):
        got, want = np.asarray(variable), values[member]
        if member == 1 and got.shape != (CLASSES,):
            got, want = got[0], want[0]  # scales of a network without noise stay in the program, and are no scales
        np.testing.assert_allclose(got, want, **EXACT)


def test_only_random_weights_have_scales_that_train(trained):
    program, _, before, after, _, _ = trained
    for posterior, i in zip([*program.adapters, program.head], program._values, strict=True):
        bayes, lora, blob, dropout = (before["weights"][i] != after["weights"][i])[:, 1].any(axis=-1)
        rows = program.head is not posterior and posterior.rows
        assert bayes.all()
        assert not lora.any() and not dropout.any()
        assert blob[:rows].all() and not blob[rows:].any()


def test_the_head_of_a_network_without_noise_predicts_from_its_features(trained):
    program, _, _, after, _, data = trained
    rows = np.arange(8)
    lora = {name: jax.tree.map(lambda a: a[1], values) for name, values in after.items() if name != "optimizer"}
    seen = np.asarray(program.features(lora, rows, program.frozen, data, length=LENGTH))
    kernel, bias = program.head_of(after, 1)
    p = np.asarray(program.predict(after, rows, np.int32(1), program.frozen, data, length=LENGTH)[0])[1]
    np.testing.assert_allclose(np.asarray(jax.nn.softmax(seen @ kernel + bias)), p, rtol=1e-4)


def test_draws_differ_only_where_something_is_random(trained):
    program, _, _, after, _, data = trained
    one, four = (
        np.asarray(program.predict(after, np.arange(8), np.int32(draws), program.frozen, data, length=LENGTH)[0])
        for draws in (1, 4)
    )
    np.testing.assert_allclose(one[1], four[1], rtol=1e-5)
    assert all(np.abs(one[member] - four[member]).max() > 1e-6 for member in (0, 2, 3))


def test_the_prior_precision_of_laplace_is_chosen_on_validation_rows_alone(monkeypatch, tmp_path):
    chosen, labels = finetune_laplace.PRECISIONS[4], np.arange(12) % CLASSES

    class Head:  # certain of validation labels by how near the precision is, and of test labels the less so
        prior_precision = 0.0

    def predicted(found, features):
        distance = abs(np.log10(found.prior_precision / chosen))
        right = 0.9 / (1 + distance) if features[0, 0] == 0 else 1 - 0.9 / (1 + distance)
        p = np.full((len(labels), CLASSES), (1 - right) / (CLASSES - 1))
        p[np.arange(len(labels)), labels] = right
        return sb.ClassPredictive(p, np.zeros((1, 1)), 2, expected_entropy=np.zeros(len(labels)))

    monkeypatch.setattr(finetune_laplace, "laplace", lambda arrays, seed: Head())
    monkeypatch.setattr(finetune_laplace, "predicted", predicted)
    path = tmp_path / "clinc150-10-3.npz"
    parts = {"validation": np.zeros((12, 1)), "test": np.ones((12, 1)), "ood": np.ones((12, 1))}
    np.savez(path, **parts, validation_labels=labels, test_labels=labels)
    line = finetune_laplace.score(path)
    assert (line["setting"], line["seed"], line["method"]) == ("clinc150-10", 3, "laplace")
    assert line["configuration"] == f"prior precision {chosen:.3g}" and len(line["precisions"]) == 13
    assert line["validation"]["nll"] == pytest.approx(-np.log(0.9)) == line["precisions"][chosen]
    assert line["test"]["nll"] == pytest.approx(-np.log(0.1)) and line["ood"]["auroc_entropy"] == 0.5


class MadeUpMachine:
    """A machine whose networks predict anything, but always the same; it is killed when so many have been trained."""

    tiny, chunk = True, finetune_machine.CHUNK

    def __init__(self, trainings: int):
        self.left = trainings

    def texts(self, name: str) -> Texts:
        parts = {
            "train": np.arange(12),
            "validation": np.arange(12, 18),
            "test": np.arange(18, 24),
            "ood": np.arange(0),
        }
        return dataclasses.replace(made_up_texts(), parts=parts)

    def seconds(self, setting: Setting) -> float:
        return 0.0

    def train(self, setting: Setting, members: list, deadline: float) -> list:
        self.left -= 1
        if self.left < 0:
            raise KeyboardInterrupt
        return members

    def predict(self, setting: Setting, state: list, wanted: list, rows: np.ndarray) -> dict:
        found = {}
        for place, draws in wanted:
            rng = np.random.default_rng([zlib.crc32(repr(state[place]).encode()), draws])
            p = rng.dirichlet(np.ones(CLASSES), len(rows))
            found[place, draws] = sb.ClassPredictive(p, np.zeros((1, 1)), draws, expected_entropy=p.sum(axis=1))
        return found


def test_a_killed_run_resumes_to_the_records_of_one_that_was_not(tmp_path):
    def call(folder, trainings):
        machine = MadeUpMachine(trainings)
        with contextlib.suppress(KeyboardInterrupt):
            finetune_stages.one_setting(machine, plan.SETTINGS[2], FinetuneRecords(folder, []), float("inf"))
        return machine

    for name, calls in {"whole": (9,), "killed": (0, 2, 3, 9)}.items():
        (tmp_path / name).mkdir()
        done = [call(tmp_path / name, trainings) for trainings in calls]
        assert done[-1].left == 9 - 6 + sum(calls[:-1])  # none is trained twice
    whole, killed = (FinetuneRecords(tmp_path / name, []).lines for name in ("whole", "killed"))
    assert len(whole) == 6 * 16 * 2 + 7 * 5
    for line in [*whole, *killed]:
        del line["chunk_seconds"]
    assert killed == whole


def test_a_kill_while_a_record_is_written_leaves_the_earlier_ones(tmp_path, monkeypatch):
    records = FinetuneRecords(tmp_path, [])
    records.add([{"stage": "tuning", "setting": "sst2"}])

    def kill(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", kill)
    with pytest.raises(KeyboardInterrupt):
        records.add([{"stage": "result", "setting": "sst2"}])
    monkeypatch.undo()
    again = FinetuneRecords(tmp_path, [])
    assert again.lines == [{"stage": "tuning", "setting": "sst2"}]
    again.add([{"stage": "result", "setting": "sst2"}])
    assert [line["stage"] for line in FinetuneRecords(tmp_path, []).lines] == ["tuning", "result"]


def test_every_call_in_a_folder_keeps_its_command(tmp_path):
    given = argparse.Namespace(out=tmp_path, earlier=[])
    for module in "abc":
        begin(given, module)
    commands = {path.name: json.loads(path.read_text())["command"] for path in tmp_path.glob("run*.json")}
    assert {name: command.split()[2] for name, command in commands.items()} == {
        "run.json": "a",
        "run-2.json": "b",
        "run-3.json": "c",
    }
