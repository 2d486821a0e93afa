"""`python -m` writes what transformers' attention gives for a case, with gradients and picks.

Needs PyTorch and transformers, which this package does not install.
"""

import argparse
import importlib
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from . import _cases

VERSION = "5.24.0"
# Module, configuration, attention and rotary embedding in transformers.models.
_CLASSES = {
    "deepseek_v32": ("deepseek_v32", "DeepseekV32"),
    "glm_moe_dsa": ("glm_moe_dsa", "GlmMoeDsa"),
    "minimax_m3_vl_text": ("minimax_m3_vl", "MiniMaxM3VL"),
    "qwen4_exp_text": ("qwen4_exp", "Qwen4ExpText"),
    "glm5_next_text": ("glm5_next", "Glm5NextText"),
    "deepseek_v4": ("deepseek_v4", "DeepseekV4"),
}
_CONFIGS = {"minimax_m3_vl_text": "MiniMaxM3VLText"}


def require():
    """An ImportError that says what is missing."""
    try:
        import torch  # noqa: F401
        import transformers
    except ImportError as error:
        raise ImportError(
            f"mindspore_nsa.models.compare needs PyTorch and transformers {VERSION}, "
            f"got {error}: pip install torch transformers=={VERSION}"
        ) from None
    if transformers.__version__ != VERSION:
        raise ImportError(
            f"mindspore_nsa.models.compare needs transformers {VERSION}, "
            f"got {transformers.__version__}"
        )


def _of(case):
    """Configuration and modules of transformers."""
    folder, prefix = _CLASSES[case.architecture]
    module = importlib.import_module(f"transformers.models.{folder}.modeling_{folder}")
    configs = importlib.import_module(f"transformers.models.{folder}.configuration_{folder}")
    config = getattr(configs, f"{_CONFIGS.get(case.architecture, prefix)}Config")(**case.config)
    config._attn_implementation = "eager"
    return config, module, prefix


def make(case):
    """transformers' attention with the weights of a case, and what its forward takes beside x."""
    import torch

    config, module, prefix = _of(case)
    layer = getattr(module, f"{prefix}Attention")(config, case.layer_idx)
    shapes = {name: tuple(value.shape) for name, value in layer.state_dict().items()}
    state = {name: torch.tensor(v) for name, v in _cases.weights(case, shapes).items()}
    layer.load_state_dict(state, strict=True)
    return layer.eval(), _arguments(case, config, module, prefix)


def _arguments(case, config, module, prefix):
    import torch

    rows, length = case.shape
    positions = torch.arange(length)[None].expand(rows, -1)
    x = torch.zeros(rows, length, 1)
    future = torch.ones(length, length, dtype=torch.bool).triu(1)
    if case.architecture == "deepseek_v4":
        future |= ~torch.ones_like(future).triu(1 - config.sliding_window)
    mask = torch.zeros(rows, 1, length, length).masked_fill(future, torch.finfo(x.dtype).min)
    if case.architecture == "glm5_next_text":
        return {"attention_mask": torch.ones(rows, length, dtype=torch.bool)}
    given = {"attention_mask": mask, "position_ids": positions}
    rotary = getattr(module, f"{prefix}RotaryEmbedding")(config)
    if case.architecture == "deepseek_v4":
        both = {kind: rotary(x, positions, layer_type=kind) for kind in ("main", "compress")}
        return {**given, "position_embeddings": both}
    return {**given, "position_embeddings": rotary(x, positions)}


@contextmanager
def _recorded():
    """The scores and results of every topk."""
    import torch

    found, topk = [], torch.Tensor.topk

    def recording(self, k, *args, **kwargs):
        result = topk(self, k, *args, **kwargs)
        found.append((self.detach().clone(), result.indices.detach().clone()))
        return result

    torch.Tensor.topk = recording
    try:
        yield found
    finally:
        torch.Tensor.topk = topk


def run(case):
    """Output, gradients of x and of all parameters, scores and picks, as arrays by name."""
    import torch

    layer, given = make(case)
    x, slope = (torch.tensor(values) for values in _cases.text(case))
    x.requires_grad_()
    with _recorded() as topk:
        y = layer(x, **given)[0]
    y.backward(slope)
    found = {"y": y.detach(), "grad x": x.grad}
    for name, parameter in layer.named_parameters():
        absent = torch.zeros_like(parameter)
        found[f"grad {name}"] = absent if parameter.grad is None else parameter.grad
    arrays = {name: value.numpy() for name, value in found.items()}
    if topk:
        arrays.update(_scores_and_picks(case, topk))
    return arrays


def _scores_and_picks(case, topk):
    """Scores [B, S, ..., E], -inf or the least number where there is nothing, and picks."""
    if case.architecture == "qwen4_exp_text":
        return _of_single_queries(case, topk)
    scores, picks = (value.numpy() for value in topk[0])
    if case.architecture == "minimax_m3_vl_text":
        scores, picks = scores.swapaxes(1, 2), picks.swapaxes(1, 2)
    return {"scores": scores, "picks": picks}


def _of_single_queries(case, topk):
    """Scores and picks where every query with a group to pick made a call, in order."""
    (rows, length), size = case.shape, case.config["indexer_compress_ratio"]
    groups, count = length // size, case.config["indexer_budget"] // size
    scores = np.full((rows, length, groups), -np.inf, np.float32)
    picks = np.zeros((rows, length, min(count, groups)), np.int64)
    calls = iter(topk)
    for row in range(rows):
        for query in range(size - 1, length):
            found, picked = (value.numpy() for value in next(calls))
            scores[row, query, : len(found)] = found
            # Groups that were not picked fill the places of those that do not exist.
            others = np.setdiff1d(np.arange(groups), picked)
            picks[row, query] = np.concatenate((picked, others))[: picks.shape[-1]]
    return {"scores": scores, "picks": picks}


def main(arguments=None):
    """Write the arrays of cases to a folder."""
    parser = argparse.ArgumentParser(prog="python -m mindspore_nsa.models._oracle")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--cases", type=int, default=20, help="of every architecture")
    args = parser.parse_args(arguments)
    require()
    args.folder.mkdir(parents=True, exist_ok=True)
    for architecture in _cases.ARCHITECTURES:
        for seed in range(args.cases):
            found = run(_cases.draw(architecture, seed))
            np.savez(args.folder / f"{architecture}-{seed}.npz", **found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
