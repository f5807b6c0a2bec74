"""CIFAR-10: the program trains the library's own layers, corruptions are those of their definition, page = records."""

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import jax
import keras
import numpy as np
import pytest
from posterior_table import ON_TORCH
from scipy import special
from singularbayes_experiments.methods import image_program, image_scores
from singularbayes_experiments.methods.image_program import ImageProgram, Step
from singularbayes_experiments.problems import cifar10 as plan
from singularbayes_experiments.problems import cifar10_networks, image_corruptions
from singularbayes_experiments.runs import cifar10 as command
from singularbayes_experiments.runs import cifar10_records, cifar10_training

import singularbayes as sb

ROOT = Path(__file__).parents[2]
RNG = np.random.default_rng(0)
SIDE, BATCH, NUM_DATA = 8, 4, 24
X = RNG.integers(0, 256, (NUM_DATA, SIDE, SIDE, 3)).astype("uint8")
Y = (np.arange(NUM_DATA) % 3).astype("int32")
KINDS: tuple[plan.Kind, ...] = ("deterministic", "low_rank", "full_rank", "rank_one")

ABOUT = {"command": "python", "versions": {"jax": "1"}, "machine": {"cpu": "one"}}


def small(kind):
    """A network of one convolution with a posterior, without batch normalisation: what it computes is written down."""
    prior = sb.Centred(sb.Normal(1.0))
    posterior = {
        "deterministic": lambda: sb.Deterministic(),
        "low_rank": lambda: sb.LowRank(2, prior=prior),
        "full_rank": lambda: sb.FullRank(prior=prior),
        "rank_one": lambda: sb.RankOne(prior=prior),
    }[kind]
    inputs = keras.Input((SIDE, SIDE, 3))
    x = sb.layers.Conv2D(4, 3, padding="same", activation="relu", posterior=posterior())(inputs)
    features = keras.ops.mean(x, axis=(1, 2))
    return keras.Model(inputs, [sb.layers.Dense(10, posterior=posterior())(features), features])


# Both kinds of weights in `make test`: plain ones and the factors of draws.
@pytest.fixture(
    scope="module",
    params=[
        kind if kind in ("deterministic", "low_rank") else pytest.param(kind, marks=pytest.mark.exhaustive)
        for kind in KINDS
    ],
)
def program(request):
    return ImageProgram(lambda: small(request.param), BATCH, 2, 6)


def trained(program, steps, **rates):
    """Returns the states before and after some steps on the same two batches."""
    state = program.start(3, eta=0.1, width=0.2)
    step = Step(**{"rate": 0.1, "rho_rate": 0.01, "decay": 0.01, "kl_weight": 0.5, "warm_up": 0.2, **rates}, steps=2)
    ids = np.arange(2 * BATCH).reshape(2, BATCH).astype("int32")
    data = (image_program.padded(X), Y, np.zeros(10, "float32"))
    before = jax.tree.map(np.array, state)
    for _ in range(steps):
        state, _ = program.train(state, ids, data, step.numbers())
    return before, jax.tree.map(np.asarray, state)


def test_without_rates_nothing_moves_and_with_them_everything_does(program):
    before, after = trained(program, 1, rate=0.0, rho_rate=0.0)
    for old, new in zip(before["weights"], after["weights"], strict=True):
        np.testing.assert_array_equal(old, new)
    before, after = trained(program, 1)
    for i, (old, new) in enumerate(zip(before["weights"], after["weights"], strict=True)):
        parts = zip(old, new, strict=True) if i in program.values else [(old, new)]
        assert all((one != other).any() for one, other in parts)


