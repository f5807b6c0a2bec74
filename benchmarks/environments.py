"""Virtual environments of the peers, made when first needed: `.venvs/NAME`, shared by peers that do not clash."""

import re
import subprocess
import sys
from pathlib import Path

from rich.console import Console

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / ".venvs"
REQUIREMENTS = Path(__file__).parent / "peers" / "requirements"

# The environment of every peer. `requirements/ENVIRONMENT.txt` is installed first and holds the versions of the rest.
PEERS = {
    "bayesian_torch": "torch",
    "torchbnn": "torch",
    "blitz": "torch",
    "torch_uncertainty": "torch",
    "posteriors": "torch",
    "tensorflow_probability": "tensorflow",
    "numpyro": "jax",
}


class DoesNotInstall(Exception):
    """pip could not install a peer; the message has the reason."""


def interpreter(peer: str) -> Path:
    """Returns the Python that has `peer`, after making its environment if it is new or its requirements changed."""
    environment = FOLDER / PEERS[peer]
    python = environment / "bin" / "python"
    base = REQUIREMENTS / f"{PEERS[peer]}.txt"
    if not python.exists():
        _run([sys.executable, "-m", "venv", environment], f"Making .venvs/{environment.name}")
    for requirements in (base, REQUIREMENTS / f"{peer}.txt"):
        stamp = environment / f"{requirements.stem}.installed"
        if not stamp.exists() or stamp.read_text() != requirements.read_text():
            pip = [python, "-m", "pip", "install", "--disable-pip-version-check", "-r", requirements, "-c", base]
            _run(pip, f"Installing {requirements.stem} into .venvs/{environment.name}; this takes a minute or two")
            stamp.write_text(requirements.read_text())
    return python


def _run(command: list, what: str) -> None:
    Console(stderr=True).print(what)
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if done.returncode:
        raise DoesNotInstall(reason(done.stderr))


def reason(log: str) -> str:
    """Returns pip's error without addresses and folders of this machine."""
    errors = [line for line in log.splitlines() if line.lower().startswith("error")] or log.splitlines()[-1:]
    return without_places(errors[-1] if errors else "pip gave no reason")


def without_places(text: str) -> str:
    """Returns `text` with addresses left out and paths cut to their last name."""
    return re.sub(r"(?<![\w.])(/[\w.@+-]+)*/(?=[\w.@+-])", "", re.sub(r"\w+://\S+", "…", text))
