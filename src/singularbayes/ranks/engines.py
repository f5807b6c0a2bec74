"""Engines: where work is done, here one piece after another (`Local`), or on the machines of a Ray cluster (`Ray`).

An engine has one verb. `map(function, items)` yields (position, function(item)) as pieces end. Sweeps of ranks and runs
of experiments use it.
"""

import importlib
import os
import pickle
import socket
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from singularbayes.checks import require_at_least, require_package, require_positive

Tick = Callable[[], None]  # called now and then while others work

RETRIES = 10  # of a piece of work whose worker or machine was lost
ANSWER_S = 3.0  # for a machine to take a connection
JOIN_S = 30.0  # for Ray to take us in
TICK_S = 0.5
HEAD_S = 20.0  # without an answer of the head: Ray itself would wait for a minute and end the process
_OBJECTS = 80 << 20  # bytes of Ray's store, where we start it: results are small
# What decides the numbers, or where data are found, is the same for the workers.
_HANDED_ON = ("KERAS_BACKEND", "XLA_FLAGS", "JAX_", "TF_", "OMP_", "SINGULARBAYES_")


class Engine(ABC):
    """Where functions are called."""

    @abstractmethod
    def map(self, function: Callable, items: Sequence[Any], tick: Tick | None = None) -> Iterator[tuple[int, Any]]:
        """Yields the position of an item and what the function gives for it, in the order in which they end."""


class Local(Engine):
    """This process, one item after another.

    >>> list(Local().map(abs, [-1, 2]))
    [(0, 1), (1, 2)]
    """

    def map(self, function, items, tick=None):
        for position, item in enumerate(items):
            yield position, function(item)


class Ray(Engine):
    """The machines of a Ray cluster, each piece of work a task.

    A task whose worker or machine is lost is done again elsewhere, ten times at most. The function has to be one that
    may be called again, such as one that resumes from its checkpoints. An error of the function itself is raised here,
    and `ConnectionError` where the head of the cluster is lost: nothing can continue without it.

    The machines need Keras, its backend and the same version of Ray. This copy of `singularbayes` is sent to them.

    `Local()` has the same interface; docs/scaling.md has an example.

    Args:
        address: HOST:PORT of the cluster's head, or None: the cluster of this machine, else a new one.
        cpus: cores, and gpus: GPUs, that are set aside for a task.
        packages: names of further packages whose code is sent, such as the one that defines the function.
    """

    def __init__(self, address: str | None = None, cpus: float = 1, gpus: float = 0, packages: Sequence[str] = ()):
        require_positive("Ray", cpus=cpus)
        require_at_least("Ray", 0, gpus=gpus)
        self._ray = _imported()
        self.cpus, self.gpus = cpus, gpus
        if not self._ray.is_initialized():
            self._join(address, ["singularbayes", *packages])
        elif address not in (None, joined := self._ray.get_runtime_context().gcs_address):
            raise ValueError(
                f"Ray needs the address of the cluster that this process has joined, {joined}; got address={address!r}."
            )
        self._require_resources()

    def _join(self, address: str | None, packages: list[str]) -> None:
        quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "error"}
        sent = {"py_modules": [*map(_folder, packages)], "excludes": ["__pycache__"]}
        if address is not None:
            require_answer(address)
            self._ray.init(address, runtime_env=sent, **quiet)
            return
        try:
            self._ray.init("auto", runtime_env=sent, **quiet)
        except ConnectionError:
            self._ray.init("local", object_store_memory=_OBJECTS, include_dashboard=False, **quiet)

    def _require_resources(self) -> None:
        here = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        if not any(has.get("CPU", 0) >= self.cpus and has.get("GPU", 0) >= self.gpus for has in here):
            there = ", ".join(f"{has.get('CPU', 0):g} CPUs and {has.get('GPU', 0):g} GPUs" for has in here)
            raise ValueError(
                f"Ray needs a machine with {self.cpus:g} CPUs and {self.gpus:g} GPUs; got a cluster of {there}."
            )

    def map(self, function: Callable, items: Sequence[Any], tick: Tick | None = None) -> Iterator[tuple[int, Any]]:
        ray, waiting = self._ray, dict[Any, int]()
        head = _Head(ray.get_runtime_context().gcs_address)
        try:
            while not head.answers():
                time.sleep(TICK_S)
            waiting |= self._sent(function, items)
            while waiting:
                done, _ = ray.wait(list(waiting), timeout=TICK_S)
                if tick is not None:
                    tick()
                for one in done:
                    yield waiting.pop(one), self._got(one)
                head.answers()
        finally:
            for one in waiting:
                ray.cancel(one, force=True)
            if head.lost:
                ray.shutdown()  # else Ray ends this process within a minute

    def _sent(self, function: Callable, items: Sequence[Any]) -> dict[Any, int]:
        """Returns the positions of the items by their tasks, which begin."""
        ray = self._ray
        environment = {name: value for name, value in os.environ.items() if name.startswith(_HANDED_ON)}
        task = ray.remote(num_cpus=self.cpus, num_gpus=self.gpus, max_retries=RETRIES)(_call)
        dumps = ray.cloudpickle.dumps
        packed = ray.put(dumps(function))  # it may hold data, which a machine is sent once for all items
        return {task.remote(environment, packed, dumps(item)): i for i, item in enumerate(items)}

    def _got(self, one: Any) -> Any:
        errors = self._ray.exceptions
        try:
            return self._ray.get(one)
        except errors.RayTaskError as error:
            raise error.cause from error  # the function's own, as the local engine raises it
        except errors.RuntimeEnvSetupError as error:
            raise ChildProcessError(
                f"A machine of the cluster could not take the code that was sent: {error}"
            ) from error
        except errors.RayError as error:
            text = str(error).strip().splitlines()[0]
            raise ChildProcessError(
                f"A piece of work lost its worker {RETRIES + 1} times; it may have run out of memory: {text} "
                "The same command resumes."
            ) from error


