"""Last-layer Laplace by `laplace-torch` for the experiment `finetune`, on features that its run has kept.

    python -m singularbayes_experiments.runs.finetune_laplace --features runs/finetune-features --out runs/finetune

The networks are those of LoRA (`runs/finetune.py --features`). The posterior of the head is Kronecker-factored, and the
precision of its prior is the one of 13 from 10⁻² to 10⁴ with the least NLL of the validation rows. Predictions average
32 draws of the head, which for a linear head is the linearised prediction. Needs torch and laplace-torch.
A test has its choice and record, not Laplace.
"""

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from singularbayes.prediction import ClassPredictive
from singularbayes_experiments.problems import finetune as plan
from singularbayes_experiments.runs.finetune_records import FinetuneRecords, append, detection, quality

PRECISIONS = tuple(10.0 ** np.arange(-2, 4.1, 0.5))
DRAWS = 32
_PARTS = ("validation", "test", "ood")


def laplace(arrays: dict[str, np.ndarray], seed: int):
    """Returns the fitted Laplace approximation of a head."""
    import torch
    from laplace import Laplace
    from torch.utils.data import DataLoader, TensorDataset

    torch.manual_seed(seed)
    classes = int(arrays["classes"])
    head = torch.nn.Linear(arrays["kernel"].shape[0], classes)
    with torch.no_grad():
        head.weight.copy_(torch.from_numpy(arrays["kernel"][:, :classes].T.copy()))
        head.bias.copy_(torch.from_numpy(arrays["bias"][:classes].copy()))
    x, y = torch.from_numpy(arrays["train"].astype("float32")), torch.from_numpy(arrays["train_labels"].astype("int64"))
    device = "cuda" if torch.cuda.is_available() else "cpu"
    x, y, head = x.to(device), y.to(device), head.to(device)
    found = Laplace(head, "classification", subset_of_weights="all", hessian_structure="kron")
    found.fit(DataLoader(TensorDataset(x, y), batch_size=256))
    return found


def predicted(found, features: np.ndarray) -> ClassPredictive:
    """Returns the mean over draws of the head."""
    import torch

    torch.manual_seed(0)
    x = torch.from_numpy(features.astype("float32")).to(next(found.model.parameters()).device)
    draws = found.predictive_samples(x, pred_type="nn", n_samples=DRAWS)
    p = draws.detach().cpu().numpy().astype("float64")
    entropy = -(p * np.log(np.maximum(p, 1e-30))).sum(-1).mean(0)
    return ClassPredictive(p.mean(0), np.zeros((1, 1)), DRAWS, expected_entropy=entropy)


def score(path: Path) -> dict:
    """Returns the record of one network."""
    begun = time.time()
    with np.load(path) as file:
        arrays = dict(file)
    setting, seed = path.stem.rsplit("-", 1)
    found = laplace(arrays, int(seed))
    nll = {}
    for precision in PRECISIONS:
        found.prior_precision = float(precision)
        nll[float(precision)] = quality(predicted(found, arrays["validation"]), arrays["validation_labels"])["nll"]
    best = min(nll, key=nll.__getitem__)
    found.prior_precision = best
    p = {part: predicted(found, arrays[part]) for part in _PARTS if part in arrays}
    line: dict = {
        "stage": "result",
        "setting": setting,
        "method": "laplace",
        "kind": "lora",
        "configuration": f"prior precision {best:.3g}",
        "seed": int(seed),
        "precisions": nll,
        "seconds": round(time.time() - begun, 2),
    }
    for part in ("validation", "test"):
        line[part] = quality(p[part], arrays[f"{part}_labels"])
    if "ood" in p:
        line["ood"] = detection(p["test"], p["ood"])
    return line


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--features", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path("runs/finetune"))
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--wait", action="store_true", help="for files that come, until the minutes are over")
    given = parser.parse_args(arguments)
    deadline = time.time() + 60 * given.minutes
    given.out.mkdir(parents=True, exist_ok=True)
    order = [one.name for one in plan.SETTINGS]
    known = [line for line in FinetuneRecords(given.out, []).lines if line["method"] == "laplace"]
    done = {f"{line['setting']}-{line['seed']}" for line in known}
    while time.time() < deadline:
        found = [path for path in given.features.glob("*.npz") if path.suffixes == [".npz"] and path.stem not in done]
        if not found and not given.wait:
            break
        if not found:
            time.sleep(2)
            continue
        path = min(found, key=lambda path: (order.index(path.stem.rsplit("-", 1)[0]), path))
        done.add(path.stem)
        line = score(path)
        append(given.out / "finetune-laplace.jsonl.gz", [line])
        print(path.stem, line["configuration"], line["test"], f"{line['seconds']} s", flush=True)


if __name__ == "__main__":
    main()
