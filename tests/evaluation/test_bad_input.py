"""Every bad input is an error that names what is needed, what was given, and where; nothing is harmed by it."""

import io
import json
import shutil
import zipfile

import keras
import numpy as np
import pytest
from posterior_table import TORCH_FIRST

import singularbayes as sb
from singularbayes import Deterministic, FullRank, LowRank, RankOne, ScaleMixture, layers

pytestmark = pytest.mark.on_torch

X, LABELS = np.ones((4, 3), "float32"), np.zeros(4, int)


def _model(**arguments):
    return keras.Sequential(
        [keras.Input((3,)), layers.Dense(2, posterior=LowRank(1), name="head", **arguments)], name="net"
    )


class TestArguments:
    CASES = (
        (lambda: LowRank(0), r"LowRank needs rank to be an integer >= 1; got rank=0"),
        (lambda: LowRank(-2), r"got rank=-2"),
        (lambda: LowRank(2.0), r"got rank=2\.0"),
        (lambda: LowRank(True), r"got rank=True"),
        (lambda: LowRank(1, prior="cauchy"), r"prior needs .*\['anchored', 'laplace', .*got prior='cauchy'"),
        (lambda: LowRank(1, family="student"), r"family needs .*\['gaussian', 'laplace'\]; got family='student'"),
        (lambda: LowRank(1, kl_weight=-1.0), r"needs kl_weight >= 0 and finite; got kl_weight=-1\.0"),
        (lambda: FullRank(eta=0), r"FullRank needs eta > 0 and finite; got eta=0"),
        (lambda: RankOne("sum"), r"RankOne needs form .*\['outer', 'product', 'scale'\]; got form='sum'"),
        (lambda: ScaleMixture(pi=1.0), r"0 < pi < 1; got pi=1\.0"),
        (lambda: sb.Normal(-1.0), r"Normal needs scale > 0 and finite; got scale=-1\.0"),
        (lambda: layers.Dense(2, posterior="lowrank"), r"one of \['adapter', .*\]; got 'lowrank'"),
        (lambda: sb.KLSchedule(0), r"num_data > 0 and finite; got num_data=0"),
        (lambda: sb.KLSchedule(-3), r"got num_data=-3"),
        (lambda: sb.KLSchedule([100]), r"needs num_data=len\(x\); got num_data of shape \(1,\)"),
        (lambda: sb.KLSchedule(X), r"needs num_data=len\(x\); got num_data of shape \(4, 3\)"),
        (lambda: sb.KLSchedule(10, beta=-0.5), r"beta >= 0 and finite; got beta=-0\.5"),
        (lambda: sb.KLSchedule(10, beta=float("nan")), r"got beta=nan"),
        (lambda: sb.KLSchedule(10, warmup=-1), r"warmup to be an integer >= 0; got warmup=-1"),
        (lambda: sb.KLSchedule(10, zero_epochs=1.5), r"got zero_epochs=1\.5"),
        (lambda: sb.set_kl(_model(), 0), r"got num_data=0"),
        (lambda: sb.set_kl(_model(), 10, beta=-1), r"got beta=-1"),
        (lambda: sb.kl(_model(), "sampled"), r"kl needs method to be one of .*; got method='sampled'"),
        (lambda: sb.certify(_model(), X, LABELS, seed=-1), r"certify needs seed to be an integer >= 0; got seed=-1"),
        (
            lambda: sb.certify(_model(), X[:, :2], LABELS, form="holdout", likelihood="categorical_logits"),
            r"certify needs inputs of shape \(None, 3\)",
        ),
    )

    @pytest.mark.parametrize(("make", "message"), CASES, ids=[message for _, message in CASES])
    def test_the_error_names_need_and_got(self, make, message):
        with pytest.raises(ValueError, match=message):
            make()

    REFUSED = (
        ("kernel_regularizer", "l2", "the KL to the prior is the regularizer"),
        ("kernel_constraint", "non_neg", "a constraint on one draw does not constrain the posterior"),
        ("lora_rank", 4, "LoRA is a deterministic adapter"),
        ("lora_alpha", 4, "LoRA is a deterministic adapter"),
        ("quantization_config", "int8", "collapse it to its mean first"),
    )

    @pytest.mark.parametrize(("name", "value", "reason"), REFUSED)
    def test_refused_keras_arguments_say_why(self, name, value, reason):
        with pytest.raises(ValueError, match=rf"Dense needs {name}=None: .*{reason}.*Got {name}="):
            layers.Dense(2, posterior=LowRank(1), **{name: value})
        name = name.replace("kernel", "embeddings")
        with pytest.raises(ValueError, match=rf"Embedding needs {name}=None: .*{reason}"):
            layers.Embedding(5, 2, posterior=LowRank(1), **{name: value})

    def test_weights_of_the_wrong_shape_name_both_shapes(self):
        for posterior in (LowRank(1), FullRank(), RankOne(), Deterministic()):
            with pytest.raises(ValueError, match=r"\(5, 4\).*\(4, 5\)|\(4, 5\).*\(5, 4\)"):
                layers.Embedding(5, 4, weights=np.ones((4, 5)), posterior=posterior)

    def test_a_schedule_for_a_model_without_a_posterior_says_so(self):
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)], name="plain")
        model.compile("sgd", "mse")
        with pytest.raises(ValueError, match=r"needs a model with a posterior.*got 'plain' with none"):
            model.fit(X, X[:, :1], verbose=0, callbacks=[sb.KLSchedule(4)])


