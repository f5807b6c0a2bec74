"""MonteCLoRA by PEFT for the experiment `finetune`, in torch, on SST-2 with 4,000 rows and CLINC150 with 10 per intent.

    python -m singularbayes_experiments.runs.finetune_monteclora --inputs inputs --out runs/finetune --minutes 20

Encoder, rank, places, head, rows, batches, epochs and schedule are those of `problems/finetune.py`. The encoder's
dropouts are at 0.1 in training. PEFT draws weights in training alone and predicts at their mean. It tries four
configurations, two learning rates × the default and a hundred times the default of the scale of its noise, where the
other methods try 16. Needs torch, transformers and peft. Steps are those of `runs/monteclora_steps.py`; `--eager` takes
them one operation at a time, as all records did: capturing them as CUDA graphs failed where it was tried. `--earlier`
names folders of records; what they have is not done again. At the deadline no further network is begun.
"""

import argparse
import itertools
import multiprocessing
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from singularbayes.prediction import ClassPredictive
from singularbayes_experiments.problems import finetune as plan
from singularbayes_experiments.problems.finetune_texts import Texts, batches, read_texts, read_weights
from singularbayes_experiments.runs.finetune_machine import schedule
from singularbayes_experiments.runs.finetune_records import FinetuneRecords, append, detection, quality
from singularbayes_experiments.runs.monteclora_steps import Steps, fix_draws

RATES = {"clinc150-10": (6e-4, 2e-3), "sst2-4000": (2e-4, 6e-4)}
SCALES = (1e-4, 1e-2)
DROPOUT = 0.1
_BLOCK = 16  # arrays of a block of the encoder
_PLACES = ("query", "key", "value", "attention.output.dense", "intermediate.dense", "output.dense")


def encoder(weights: Sequence[np.ndarray]) -> Any:
    """Returns the encoder of transformers with the weights of KerasHub's, which come in its order."""
    import torch
    from transformers import BertConfig, BertModel

    arrays = [np.asarray(array, "float32") for array in weights]
    config = BertConfig(
        vocab_size=len(arrays[0]),
        hidden_size=384,
        num_hidden_layers=6,
        num_attention_heads=12,
        intermediate_size=1536,
        max_position_embeddings=len(arrays[1]),
        hidden_act="gelu_pytorch_tanh",
        hidden_dropout_prob=DROPOUT,
        attention_probs_dropout_prob=DROPOUT,
        attn_implementation="eager",  # whose mask asks the device nothing
    )
    model = BertModel(config, add_pooling_layer=False)
    named: dict[str, np.ndarray] = {
        "embeddings.word_embeddings.weight": arrays[0],
        "embeddings.position_embeddings.weight": arrays[1],
        "embeddings.token_type_embeddings.weight": arrays[2],
        "embeddings.LayerNorm.weight": arrays[3],
        "embeddings.LayerNorm.bias": arrays[4],
    }
    for i in range(6):
        named |= {f"encoder.layer.{i}.{name}": array for name, array in _block(arrays[5 + _BLOCK * i :])}
    tensors = {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in named.items()}
    missing, unexpected = model.load_state_dict(tensors, strict=False)
    assert not unexpected and all("position_ids" in name or "token_type_ids" in name for name in missing), missing
    return model


def _block(arrays: Sequence[np.ndarray]) -> Iterator[tuple[str, np.ndarray]]:
    for i, name in enumerate(("query", "key", "value")):
        yield f"attention.self.{name}.weight", arrays[2 * i].reshape(384, 384).T
        yield f"attention.self.{name}.bias", arrays[2 * i + 1].ravel()
    yield "attention.output.dense.weight", arrays[6].reshape(384, 384).T
    names = ("attention.output.dense.bias", "attention.output.LayerNorm.weight", "attention.output.LayerNorm.bias")
    yield from zip((*names, "output.LayerNorm.weight", "output.LayerNorm.bias"), arrays[7:12], strict=True)
    for place, name in ((12, "intermediate"), (14, "output")):
        yield f"{name}.dense.weight", arrays[place].T
        yield f"{name}.dense.bias", arrays[place + 1]


def logits_of(body, head, tokens):
    """Returns the head's logits of the mean of the tokens."""
    mask = (tokens != 0).long()
    states = body(input_ids=tokens, attention_mask=mask).last_hidden_state.float()
    return head((states * mask[..., None]).sum(1) / mask.sum(1, keepdim=True))