def test_a_step_goes_along_the_loss_of_the_model(program):
    """Its first step is that of SGD with Nesterov momentum on NLL + weight · KL, by the model's own gradient."""
    state = program.start(3, eta=0.1, width=0.2)
    key = jax.random.fold_in(jax.random.wrap_key_data(state["key"]), 0)
    ids = np.arange(BATCH)
    x = image_program.normalised(image_program.augmented(key, image_program.padded(X)[ids]))
    others = [np.array(value) for value in state["others"]]
    if program.kl_scale is not None:
        others[program.kl_scale] = np.float32(0.5)

    def loss(weights):
        (logits, _), _, losses = program.model.stateless_call(weights, others, x, training=True, return_losses=True)
        return keras.losses.sparse_categorical_crossentropy(Y[ids], logits, from_logits=True).mean() + sum(losses)

    slopes = jax.jit(jax.grad(loss))(state["weights"])
    state["step"] = np.int32(1)  # a fifth of five steps: the peak
    moved = jax.jit(program._moved)(state, slopes, others, Step(0.1, 0.01, 0.01, 0.5, 5, 0.2).numbers())
    for i, (old, slope, new) in enumerate(zip(state["weights"], slopes, moved["weights"], strict=True)):
        slope = np.asarray(slope)
        if i in program.values:
            np.testing.assert_allclose(new[0], old[0] - 0.19 * slope[0], rtol=1e-5, atol=1e-7)
            ratio = (0.1 / (1 - 0.9**2)) / np.sqrt(0.01 / (1 - 0.99**2))  # Adam's, with a second step's corrections
            np.testing.assert_allclose(new[1] - old[1], -0.01 * ratio * np.sign(slope[1]), rtol=1e-3)
        else:
            slope = slope + 0.01 * old if old.ndim == 2 else slope
            np.testing.assert_allclose(new, old - 0.19 * slope, rtol=1e-5, atol=1e-7)


def test_the_kl_is_that_of_the_prior_around_zero(program):
    if not program.random:
        assert program.references == []
        return
    state = program.start(3, eta=0.1, width=0.2)
    expected = 0.0
    for i in program.values:
        loc, rho = state["weights"][i].astype("float64")
        scale = np.logaddexp(0.0, rho)
        expected += (np.log(0.2 / scale) + (loc**2 + scale**2) / (2 * 0.2**2) - 0.5).sum()
    others = list(state["others"])
    others[program.kl_scale] = np.float32(1.0)
    *_, losses = program.model.stateless_call(
        state["weights"], others, np.zeros((1, SIDE, SIDE, 3), "float32"), training=True, return_losses=True
    )
    np.testing.assert_allclose(sum(losses), expected, rtol=1e-4)


def test_draws_differ_where_something_is_random_and_the_mask_forbids_classes(program):
    state, mask = program.start(3, eta=0.5, width=0.2), np.zeros(10, "float32")
    mask[8:] = cifar10_training.ABSENT
    logits = [
        np.asarray(program.predict(state["weights"], state["others"], np.uint32(seed), X[:6], mask)[0])
        for seed in (1, 1, 2)
    ]
    np.testing.assert_array_equal(logits[0], logits[1])
    assert (np.abs(logits[0] - logits[2])[:, :8].max() > 1e-4) == bool(program.random)
    assert special.softmax(logits[0], axis=1)[:, 8:].max() == 0


def test_a_low_rank_network_starts_at_the_best_approximation_of_a_trained_one():
    widths = {"width": 4, "side": SIDE, "dtype": "float32"}
    given = ImageProgram(lambda: cifar10_networks.build("resnet9", "deterministic", **widths), BATCH, 1, 6)
    ours = ImageProgram(lambda: cifar10_networks.build("resnet9", "low_rank", [64] * 9, **widths), BATCH, 1, 6)
    state = given.start(5)
    rng = np.random.default_rng(1)  # moments that are not the initial ones, and a bias
    state["others"] = [other + rng.uniform(0.1, 0.3, other.shape).astype("float32") for other in state["others"]]
    state["weights"] = [w + rng.uniform(0, 0.2, w.shape).astype("float32") for w in state["weights"]]
    started = ours.start_at(given, state, ours.factors_at(given, state), 6, eta=1e-6, width=0.1)
    want, got = (
        each.predict(one["weights"], one["others"], np.uint32(1), X[:6], np.zeros(10, "float32"))[0]
        for each, one in ((given, state), (ours, started))
    )
    np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-3)  # at full rank it is the network itself