class TestPredict:
    CASES = (
        (X, {"draws": 0}, r"draws to be an integer >= 1; got draws=0"),
        (X, {"draws": -5}, r"got draws=-5"),
        (X, {"draws": 2.5}, r"got draws=2\.5"),
        (X, {"batch_size": 0}, r"got batch_size=0"),
        (X, {"seed": -1}, r"seed to be an integer >= 0; got seed=-1"),
        (X, {"seed": None}, r"got seed=None"),
        (np.where(np.eye(4, 3) > 0, np.nan, 1), {}, r"without NaN; got NaN at index \(0, 0\) of an array \(4, 3\)"),
        (np.ones((4, 2)), {}, r"shape \(None, 3\) for model 'net'; got \(4, 2\)"),
        (np.ones(3), {}, r"shape \(None, 3\) for model 'net'; got \(3,\)"),
        (np.ones((4, 3, 1)), {}, r"got \(4, 3, 1\)"),
        ([X, X], {}, r"got \(4, 3\), \(4, 3\)"),
        (np.ones((0, 3)), {}, "x with the same number of examples, at least 1; x has 0"),
        (3.0, {}, "at least 1; x has 0"),
        (np.full((4, 3), "a"), {}, r"numeric inputs; got an array of dtype <U1"),
        (np.full((4, 3), 2**33), {}, r"integers that fit 32 bits; got 8589934592"),
        (X, {"likelihood": None}, r"the loss of 'net' does not specify it; got loss=None\. Compile the model"),
        (X, {"likelihood": "weibull"}, r"got likelihood='weibull'"),
        (X, {"output": "score"}, r"output= to be one of \[.*\] or a position; got output='score'"),
        (X, {"output": 1}, r"output= to be a name or a position 0 to 0; got output=1"),
    )

    @pytest.mark.parametrize(("x", "arguments", "message"), CASES, ids=[message for *_, message in CASES])
    def test_the_error_names_need_and_got(self, x, arguments, message):
        with pytest.raises(ValueError, match=message):
            sb.predict(_model(), x, **{"likelihood": "gaussian", "draws": 2, **arguments})

    UNREAD = (
        ("x.npy", r"arrays, tables, or batches of them; got 'x\.npy'\. Read the file first"),
        (lambda: iter([X]), r"arrays, tables, or batches of them; got a function\. Call the function"),
    )

    @pytest.mark.parametrize(("x", "message"), UNREAD, ids=[message for _, message in UNREAD])
    def test_data_that_are_not_read_yet_are_refused(self, x, message):
        with pytest.raises(TypeError, match=message):
            sb.predict(_model(), x, draws=2, likelihood="gaussian")

    MASKED = np.ma.masked_greater(np.arange(12.0).reshape(4, 3), 9)
    TAKERS = (
        lambda x, y: sb.predict(_model(), x, draws=2, likelihood="gaussian"),
        lambda x, y: sb.predict(_model(), [x], draws=2, likelihood="gaussian"),
        lambda x, y: sb.evaluate(_model(), (x, y), likelihood="categorical_logits", draws=2),
        lambda x, y: sb.evaluate(_model(), (X, y), likelihood="categorical_logits", draws=2),
        lambda x, y: sb.certify(_model(), x, y, likelihood="categorical_logits", draws=2),
        lambda x, y: sb.diagnose(_model(), x, likelihood="categorical_logits", draws=2),
        lambda x, y: sb.fit_many(_model, x, y, [0], 1),
        lambda x, y: sb.fit_many(_model, X, y, [0], 1),
        lambda x, y: sb.fit_many(_model, X, X, [0], 1, sample_weight=y),
        lambda x, y: sb.fit_many(_model, X, X, [0], 1, validation_data=(x, X)),
        lambda x, y: sb.metrics.accuracy(np.full((4, 2), 0.5), y),
        lambda x, y: sb.metrics.root_mean_square_error(x, X),
    )

    @pytest.mark.parametrize("take", TAKERS)
    def test_masked_entries_are_refused_wherever_arrays_are_taken(self, take):
        labels = np.ma.array([0, 1, 0, 1], mask=[0, 0, 1, 1])
        with pytest.raises(ValueError, match=r"needs plain arrays; got 2 masked entries .*array\.filled\(value\)"):
            take(self.MASKED, labels)

    def test_a_masked_array_without_masked_entries_loses_nothing(self):
        model = _model()
        masked, plain = (sb.predict(model, x, draws=2, seed=0, likelihood="gaussian") for x in (np.ma.array(X), X))
        np.testing.assert_array_equal(masked.mean, plain.mean)

    def test_a_file_is_no_model(self):
        with pytest.raises(TypeError, match=r"needs a Keras model; got 'm\.keras'\. Read .* singularbayes\.load"):
            sb.predict("m.keras", X)

    def test_an_infinite_input_is_named_where_it_becomes_nan(self):
        model = _model(activation="softmax")
        with pytest.raises(ValueError, match=r"NaN from the model for example 2\. Its input holds an infinite"):
            sb.predict(model, np.where(np.arange(4)[:, None] == 2, np.inf, X), draws=2, likelihood="categorical")

    def test_an_output_that_only_a_call_shows_to_be_missing_is_named(self):
        class Mine(keras.Model):
            def call(self, x):
                return x

        with pytest.raises(ValueError, match=r"output= for a model with 1 outputs; got output=1"):
            sb.predict(Mine(), X, draws=2, likelihood="gaussian", output=1)

    @TORCH_FIRST
    @pytest.mark.parametrize("wrong", [-1, 5])
    def test_an_id_out_of_range_is_named(self, wrong):
        embedding = layers.Embedding(5, 4, posterior=LowRank(1), name="words")
        model = keras.Sequential([keras.Input((3,), dtype="int32"), embedding])
        ids = np.array([[0, 1, 2], [3, wrong, 4]])
        with pytest.raises(ValueError, match=rf"'words' needs ids from 0 to 4; got the id {wrong}\."):
            sb.predict(model, ids, draws=2, likelihood="gaussian")

    @TORCH_FIRST
    def test_weights_that_became_nan_are_named(self):
        model = _model()
        model.layers[-1].bias.assign([np.nan, 0])
        with pytest.raises(ValueError, match=r"got NaN from the model for example 0\. The weights may have become NaN"):
            sb.predict(model, X, draws=2, likelihood="gaussian")


