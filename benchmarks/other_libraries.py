"""Training steps and predictions of the MLP in other Bayesian libraries and in ours, in turn.

python benchmarks/other_libraries.py    # about ten minutes on two quiet cores, after the environments are made

The libraries live in two environments, .venvs/torch and .venvs/jax, which are made when first needed.
"""

import subprocess
import sys
from contextlib import ExitStack

import records
from cyclopts import App
from gate import FEWEST, Process, alternate, prepare
from rich.console import Console

app = App(help=__doc__)
FOLDER, SOURCE = records.ROOT / ".venvs", str(records.ROOT / "src")
NEEDS = {
    "torch": "numpy==2.4.6 torch==2.13.0 bayesian-torch==0.5.0 torchbnn==1.2 blitz-bayesian-pytorch==0.2.8",
    "jax": "numpy==2.4.6 jax==0.10.2 jaxlib==0.10.2 numpyro==0.22.0",
}
OURS = ("Keras", "low-rank", "full-rank")


def interpreter(environment: str) -> str:
    """Returns the Python of an environment, after installing what it needs."""
    python, stamp = FOLDER / environment / "bin" / "python", FOLDER / environment / "installed.txt"
    if not stamp.exists() or stamp.read_text() != NEEDS[environment]:
        Console(stderr=True).print(f"Making .venvs/{environment}; this takes some minutes")
        subprocess.run([sys.executable, "-m", "venv", str(FOLDER / environment)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", *NEEDS[environment].split()], check=True)
        stamp.write_text(NEEDS[environment])
    return str(python)


@app.default
def main(*, rounds: int = 15, tiny: bool = False) -> None:
    """Measures all libraries and writes records/other_libraries.json."""
    absent, versions, found = dict[str, str](), dict[str, str](), dict[str, dict]()
    with ExitStack() as stack:
        processes = [Process(interpreter(environment), "peers", tiny) for environment in NEEDS]
        processes.append(
            Process(sys.executable, "rows", tiny, PYTHONPATH=SOURCE, KERAS_BACKEND="jax")
        )  # last, because its versions of packages count
        for process in processes:
            stack.callback(process.close)
            versions |= process.facts["versions"]
        for job in ("MLP step", "MLP prediction"):
            names = {name: p for p in processes for name in p.rows if name.startswith(f"{job}, ")}
            names = {n: p for n, p in names.items() if p is not processes[-1] or n.split(", ")[1] in OURS}
            failed = prepare({p: [name for name, its in names.items() if its is p] for p in processes})
            absent |= failed
            taking = [name for name in names if name not in failed]
            times = alternate(lambda who, job: {job: names[who].run(who)}, taking, [job], FEWEST if tiny else rounds)  # noqa: B023
            found |= {name: records.summary(seconds) for name, seconds in times[job].items()}
    for name, row in {**found, **absent}.items():
        print(f"{name}: {row}")
    if not tiny:
        records.write("other_libraries", {"versions": versions, "absent": absent, "rows": found})


if __name__ == "__main__":
    app()