def test_dropout_drops_its_share_in_prediction_too_and_a_seed_fixes_what():
    inputs = keras.Input((SIDE, SIDE, 3))
    x = cifar10_networks.ConstantDropout()(inputs)
    model = keras.Model(inputs, [keras.ops.reshape(x, (-1, SIDE * SIDE * 3)), x])
    program = ImageProgram(lambda: model, BATCH, 1, 6)
    state, mask = program.start(3, dropout=0.25), np.zeros(SIDE * SIDE * 3, "float32")
    white = np.full((6, SIDE, SIDE, 3), 255, "uint8")
    one, same, other = (
        np.asarray(program.predict(state["weights"], state["others"], np.uint32(seed), white, mask)[0])
        for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(one, same)
    assert (one != other).any()
    dropped = (one == 0).mean()
    assert abs(dropped - 0.25) < 4 * np.sqrt(0.25 * 0.75 / one.size)
    kept = np.asarray(image_program.normalised(white)).reshape(6, -1)
    np.testing.assert_allclose(one[one != 0], kept[one != 0] / 0.75, rtol=1e-5)


def test_draws_of_swag_have_the_mean_of_the_snapshots(tmp_path):
    class Moving(cifar10_training.Training):
        """A training that adds the rate to both weights."""

        def program(self, network, kind):
            def start_from(state, seed):
                return dict(state)

            return SimpleNamespace(start_from=start_from)

        def state_of(self, network, data, seed, member=0):
            return {"weights": [np.zeros(3), np.zeros((2, 2))], "others": [np.zeros(1)]}

        def _stepped(self, network, kind, state, ids, data, step):
            return {**state, "weights": [weight + step.rate for weight in state["weights"]]}, 0.0

    images = cifar10_training.Images(*command.made_up_images(), corrupted=3)
    size = cifar10_training.Size(8, 1, 20, 1.0, 4)
    training = Moving(images, size, "float32", cifar10_records.Cifar10Records(tmp_path), tmp_path, np.inf)
    drawn = training.swag("resnet9", plan.Settings(1.0), "all", seed=0)
    values = np.array([np.concatenate([weight.ravel() for weight in one["weights"]]) for one in drawn])
    assert values.shape == (plan.DRAWS, 7) and [np.shape(w) for w in drawn[0]["weights"]] == [(3,), (2, 2)]
    # Snapshots at 1, 2, …, 8: mean 4.5; the covariance is at most ½ (variance + Σ deviations² / 7) ≈ 5.1.
    assert abs(values.mean() - 4.5) < 4 * np.sqrt(5.1 / plan.DRAWS)


@pytest.mark.parametrize("shape", [(12, 5), (5, 12)])
def test_factors_are_balanced_and_their_product_is_the_best_approximation(shape):
    kernel = RNG.normal(size=shape)
    a, b = np.split(image_program.svd_factors(kernel, 2), [shape[0]])
    lost = np.linalg.norm(kernel - a @ b.T)
    np.testing.assert_allclose(lost, np.sqrt((np.linalg.svd(kernel)[1][2:] ** 2).sum()))
    np.testing.assert_allclose(a.T @ a, b.T @ b, atol=1e-10)


@ON_TORCH
def test_networks_have_the_published_sizes():
    for name, size in (("resnet9", 6_573_130), ("resnet20", 269_722)):
        model = cifar10_networks.build(name, "deterministic")
        assert model.count_params() - sum(int(np.prod(v.shape)) for v in model.non_trainable_variables) == size


def test_corruptions_do_what_their_constants_say():
    x = RNG.integers(60, 175, (3, 32, 32, 3)).astype("uint8")
    found = image_corruptions.corrupted(x)
    assert found.shape == (8, 5, 3, 32, 32, 3) and found.dtype == np.uint8
    by = dict(zip(image_corruptions.NAMES, found.astype("float64"), strict=True))
    noise = ((by["gaussian_noise"] - x) / 255).std(axis=(1, 2, 3, 4))
    np.testing.assert_allclose(noise, (0.04, 0.06, 0.08, 0.09, 0.10), rtol=0.03)
    shot = ((by["shot_noise"] - x) / 255).var(axis=(1, 2, 3, 4)) / (x / 255).mean()
    np.testing.assert_allclose(shot, 1 / np.array([500, 250, 100, 75, 50]), rtol=0.05)
    hit = (by["impulse_noise"] != x).mean(axis=(1, 2, 3, 4))
    wanted = np.array([0.01, 0.02, 0.03, 0.05, 0.07])
    assert (np.abs(hit - wanted) < 4 * np.sqrt(wanted / x.size)).all()
    brighter = (by["brightness"].max(-1) - x.max(-1)).mean(axis=(1, 2, 3)) / 255
    np.testing.assert_allclose(brighter, (0.05, 0.1, 0.15, 0.2, 0.3), atol=0.004)
    spread = by["contrast"].std(axis=(2, 3)) / x.std(axis=(1, 2))
    expected = np.array([0.75, 0.5, 0.4, 0.3, 0.15])[:, None, None]
    np.testing.assert_allclose(spread, np.broadcast_to(expected, spread.shape), rtol=0.03)
    for name in ("defocus_blur", "pixelate", "jpeg_compression"):  # they keep what is slow and lose what is fast
        assert np.abs(by[name].mean(axis=(2, 3)) - x.mean(axis=(1, 2))).max() < 3
        error = ((by[name] - x) ** 2).mean(axis=(1, 2, 3, 4))
        assert (np.diff(error) > 0).all()


@pytest.mark.parametrize("constants", image_corruptions.CONSTANTS[image_corruptions.defocus_blur])
def test_a_disk_of_blur_sums_to_one(constants):
    disk = image_corruptions.disk(*constants)
    np.testing.assert_allclose(disk.sum(), 1.0)
    np.testing.assert_allclose(disk, disk.T)


def test_every_epoch_has_every_image_once():
    ids = cifar10_training.batches(np.arange(10, 30), 8, 5, seed=1)
    assert ids.shape == (5, 8)
    assert sorted(ids.ravel()[:20]) == sorted(ids.ravel()[20:]) == list(range(10, 30))
    assert list(ids.ravel()[:20]) != list(ids.ravel()[20:])


def test_every_method_has_as_many_configurations_and_work_is_tuned_before_it_is_tested():
    assert {len({one.name for one in tried}) for each in plan.CONFIGURATIONS.values() for tried in each.values()} == {3}
    tuned = {(network, family) for network, families in plan.CHOSEN.items() for family in families}
    trained: set[tuple] = set()
    for piece in plan.WORK:
        if piece.seed is None:
            tuned.add((piece.network, piece.family))
            continue
        assert (piece.network, piece.family) in tuned and plan.TUNING_SEED not in plan.RESULT_SEEDS
        key = (piece.network, piece.seed, piece.held_out)
        assert piece.family not in ("svd", "swag") or key in trained  # where its members come from
        trained |= {key} if piece.family == "deterministic" else set()


def test_programs_are_traced_once_and_one_that_is_there_waits_for_no_tracing(monkeypatch):
    traced = []
    monkeypatch.setattr(
        cifar10_training.Programs, "_traced", lambda self, *key: traced.append(key) or time.sleep(0.05) or object()
    )
    programs = cifar10_training.Programs(None, cifar10_training.TINY, "float32")
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: programs.prepare("resnet9", "low_rank"), range(4)))
        assert len(set(map(id, found))) == len(traced) == 1
        with programs._tracing:  # as another thread does
            assert pool.submit(programs.prepare, "resnet9", "low_rank").result(timeout=9) is found[0]


