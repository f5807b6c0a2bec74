"""The service of docs/deploy.md over HTTP: right answers to requests at once, refusals without a trace, an alarm."""

import http.client
import importlib.util
import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import keras
import numpy as np
import pytest
from posterior_table import TORCH_FIRST

import singularbayes as sb

SCRIPT = Path(__file__).parents[2] / "docs" / "scripts" / "service.py"
EXPORTERS = {"tensorflow": "tf2onnx", "torch": "onnxscript", "jax": "jax2onnx"}
# Exporters warn of their own future. What TensorFlow exports is run in test_export.py.
pytestmark = [pytest.mark.backend, TORCH_FIRST, pytest.mark.filterwarnings("ignore")]
RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 4)).astype("float32")


@pytest.fixture(scope="module")
def network():
    keras.utils.set_random_seed(0)
    head = sb.layers.Dense(3, posterior=sb.LowRank(2, eta=0.5))
    model = keras.Sequential([keras.Input((4,), name="rows"), head])
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


@pytest.fixture(scope="module")
def service(network, tmp_path_factory):
    """The module, and the port that it answers on."""
    for package in (EXPORTERS[keras.backend.backend()], "onnxruntime", "fastapi", "uvicorn"):
        pytest.importorskip(package, reason=f"the service needs {package}")
    import uvicorn

    folder = tmp_path_factory.mktemp("service")
    sb.freeze_draws(network, 20).export(str(folder / "model.onnx"), format="onnx", verbose=False)
    sb.Monitor(sb.predict(network, X, draws=20), alpha=0.01).save(folder / "monitor.json")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        specification = importlib.util.spec_from_file_location("service", SCRIPT)
        module = importlib.util.module_from_spec(specification)
        specification.loader.exec_module(module)
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(module.app, log_level="critical"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    while not server.started and thread.is_alive():
        time.sleep(0.01)
    yield module, listening.getsockname()[1]
    server.should_exit = True
    thread.join(30)
    assert not thread.is_alive()


def _post(port, body, headers=None):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    connection.request("POST", "/predict", body, {"content-type": "application/json", **(headers or {})})
    reply = connection.getresponse()
    found = reply.status, reply.read()
    connection.close()
    return found


def _asked(port, x):
    status, body = _post(port, json.dumps({"rows": x.tolist()}))
    assert status == 200, body
    return json.loads(body)


def test_requests_at_once_get_their_own_answers_and_all_are_watched(service, network):
    module, port = service
    before = module.monitor.status.seen
    parts = [X[i : i + 1 + i % 5] for i in range(40)]
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda part: _asked(port, part), parts))
    p = sb.predict(network, X, draws=20)
    for i, (part, answer) in enumerate(zip(parts, answers, strict=True)):
        rows = slice(i, i + len(part))
        for name in ("mean", "entropy", "mutual_information"):
            np.testing.assert_allclose(answer[name], getattr(p, name)[rows], rtol=1e-4, atol=5e-6)
    assert module.monitor.status.seen - before == sum(map(len, parts))


ROW = "[1, 2, 3, 4]"


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ("{", 422, b"JSON"),
        ("[]", 422, b"detail"),
        ('{"rows": []}', 422, b"at least 1 item"),
        ('{"rows": [[1, 2, 3]]}', 422, b"Every row needs 4 finite numbers"),
        (f'{{"rows": [{ROW}, [1, 2, 3, NaN]]}}', 422, b"Every row needs 4 finite numbers"),
        ('{"rows": [[1, 2, 3, 1e300]]}', 422, b"Every row needs 4 finite numbers"),
        ('{"rows": [[1, 2, 3, "a"]]}', 422, b"valid number"),
        (f'{{"rows": [{", ".join([ROW] * 1001)}]}}', 422, b"at most 1000 items"),
        (" " * 1_000_001, 413, b"at most 1000000"),
    ],
    ids=["bad_json", "list", "no_rows", "width", "nan", "infinite", "text", "rows", "bytes"],
)
def test_what_is_no_question_is_refused_and_leaves_no_trace(service, body, status, message):
    module, port = service
    seen = module.monitor.status.seen
    found, text = _post(port, body)
    assert found == status and message in text
    assert module.monitor.status.seen == seen
    assert len(_asked(port, X[:2])["mean"]) == 2


def test_a_request_of_unknown_length_is_refused(service):
    _, port = service
    assert _post(port, iter([b"{"]), {"transfer-encoding": "chunked"})[0] == 413


def test_other_inputs_raise_the_alarm(service):
    module, port = service
    module.monitor.reset()  # the rows that other tests ask for again and again are not exchangeable
    assert _asked(port, RNG.normal(size=(50, 4)))["alarm"] is False
    for _ in range(3):
        answer = _asked(port, 0.01 * X[:100])  # near 0, where all classes are alike
    assert answer["alarm"] is True and answer["status"].startswith("Alarm: uncertainty, after")


def test_the_page_shows_the_script():
    page = (SCRIPT.parents[1] / "deploy.md").read_text(encoding="utf-8")
    assert f"```py\n{SCRIPT.read_text(encoding='utf-8')}```" in page
    assert sum(map(bool, SCRIPT.read_text(encoding="utf-8").splitlines())) <= 32