def train(
    folder: Path,
    setting_name: str,
    seed: int,
    *,
    rate: float,
    scale: float,
    tested: bool,
    most_steps: int,
    graphs: bool,
) -> dict:
    """Trains one network and returns its record; `graphs` is for CUDA."""
    import torch
    from peft import LoraConfig, MontecloraConfig, get_peft_model

    begun = time.time()
    setting = next(one for one in plan.SETTINGS if one.name == setting_name)
    texts = read_texts(folder, setting.data)
    torch.manual_seed(seed)
    torch.set_num_threads(1)  # hundreds of small operations: more threads wait for each other
    device = "cuda" if torch.cuda.is_available() else "cpu"
    noise = MontecloraConfig(sample_scaler=scale)
    config = LoraConfig(r=plan.RANK, lora_alpha=plan.RANK, target_modules=list(_PLACES), monteclora_config=noise)
    body = get_peft_model(encoder(read_weights(folder)).to(device), config).to(device)  # PEFT draws where it finds it
    head = torch.nn.Linear(384, texts.classes).to(device)
    trained = [one for one in [*body.parameters(), *head.parameters()] if one.requires_grad]
    rows = texts.training_rows(setting, seed)
    steps = min(setting.epochs * (len(rows) // plan.BATCH), most_steps)
    body.train()

    def loss(tokens, labels):
        with torch.autocast(device, torch.bfloat16):
            logits = logits_of(body, head, tokens)
        return torch.nn.functional.cross_entropy(logits.float(), labels) + body.base_model._get_monteclora_loss()

    step_of = Steps(loss, trained, fix_draws(body), plan.LENGTHS, graphs and device == "cuda")
    step_of.prepare(texts.lengths[rows], plan.BATCH)
    prepared = time.time()
    torch.manual_seed(seed)
    for step, batch in enumerate(itertools.islice(_batches(texts, rows, seed), steps)):
        tokens = texts.tokens[batch, : texts.lengths[batch].max()]
        step_of(tokens, texts.labels[batch], rate * schedule(step, steps))
    if not all(bool(torch.isfinite(weight).all()) for weight in trained):
        raise ValueError(f"weights must be finite; {setting.name}, seed {seed}, learning rate {rate} has others.")
    print(f"  prepared {prepared - begun:.0f} s, {steps} steps {time.time() - prepared:.0f} s", flush=True)
    body.eval()
    few = 40 if most_steps < 10 else None
    parts = {part: texts.parts[part][:few] for part in ("validation", *(("test", "ood") if tested else ()))}
    p = {part: _predicted(body, head, texts, rows, device) for part, rows in parts.items() if len(rows)}
    line: dict = {
        "stage": "result" if tested else "tuning",
        "setting": setting.name,
        "method": "monteclora",
        "kind": "monteclora",
        "configuration": f"learning_rate {rate:g}, scale {scale:g}",
        "settings": {"learning_rate": rate, "scale": scale, "dropout": DROPOUT},
        "seed": seed,
        "seconds": round(time.time() - begun, 1),
    }
    line |= {part: quality(p[part], texts.labels[parts[part]]) for part in p if part != "ood"}
    if "ood" in p:
        line["ood"] = detection(p["test"], p["ood"])
    return line


def _batches(texts: Texts, rows: np.ndarray, seed: int) -> Iterator[np.ndarray]:
    for epoch in itertools.count():
        order = batches(texts, rows, plan.BATCH, (seed, 0, epoch))
        yield from order[np.random.default_rng([3, epoch]).permutation(len(order))]


def _predicted(body, head, texts: Texts, rows: np.ndarray, device: str) -> ClassPredictive:
    import torch

    p = np.zeros((len(rows), texts.classes))
    order = np.argsort(texts.lengths[rows], kind="stable")
    with torch.no_grad():
        for part in (order[i : i + 512] for i in range(0, len(order), 512)):
            tokens = texts.tokens[rows[part], : texts.lengths[rows[part]].max()].astype("int64")
            logits = logits_of(body, head, torch.from_numpy(tokens).to(device)).double()
            p[part] = torch.softmax(logits, -1).cpu().numpy()
    return ClassPredictive(p, np.zeros((1, 1)), 1)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path("runs/finetune"))
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--earlier", type=Path, nargs="*", default=[], help="folders with records of earlier calls")
    parser.add_argument("--workers", type=int, default=4, help="networks that train side by side")
    parser.add_argument("--eager", action="store_true", help="without CUDA graphs")
    parser.add_argument("--tiny", action="store_true", help="one configuration, 4 steps, 40 rows: does it run?")
    given = parser.parse_args(arguments)
    deadline = time.time() + 60 * given.minutes
    given.out.mkdir(parents=True, exist_ok=True)
    steps = 4 if given.tiny else 10**9
    lines = [one for one in FinetuneRecords(given.out, given.earlier).lines if one["method"] == "monteclora"]
    with ProcessPoolExecutor(given.workers, multiprocessing.get_context("spawn"), max_tasks_per_child=1) as pool:

        def work(jobs: list[tuple[str, int, float, float, bool]]) -> bool:
            """Trains what has no record yet, and returns whether all have one now."""
            left = [one for one in jobs if not any(_is(line, *one) for line in lines)]
            for some in (left[i : i + given.workers] for i in range(0, len(left), given.workers)):
                if time.time() > deadline:
                    return False
                task = partial(train, given.inputs, most_steps=steps, graphs=not given.eager)
                futures = [
                    pool.submit(task, name, seed, rate=rate, scale=scale, tested=tested)
                    for name, seed, rate, scale, tested in some
                ]
                for job in as_completed(futures):
                    lines.append(job.result())
                    append(given.out / "finetune-monteclora.jsonl.gz", [lines[-1]])
                    print(lines[-1], flush=True)
            return True

        for setting, rates in RATES.items():
            tried = list(itertools.product(rates, SCALES))[: 1 if given.tiny else None]
            if not work([(setting, seed, *one, False) for one in tried for seed in plan.TUNING_SEEDS]):
                break
            nll = {
                one: np.mean([line["validation"]["nll"] for line in lines if _tuned(line, setting, *one)])
                for one in tried
            }
            best = min(nll, key=nll.__getitem__)
            if not work([(setting, seed, *best, True) for seed in plan.RESULT_SEEDS[: 1 if given.tiny else None]]):
                break


def _is(line: dict, setting: str, seed: int, rate: float, scale: float, tested: bool) -> bool:
    own = line["settings"]
    found = line["setting"], line["seed"], own["learning_rate"], own["scale"], line["stage"] == "result"
    return found == (setting, seed, rate, scale, tested)


def _tuned(line: dict, setting: str, rate: float, scale: float) -> bool:
    return any(_is(line, setting, seed, rate, scale, False) for seed in plan.TUNING_SEEDS)


if __name__ == "__main__":
    main()