class Untrained(cifar10_training.Training):
    """Networks that take no time: their logits are noise around the labels, or no numbers for a kind of `diverging`."""

    diverging = ""

    def program(self, network, kind):
        return SimpleNamespace(num_parameters=100)

    def train(self, network, method, settings, data, seed, member=0):
        self.seconds_per_step[network, method.kind] = 0.0
        return {"seed": seed + 10 * member}

    def swag(self, network, settings, data, seed):
        return [{"seed": seed + 20 * draw} for draw in range(plan.DRAWS)]

    def state_of(self, network, data, seed, member=0):
        return {"seed": seed + 10 * member}

    def keep(self, path, state):
        pass

    def kept_or_trained(self, network, method, settings, data, seed, member):
        return self.train(network, method, settings, data, seed, member)

    def predict(self, network, kind, state, images, *, data, draws, features=False, member=0):
        rng = np.random.default_rng([state["seed"], len(images)])
        if features:
            return rng.normal(size=(len(images), 3)) + images.mean(axis=(1, 2))
        brightness = images.mean(axis=(1, 2, 3))[:, None] - 15 - 20 * np.arange(10)
        logits = -0.05 * np.abs(brightness) + rng.normal(size=(draws, len(images), 10))
        return np.full_like(logits, np.nan) if kind == self.diverging else logits + self.images.mask(data)


