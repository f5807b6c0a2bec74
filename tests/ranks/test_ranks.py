"""Ranks by shape, spectrum, bound and held-out loss; the figures of a sweep; the command."""

import itertools
import math

import keras
import numpy as np
import pytest
from posterior_table import TORCH_FIRST

import singularbayes as sb
from singularbayes import LowRank, layers, plots, ranks
from singularbayes.cli import main
from singularbayes.metrics import find_measure
from singularbayes.ranks import change
from singularbayes.ranks.by_bound import _best, _complexity, _matrices
from singularbayes.ranks.trials import Sweep, Trial

pytestmark = pytest.mark.on_torch


def _set(layer, values, rng):
    """Gives a dense layer a kernel with these singular values."""
    rows, columns = layer.kernel.shape
    u, v = (np.linalg.qr(rng.normal(size=(n, n)))[0] for n in (rows, columns))
    layer.kernel.assign((u[:, : len(values)] * values) @ v[: len(values)])


@pytest.fixture
def trained():
    """A classifier whose matrices have the singular values 3, 1, ½, 0.1 and 2, 0.2."""
    rng = np.random.default_rng(0)
    head = keras.layers.Dense(3, name="head")
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(5, "relu", name="hidden"), head])
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    _set(model.layers[0], [3.0, 1.0, 0.5, 0.1], rng)
    _set(head, [2.0, 0.2], rng)
    return model


def _examples(num=50, seed=1):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(num, 6)).astype("float32"), rng.integers(0, 3, num)


# -- by shape and spectrum ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("shape", "rank"), [((1, 9), 1), ((20, 20), 16), ((17, 400), 16), ((1024, 2048), 32)])
def test_the_rule_of_thumb(shape, rank):
    assert ranks.default_rank(*shape) == ranks.default_rank(*shape[::-1]) == rank


@TORCH_FIRST
def test_by_spectrum_takes_the_smallest_rank_that_keeps_the_share_and_says_what_one_less_keeps(trained):
    found = ranks.by_spectrum(trained, 0.9)
    total = 9 + 1 + 0.25 + 0.01
    assert found.ranks == {"hidden": 2, "head": 1}
    assert found.rows[0].reason == f"keeps {10 / total:.1%}; rank 1 keeps {9 / total:.1%}"
    assert found.rows[0].saves == pytest.approx(2 * (6 + 5) / (6 * 5))
    assert "an error of at most 31.6% of ‖W‖" in str(found)  # in the hidden one 15.9%
    bayes = sb.bayesianize(trained, rules=found.ranks)
    assert [q.rank for q in sb.find_posteriors(bayes)] == [2, 1]


def test_ranks_that_save_nothing_are_named(trained):
    assert "as the matrix, or more, in hidden/kernel, head/kernel" in str(ranks.by_shape(trained))


# -- by bound --------------------------------------------------------------------------------------------------------


def test_by_bound_is_the_best_of_all_ranks(trained):
    x, _ = _examples()
    for num_data, weight_kl in itertools.product((100, 10_000), (0.01, 1.0)):
        found = ranks.by_bound(trained, x, num_data=num_data, weight_kl=weight_kl)
        matrices = _matrices(trained, x, "softmax_ce")

        def total(chosen, num_data=num_data, weight_kl=weight_kl, matrices=matrices):
            lost = sum(m.loss(rank, math.sqrt(2)) for m, rank in zip(matrices, chosen, strict=True))
            return lost + _complexity(matrices, list(chosen), weight_kl, num_data, 0.05)

        every = list(itertools.product(range(1, 6), range(1, 4)))
        assert total(tuple(row.rank for row in found.rows)) == pytest.approx(min(map(total, every)), rel=1e-9)


def test_more_data_and_cheaper_weights_ask_for_higher_ranks(trained):
    x, _ = _examples()
    sums = [sum(ranks.by_bound(trained, x, num_data=n, weight_kl=300.0).ranks.values()) for n in (10, 10**4, 10**7)]
    assert sums == sorted(sums) and sums[0] < sums[-1]


def test_the_loss_term_of_the_bound_holds_on_the_examples(trained):
    x, _ = _examples(200)
    matrices = _matrices(trained, x, "softmax_ce")
    for chosen in ([1, 1], [2, 3], [5, 1]):
        cut = keras.models.clone_model(trained)
        cut.set_weights(trained.get_weights())
        for layer, rank in zip(cut.layers, chosen, strict=True):
            u, s, vt = np.linalg.svd(keras.ops.convert_to_numpy(layer.kernel), full_matrices=False)
            layer.kernel.assign((u[:, :rank] * s[:rank]) @ vt[:rank])
        moved = np.linalg.norm(trained.predict(x, verbose=0) - cut.predict(x, verbose=0), axis=1).mean()
        bound = sum(m.loss(rank, 1.0) for m, rank in zip(matrices, chosen, strict=True))
        assert moved <= bound