class TestFiles:
    @pytest.fixture
    def path(self, tmp_path):
        _model().save(tmp_path / "model.keras")
        return tmp_path / "model.keras"

    def _rewrite(self, path, part, data):
        """Replaces, or with None leaves out, one part of the archive."""
        with zipfile.ZipFile(path) as archive:
            parts = {name: archive.read(name) for name in archive.namelist()}
        parts[part] = data
        with zipfile.ZipFile(path, "w") as archive:
            for name, content in parts.items():
                if content is not None:
                    archive.writestr(name, content)

    def _refused(self, path, message, error=ValueError):
        with pytest.raises(error, match=message) as caught:
            sb.load(path)
        assert str(path) in str(caught.value)

    def test_a_whole_file_is_loaded(self, path):
        assert sb.load(str(path)).name == "net"

    def test_a_missing_file(self, tmp_path):
        self._refused(tmp_path / "none.keras", "which is not there", FileNotFoundError)
        self._refused(tmp_path, "which is a folder", FileNotFoundError)

    @pytest.mark.parametrize("content", [b"", b"not a model", b"\x89HDF\r\n\x1a\n" + bytes(100)])
    def test_a_file_of_something_else(self, tmp_path, content):
        (tmp_path / "other.keras").write_bytes(content)
        self._refused(tmp_path / "other.keras", "not a zip archive")

    @pytest.mark.parametrize("part", [0.3, 0.7, 0.99])
    def test_a_truncated_file(self, path, part):
        content = path.read_bytes()
        path.write_bytes(content[: int(part * len(content))])
        self._refused(path, "not a zip archive any more: it begins as one and is cut off")

    def test_another_zip_archive(self, tmp_path):
        with zipfile.ZipFile(tmp_path / "other.keras", "w") as archive:
            archive.writestr("readme.txt", "hello")
        self._refused(tmp_path / "other.keras", r"an archive without \['config.json', 'metadata.json', 'model.weights")

    @pytest.mark.parametrize("part", ["config.json", "metadata.json", "model.weights.h5"])
    def test_a_file_without_a_part(self, path, part):
        self._rewrite(path, part, None)
        self._refused(path, rf"an archive without \['{part}'\]")

    def test_a_flipped_byte(self, path):
        content = bytearray(path.read_bytes())
        with zipfile.ZipFile(io.BytesIO(bytes(content))) as archive:
            largest = max(archive.infolist(), key=lambda part: part.compress_size)
        content[largest.header_offset + len(largest.filename) + 30 + largest.compress_size // 2] ^= 0xFF
        path.write_bytes(content)
        self._refused(path, "is damaged")

    def test_a_config_that_is_not_json(self, path):
        self._rewrite(path, "config.json", "{")
        self._refused(path, "load needs a whole")

    @pytest.mark.parametrize("config", ["[]", "{}", '"text"', "null"])
    def test_a_config_that_is_no_model(self, path, config):
        self._rewrite(path, "config.json", config)
        self._refused(path, "load needs a ")

    def test_weights_that_are_not_hdf5(self, path):
        self._rewrite(path, "model.weights.h5", b"nothing")
        self._refused(path, "load needs a whole")

    def test_weights_of_another_model(self, path, tmp_path):
        other = keras.Sequential([keras.Input((3,)), layers.Dense(7, posterior=LowRank(2))])
        other.save(tmp_path / "other.keras")
        with zipfile.ZipFile(tmp_path / "other.keras") as archive:
            self._rewrite(path, "model.weights.h5", archive.read("model.weights.h5"))
        self._refused(path, "load needs a whole")

    def _rewrite_layer(self, path, **changes):
        """Changes the description of the first layer."""
        with zipfile.ZipFile(path) as archive:
            config = json.loads(archive.read("config.json"))
        config["config"]["layers"][1].update(changes)
        self._rewrite(path, "config.json", json.dumps(config))

    def test_a_layer_that_is_not_known(self, path):
        self._rewrite(path, "metadata.json", json.dumps({"keras_version": "99.1.0"}))
        assert sb.load(path).name == "net"  # what can be read is read
        self._rewrite_layer(path, module="scipy.layers", class_name="Odd", registered_name="else>Odd")
        self._refused(path, r"written by Keras 99.1.0.* Import the packages that define its classes .*Odd")

    def test_a_file_with_code_in_it_is_refused_unless_it_is_trusted(self, tmp_path):
        path = tmp_path / "code.keras"
        keras.Sequential([keras.Input((3,)), keras.layers.Lambda(lambda x: 2 * x)]).save(path)
        self._refused(path, r"load refuses .*: it holds Python code.*pass safe_mode=False")
        np.testing.assert_array_equal(sb.load(path, safe_mode=False).predict(X[:2, :3], verbose=0), 2 * X[:2, :3])

    @pytest.mark.parametrize(("module", "name"), [("os", "system"), ("builtins", "eval"), ("keras.config", "backend")])
    def test_a_name_that_is_no_part_of_a_model_is_refused(self, path, module, name):
        self._rewrite_layer(path, module=module, class_name="function", config=name, registered_name=name)
        self._refused(path, "load ")

    def test_a_bad_file_is_left_as_it_was(self, path):
        copy = shutil.copy(path, path.with_name("copy.keras"))
        self._rewrite(path, "config.json", "{")
        before = path.read_bytes()
        self._refused(path, "load needs a whole")
        assert path.read_bytes() == before and sb.load(copy).name == "net"