def experiment(folder, diverging="", tuned=None):
    folder.mkdir(exist_ok=True)
    images = cifar10_training.Images(
        *command.made_up_images(), corrupted=3, other={"clothes": command.made_up_images()[1][0][::-1]}
    )
    records = cifar10_records.Cifar10Records(folder, tuned)
    training = Untrained(images, cifar10_training.TINY, "float32", records, folder, np.inf)
    training.diverging = diverging
    return command.Experiment(training, records), records


def test_the_work_ends_in_one_record_per_method(tmp_path):
    made, records = experiment(tmp_path)
    assert not any(made.done(piece) for piece in plan.WORK)
    assert command.do_all(made, plan.WORK, deadline=np.inf) == 0
    assert all(made.done(piece) for piece in plan.WORK)
    found = [(one["network"], one["method"], one["held_out"], one["seed"]) for one in records.select("result")]
    assert len(found) == len(set(found)) == 3 * (10 + 7)  # ten methods, seven of them also with classes held out
    epochs = {(one["method"], one["held_out"]): one["epochs"] for one in records.select("result")}
    assert (epochs["mixture", False], epochs["mixture_svd", False], epochs["swag", False]) == (64, 24, 8)
    assert epochs["deep_ensemble", True] == epochs["mixture_svd", True] == epochs["mc_dropout", True] == 24
    again = cifar10_records.Cifar10Records(tmp_path)  # as a second call reads it
    assert again.lines == records.lines
    one = again.select("result", method="mixture_svd", held_out=False, seed=0)[0]
    assert one["parameters"] == 400 and np.shape(list(one["corrupted_nll"].values())) == (8, 5)
    assert len(one["components"]) == 4
    first = again.select("result", method="low_rank_svd", held_out=False, seed=0)[0]
    assert "components" not in first and len(set(one["components"])) == 4
    np.testing.assert_allclose(np.mean(list(one["corrupted_nll"].values())), one["corrupted"]["nll"], atol=1e-4)
    assert set(one["other"]["clothes"]) == {"auroc_entropy", "auroc_mi"}
    assert again.select("result", method="swag")[0]["parameters"] == 900
    held_out = again.select("result", method="mc_dropout", held_out=True, seed=0)[0]
    names = {"max_softmax", "energy", "mahalanobis", "greyness", "darkness", "contrast", "roughness"}
    assert set(held_out["ood"]) == {"auroc_entropy", "auroc_mi"}
    plain = again.select("result", method="deterministic", held_out=False, seed=0)[0]
    assert set(plain["detectors"]["clothes"]) == names


def test_work_continues_where_all_configurations_of_a_family_diverge(tmp_path):
    """A tuning with fewer numbers than configurations is done: nothing waits for the missing ones."""
    made, records = experiment(tmp_path, diverging="dropout")
    assert command.do_all(made, plan.WORK, deadline=np.inf) == 0
    lost = [piece for piece in plan.WORK if not made.done(piece)]
    assert [(piece.family, piece.seed) for piece in lost] == [("dropout", seed) for seed in plan.RESULT_SEEDS] * 2
    assert [one["diverged"] for one in records.select("tuning", family="dropout")] == [True] * 3
    assert len(records.select("result", method="swag")) == 3


def test_tuning_is_done_with_the_configurations_of_the_plan_and_not_with_as_many_others(tmp_path):
    made, records = experiment(tmp_path)
    piece = plan.Piece("resnet20", "dropout")
    for name in ("rate 1", "rate 2", "rate 3"):
        records.add({"stage": "tuning", "network": piece.network, "family": piece.family, "configuration": name})
    assert not made.done(piece)
    made.do(piece)
    assert made.done(piece)