@pytest.mark.parametrize(("activation", "loss"), [("softmax", "softmax_ce"), ("sigmoid", "bce_logit")])
def test_a_head_of_probabilities_has_the_loss_terms_of_its_logits(activation, loss):
    logits = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, "relu"), keras.layers.Dense(2)])
    head = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, "relu"), keras.layers.Dense(2, activation)])
    head.set_weights(logits.get_weights())
    x = np.random.default_rng(0).normal(size=(8, 4)).astype("float32")
    one, other = ([m.radius for m in _matrices(model, x, loss)] for model in (logits, head))
    np.testing.assert_allclose(one, other)
    assert all(np.array(one) > [m.radius for m in _matrices(head, x, "brier_half_on_simplex")])  # of probabilities


@pytest.mark.parametrize("options", [{"threshold": 1.0}, {"negative_slope": 5.0}])
def test_a_relu_that_jumps_or_is_steep_has_no_bound(options):
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3), keras.layers.ReLU(**options)])
    (reason,) = change.read_steps(model, lambda q: np.zeros(1, bool))[1]
    assert "a ReLU with a slope below 0 or a threshold" in reason


def test_best_ranks_with_nothing_to_gain_are_the_least(trained):
    matrices = _matrices(trained, np.zeros((4, 6), "float32") + 1e-12, "softmax_ce")
    assert _best(matrices, 1.0, 1.0, 100, 0.05) == [1, 1]


# -- by held-out loss ------------------------------------------------------------------------------------------------


@TORCH_FIRST
def test_by_loss_takes_the_smallest_truncation_within_a_standard_error(trained):
    x, y = _examples(300)
    found = ranks.by_loss(trained, x, y)
    within = [explained for explained, loss in found.losses.items() if loss <= found.full + found.error]
    assert (
        found.explained == min(within) and found.recommendation.ranks == ranks.by_spectrum(trained, min(within)).ranks
    )
    p = sb.predict(trained, x, draws=1)
    each = -np.log(p.mean[np.arange(300), y])
    assert found.full == pytest.approx(each.mean(), rel=1e-5)
    assert found.error == pytest.approx(each.std(ddof=1) / math.sqrt(300), rel=1e-5)
    assert "The smallest ranks of those tried whose NLL is at most" in str(found)
    own = trained.predict(x, verbose=0).argmax(axis=1)  # which nothing answers as well as the network itself
    none = ranks.by_loss(trained, x, own, shares=(0.5,))
    assert none.explained == 1.0 and "None of those tried has a NLL of at most" in str(none)


def test_by_loss_of_numbers_and_of_a_bayesian_model_is_about_its_mean():
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((6,)), layers.Dense(4, posterior=LowRank(3))])
    model.compile("adam", sb.GaussianNLL(0.1))
    x, _ = _examples()
    y = keras.ops.convert_to_numpy(model(x))
    found = ranks.by_loss(model, x, y, shares=(0.2, 1.0))
    assert found.loss == "squared error" and found.full == pytest.approx(0, abs=1e-10)
    assert found.explained == 1.0 and list(found.recommendation.ranks.values()) == [3]
    with pytest.raises(ValueError, match="by_loss needs arrays of one shape"):
        ranks.by_loss(model, x, y.T)  # as many numbers, of other examples


# -- bad input -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: ranks.default_rank(0, 3), "default_rank needs rows to be an integer >= 1; got rows=0"),
        (lambda m: ranks.by_spectrum(m, 1.5), "rank_for needs 0 < explained <= 1; got explained=1.5"),
        (lambda m: ranks.by_bound(m, _examples()[0], loss="mse_no_half"), "a loss with a Lipschitz constant; got"),
        (lambda m: ranks.by_bound(m, _examples()[0], weight_kl=0.0), "by_bound needs weight_kl"),
        (
            lambda m: ranks.by_loss(m, *_examples(), shares=(0.0,)),
            r"by_loss needs shares above 0.*got shares=\[0.0\]",
        ),
        (lambda m: ranks.by_loss(m, *_examples(), shares=()), r"got shares=\[\]"),
        (lambda m: ranks.by_loss(m, *_examples(1)), "by_loss needs 2 examples or more, for a standard error; got 1"),
    ],
)
def test_what_makes_no_sense_is_refused(call, message, trained):
    with pytest.raises(ValueError, match=message):
        call(trained)


def test_a_bound_is_about_layers_in_a_row():
    model = keras.Sequential([keras.Input((4, 3)), keras.layers.LSTM(2)])
    with pytest.raises(
        ValueError, match=r"by_bound needs dense and convolutional layers in a row.*\(LSTM\).*by_spectrum"
    ):
        ranks.by_bound(model, np.zeros((2, 4, 3)))
    (reason,) = change.read_steps(keras.layers.Dense(2), lambda q: np.zeros(1, bool))[1]
    assert reason == "Dense is not a keras.Sequential, whose layers follow one another"


