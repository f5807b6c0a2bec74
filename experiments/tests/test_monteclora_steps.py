"""Steps of MonteCLoRA that do not wait for the device have the values of PEFT's own."""

import numpy as np
import pytest
from singularbayes_experiments.runs.monteclora_steps import (
    FixedDraws,
    Steps,
    diagonal_cholesky,
    fix_draws,
    without_waiting,
)

torch = pytest.importorskip("torch")


def test_the_root_of_a_diagonal_is_its_cholesky_factor_with_the_same_gradient():
    found = []
    for factor in (diagonal_cholesky, torch.linalg.cholesky):
        diagonal = torch.tensor([0.3, 2.0, 5.0], requires_grad=True)
        result = factor(torch.diag(diagonal))
        (torch.arange(9.0).reshape(3, 3) * result).sum().backward()
        found.append((result.detach().numpy(), diagonal.grad.numpy()))
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-6)
    np.testing.assert_allclose(found[0][1], found[1][1], rtol=1e-6)


def test_constants_are_filled_where_they_are_needed_and_other_values_copied():
    with without_waiting():
        constant = torch.tensor([0.1] * 8, device="meta")
        number = torch.tensor(0.0, device="meta", dtype=torch.bfloat16)
        here = torch.tensor([1, 2, 3], device="cpu")
        assert not torch.isnan(here).any()
    assert (constant.shape, constant.dtype) == ((8,), torch.float32)
    assert (number.shape, number.dtype) == ((), torch.bfloat16)
    assert here.tolist() == [1, 2, 3]
    assert torch.isnan(torch.tensor([float("nan")])).any()


class Buffer:
    def __init__(self):
        self.count = 0

    def get(self):
        self.count += 1
        return {"z": torch.full((2,), float(self.count))}


def test_steps_are_those_of_adam_on_the_draws_in_their_order():
    torch.manual_seed(0)
    table, seen = torch.nn.Parameter(torch.randn(5, 2)), []
    draws = FixedDraws(Buffer())
    place = draws.get()["z"]

    def loss(tokens, labels):
        assert draws.get()["z"] is place
        seen.append((tokens.shape[1], float(place[0])))
        kept = (tokens != 0)[..., None]
        logits = (table[tokens] * kept).sum(1) / kept.sum(1) + 0.1 * place
        return torch.nn.functional.cross_entropy(logits, labels)

    expected = table.detach().clone().requires_grad_()
    steps = Steps(loss, [table], [draws], (3, 6), graphs=False)
    batches = [(np.array([[1, 2], [3, 0]]), np.array([0, 1])), (np.array([[4, 2, 1, 1]] * 2), np.array([1, 1]))]
    for rate, (tokens, labels) in zip((0.1, 0.05), batches, strict=True):
        steps(tokens, labels, rate)
    assert seen == [(3, 2.0), (6, 3.0)]  # padded; the first draw of the buffer gave the memory its shape
    optimizer = torch.optim.Adam([expected], 0.1)
    for rate, (tokens, labels), draw in zip((0.1, 0.05), batches, (2.0, 3.0), strict=True):
        optimizer.param_groups[0]["lr"] = rate
        optimizer.zero_grad()
        kept = torch.from_numpy(tokens != 0)[..., None]
        logits = (expected[torch.from_numpy(tokens)] * kept).sum(1) / kept.sum(1) + 0.1 * draw
        torch.nn.functional.cross_entropy(logits, torch.from_numpy(labels)).backward()
        optimizer.step()
    np.testing.assert_allclose(table.detach().numpy(), expected.detach().numpy(), atol=1e-6)


@pytest.mark.filterwarnings("ignore::FutureWarning")  # of PEFT about transformers
def test_a_step_of_peft_is_the_same_without_waiting():
    peft = pytest.importorskip("peft")
    transformers = pytest.importorskip("transformers")
    from peft.tuners.lora.monteclora import MontecloraSampler

    sizes = {"vocab_size": 9, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = transformers.BertConfig(**sizes, intermediate_size=32, attn_implementation="eager")
    tokens, found = torch.tensor([[1, 2, 0], [3, 4, 5]]), []
    for own in (False, True):
        torch.manual_seed(0)
        noise = peft.MontecloraConfig(sample_scaler=0.5, buffer_size=4)
        lora = peft.LoraConfig(r=4, target_modules=["query", "value"], monteclora_config=noise)
        body = peft.get_peft_model(transformers.BertModel(config, add_pooling_layer=False), lora)
        body.train()
        trained = [weight for weight in body.parameters() if weight.requires_grad]

        def loss(tokens, labels, body=body):
            states = body(input_ids=tokens, attention_mask=(tokens != 0).long()).last_hidden_state
            return (states[:, 0, 0] - labels).square().sum() + body.base_model._get_monteclora_loss()

        if own:
            fixed = fix_draws(body)
            torch.manual_seed(1)
            steps = Steps(loss, trained, fixed, (3,), graphs=False)
            assert len(fixed) == 2
            steps(tokens.numpy(), np.array([1, 0]), 0.01)
        else:
            for module in body.modules():
                if isinstance(module, MontecloraSampler):
                    module.sampler.get()  # the first draw gives fixed memory its shape
            torch.manual_seed(1)
            optimizer = torch.optim.Adam(trained, 0.01)
            loss(tokens, torch.tensor([1, 0])).backward()
            optimizer.step()
        found.append([weight.detach().numpy() for weight in trained])
    assert len(found[0]) == 8
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)