def test_only_families_of_the_plan_can_be_asked_for(capsys, tmp_path):
    with pytest.raises(SystemExit):
        command.main(["--tiny", "--minutes", "0", "--out", str(tmp_path), "--only", "tied"])
    assert "'low_rank'" in (printed := capsys.readouterr().err) and "'distilled'" not in printed


def test_a_process_of_one_seed_leaves_out_a_family_until_the_process_that_tunes_has_chosen(tmp_path):
    tuner, _ = experiment(tmp_path / "tuning")
    alone, records = experiment(tmp_path / "seed", tuned=tmp_path / "tuning")
    dropout = plan.Piece("resnet20", "dropout", 1)
    command.do_all(alone, [dropout], deadline=np.inf)
    assert not records.lines  # not tuned yet
    command.do_all(tuner, [plan.Piece("resnet20", "dropout")], deadline=np.inf)
    command.do_all(alone, [dropout], deadline=np.inf)
    assert [(one["stage"], one["method"], one["seed"]) for one in records.lines] == [("result", "mc_dropout", 1)]
    best = min(tuner.records.select("tuning"), key=lambda one: one["validation"]["nll"])
    assert records.lines[0]["settings"] == best["settings"]


def test_a_piece_that_will_not_end_is_begun_only_where_another_call_follows(tmp_path):
    made, records = experiment(tmp_path)
    work = [piece for piece in plan.WORK if piece.seed is not None][:1]
    made.training.seconds_per_step = {("resnet20", "deterministic"): 1e6}
    command.do_all(made, work, deadline=time.time() + 60)
    assert not records.lines
    command.do_all(made, work, deadline=time.time() + 60, will_resume=True)
    assert len(records.select("result")) == 2


def test_a_second_call_resumes_with_the_networks_that_were_kept(tmp_path):
    class Counting(cifar10_training.Training):
        """A training whose networks are their numbers."""

        def program(self, network, kind):
            variables = SimpleNamespace(trainable_variables=[0], non_trainable_variables=[])
            return SimpleNamespace(model=variables)

        def train(self, network, method, settings, data, seed, member=0):
            trained.append((method.kind, seed, member))
            return {"weights": [np.array([seed, member])], "others": []}

    trained: list[tuple] = []
    images = cifar10_training.Images(*command.made_up_images(), corrupted=3)
    for member in (0, 1, 0, 1):
        call = Counting(
            images, cifar10_training.TINY, "float32", cifar10_records.Cifar10Records(tmp_path), tmp_path, np.inf
        )
        for method in (plan.METHODS["mixture"], plan.METHODS["mixture_svd"]):
            state = call.kept_or_trained("resnet20", method, plan.Settings(0.1), "all", 2, member)
            np.testing.assert_array_equal(state["weights"][0], [2, member])
    assert trained == [("low_rank", 2, 0)] * 2 + [("low_rank", 2, 1)] * 2  # from a random start and from an SVD
    assert not list(tmp_path.glob("*.part.npz"))


@pytest.mark.parametrize("torn", ['{"stage": "res', '{"stage": "result"}'])
def test_a_line_that_a_kill_has_cut_is_left_out_and_the_next_one_takes_its_place(torn, tmp_path):
    whole = '{"stage": "tuning"}\n'
    (tmp_path / cifar10_records.LINES).write_text(whole + torn)
    records = cifar10_records.Cifar10Records(tmp_path)
    assert records.lines == [{"stage": "tuning"}]
    records.add({"stage": "ranks"})
    assert (tmp_path / cifar10_records.LINES).read_text() == whole + '{"stage": "ranks"}\n'
    assert cifar10_records.read_lines(tmp_path) == records.lines == [{"stage": "tuning"}, {"stage": "ranks"}]


def test_a_network_that_diverged_has_no_scores(tmp_path):
    logits = np.zeros((2, 40, 10))
    logits[1, 3, 2] = np.nan
    assert image_scores.quality(logits, np.arange(40) % 10) is None
    made, records = experiment(tmp_path)
    piece = plan.Piece("resnet9", "tied", 0)
    assert made._scores(piece, {"test": logits, "corrupted": logits}) == {"diverged": True}
    with pytest.raises(cifar10_records.NotTuned, match="tied on resnet9 needs a configuration that was tuned"):
        records.chosen("resnet9", "tied")