# -- the figures of a sweep ------------------------------------------------------------------------------------------


def _sweep(task, names, foreign=True):
    rng = np.random.default_rng(0)
    detection = {"classification": "auroc_ood_mi", "regression": "auroc_ood_epistemic"}[task]
    trials = [
        Trial(
            i,
            {"rank": 2**i, "beta": 0.1 if i % 2 else 1.0},
            dict(zip((*names, detection, "num_trained"), rng.random(4), strict=True)),
        )
        for i in range(6)
    ]
    if not foreign:
        trials = [Trial(t.number, t.settings, {n: v for n, v in t.metrics.items() if "ood" not in n}) for t in trials]
    return Sweep(task, (find_measure(names[0]),), tuple(trials))


@pytest.mark.parametrize(("task", "names"), [("classification", ("nll", "ece")), ("regression", ("mae", "rmse"))])
def test_the_trade_offs_are_the_paper_s_pairs(task, names):
    figures = plots.trade_offs(_sweep(task, names))
    assert [name.rpartition("_against_")[2] for name in figures] == list(names)
    axes = next(iter(figures.values())).axes[0]
    assert find_measure(names[0]).label in axes.get_xlabel() and "AUROC-OOD" in axes.get_ylabel()


def test_without_ood_examples_the_size_is_drawn_against_the_objective():
    (name,) = plots.trade_offs(_sweep("classification", ("nll", "ece"), foreign=False))
    assert name == "nll_against_num_trained"


def test_the_figure_rings_the_recommended_trial_names_ranks_and_draws_errors():
    trials = tuple(
        Trial(i, {"rank": 2**i, "beta": 1.0}, {"nll": 1.0 - 0.1 * i, "num_trained": 10.0 * 2**i}, {"nll": 0.15})
        for i in range(3)
    )
    sweep = Sweep("classification", (find_measure("nll"),), trials, seeds=3)
    assert sweep.recommended() is trials[1]  # 0.9 is within 0.15 of 0.8
    (figure,) = plots.trade_offs(sweep).values()
    axes = figure.axes[0]
    (ring,) = [line for line in axes.lines if line.get_markerfacecolor() == "none"]
    assert (ring.get_xdata()[0], ring.get_ydata()[0]) == (20.0, 0.9)
    assert {text.get_text() for text in axes.texts} == {"rank 1", "rank 2", "rank 4"}
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["trials", "Pareto front", "recommended"]
    bars = axes.collections[-1]
    np.testing.assert_allclose(np.ptp(bars.get_segments()[0][:, 1]), 0.3)


# -- the command -----------------------------------------------------------------------------------------------------


def test_the_command_prints_ranks_and_reasons_and_draws(trained, tmp_path, capsys):
    model, data, figure = tmp_path / "model.keras", tmp_path / "data.npz", tmp_path / "rank.svg"
    trained.save(model)
    x, _ = _examples(100)
    y = trained.predict(x, verbose=0).argmax(axis=1)
    np.savez(data, x=x, y=y)
    assert main(["rank", str(model), "--figure", str(figure)]) == 0
    message = capsys.readouterr().out
    assert "hidden/kernel" in message and "Smallest ranks that keep 0.9" in message and figure.is_file()
    assert main(["rank", str(model), "--data", str(data), "--figure", str(figure)]) == 0
    message = capsys.readouterr().out
    assert str(ranks.by_loss(trained, x, y)) in message and "more than untouched" in message


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--figure", "rank.doc"], "--figure needs a file that ends in .png, .svg or .pdf; got 'rank.doc'"),
        (["--figure", "nowhere/rank.png"], "The folder 'nowhere' of .* does not exist"),
        (
            ["--data", "none.npz"],
            "rank needs --data, an .npz file with x and y; got 'none.npz', which does not exist",
        ),
    ],
)
def test_the_command_refuses_in_one_line(more, message, trained, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    trained.save("model.keras")
    with pytest.raises(SystemExit, match=message):
        main(["rank", "model.keras", *more])


def test_a_figure_that_nobody_named_replaces_no_file(trained, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    trained.save("model.keras")
    (tmp_path / "rank.png").write_text("mine")
    assert main(["rank", "model.keras"]) == 0
    assert (tmp_path / "rank.png").read_text() == "mine" and (tmp_path / "rank-2.png").stat().st_size > 1000


def test_a_users_own_relu_has_no_bound_of_its_slope():
    def relu(z):
        return 3 * z

    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, relu)])
    steps, (reason,) = change.read_steps(model, lambda posterior: np.zeros(0, bool))
    assert steps == () and "has an activation, relu (not Keras's), whose slope is not bounded here" in reason