class _Head:
    """The head of a cluster, which is polled now and then."""

    def __init__(self, address: str):
        self.address = address
        self.silent_since: float | None = None
        self.lost = False

    def answers(self) -> bool:
        """Whether the head is there; raises if it has not answered for a while."""
        now = time.monotonic()
        try:
            _connect(self.address)
            self.silent_since = None
            return True
        except OSError as error:
            self.silent_since = now if self.silent_since is None else self.silent_since
            self.lost = now - self.silent_since >= HEAD_S
            if self.lost:
                raise ConnectionError(
                    f"Ray needs the head of its cluster; {self.address} has not answered for {HEAD_S:g} s: "
                    f"{error}. Start the cluster again; the same command resumes."
                ) from None
            return False


def _connect(address: str) -> None:
    host, _, port = address.rpartition(":")
    socket.create_connection((host.strip("[]"), int(port)), timeout=ANSWER_S).close()


def _call(environment: dict[str, str], function: bytes, item: bytes) -> Any:
    """Calls a function in a worker: unpacked after the environment is set, because unpacking may import Keras."""
    os.environ.pop("OMP_NUM_THREADS", None)  # Ray sets it to the cores of a task; the last bits of sums depend on it
    os.environ.update(environment)
    return pickle.loads(function)(pickle.loads(item))


def _folder(package: str) -> str:
    """Returns the folder of a package's code."""
    return str(Path(str(importlib.import_module(package).__file__)).parent)


def _imported() -> Any:
    return require_package("ray", "ray", "Ray")


def require_answer(address: str) -> None:
    """Raises unless the head of a Ray cluster answers there: Ray itself would wait for a minute and end the process."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or "/" in host:
        raise ValueError(
            f"Ray needs address='HOST:PORT' of the head of a cluster, such as '10.0.0.1:6379'; got address={address!r}."
        )
    try:
        _connect(address)
    except (OSError, OverflowError) as error:
        raise ValueError(
            f"Ray needs the address of the head of a cluster that answers; got address={address!r}: {error}. Start it "
            "on that machine: ray start --head --port 6379."
        ) from None
    code = "import sys, ray; ray.init(sys.argv[1], log_to_driver=False, logging_level='error')"
    try:
        subprocess.run([sys.executable, "-c", code, address], check=True, capture_output=True, timeout=JOIN_S)
    except subprocess.TimeoutExpired:
        raise ValueError(
            f"Ray needs the address of the head of a cluster; got address={address!r}, which takes a connection and "
            f"could not be joined within {JOIN_S:g} s."
        ) from None
    except subprocess.CalledProcessError as error:
        text = (error.stderr or b"").decode(errors="replace").strip().splitlines()
        raise ValueError(
            f"Ray needs the address of the head of a cluster of the same version; got address={address!r}, which "
            f"cannot be joined{': ' + text[-1] if text else ''}."
        ) from None
