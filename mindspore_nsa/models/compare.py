"""Every layer beside transformers' on random cases: `python -m mindspore_nsa.models.compare`.

Prints for every architecture the largest errors, relative to the largest value of a tensor, of the
output, of the gradient of x and of those of all parameters; and whether the picks are equal where
the scores differ by more than 1e-4 of the largest one. Where they differ less, transformers' picks
are given to the layer: torch.topk promises no order of equal scores.
"""

import argparse
import sys
from typing import NamedTuple

import mindspore
import numpy as np
from mindspore import Tensor

from . import _cases, _oracle
from .deepseek_v4 import DeepseekV4Attention
from .deepseek_v32 import DeepseekV32Attention
from .glm5_next import Glm5NextTextAttention
from .glm_moe_dsa import GlmMoeDsaAttention
from .minimax_m3_vl import MiniMaxM3VLAttention
from .qwen4_exp import Qwen4ExpTextAttention

LAYERS = {
    "deepseek_v32": DeepseekV32Attention,
    "glm_moe_dsa": GlmMoeDsaAttention,
    "minimax_m3_vl_text": MiniMaxM3VLAttention,
    "qwen4_exp_text": Qwen4ExpTextAttention,
    "glm5_next_text": Glm5NextTextAttention,
    "deepseek_v4": DeepseekV4Attention,
}
# Their picks end with the block that is open, which is not chosen.
_OPEN_BLOCK = ("qwen4_exp_text", "glm5_next_text")
FORWARD, BACKWARD, MARGIN = 1e-5, 2e-5, 1e-4


class Result(NamedTuple):
    """How far a layer is from transformers'.

    Attributes:
        forward: Of the output.
        backward: Largest of the gradients of x and all parameters.
        worst: Name of that gradient.
        picks: Queries whose picks differ although the scores tell them apart.
        near: Queries whose scores do not, at the last pick.
    """

    forward: float
    backward: float
    worst: str
    picks: int
    near: int

    @property
    def good(self):
        """Whether all are within the bounds."""
        return self.forward <= FORWARD and self.backward <= BACKWARD and self.picks == 0


def make(case):
    """The layer of a case, with its weights."""
    layer = LAYERS[case.architecture](case.config, case.layer_idx)
    shapes = {p.name: p.shape for p in layer.get_parameters()}
    for name, values in _cases.weights(case, shapes).items():
        layer.parameters_dict()[name].set_data(Tensor(values))
    return layer


def _relative(got, want):
    largest = np.abs(want).max(initial=0.0)
    return float(np.abs(got - want).max(initial=0.0) / (largest if largest > 0 else 1.0))


def _sorted(picks, width):
    """Picks in order, with -1 to a width."""
    missing = [(0, 0)] * (picks.ndim - 1) + [(0, width - picks.shape[-1])]
    return np.sort(np.pad(picks, missing, constant_values=-1), -1)


def _compared_picks(got, found):
    """Where picks differ, where they do although scores tell them apart, where these do not.

    And transformers' picks, -1 where there is nothing to pick.
    """
    scores, theirs = found["scores"], found["picks"]
    visible = scores > np.finfo(np.float32).min / 2
    theirs = np.where(np.take_along_axis(visible, theirs, -1), theirs, -1)
    count, last = theirs.shape[-1], scores.shape[-1]
    ordered = -np.sort(-np.where(visible, scores, -np.inf), -1)
    largest = np.abs(np.where(visible & np.isfinite(scores), scores, 0)).max(-1, initial=0)
    near = np.zeros(scores.shape[:-1], bool)
    if count < last:
        with np.errstate(invalid="ignore"):
            margin = ordered[..., count - 1] - ordered[..., count]
        near = np.isfinite(ordered[..., count]) & ~(margin > MARGIN * largest)
    width = max(got.shape[-1], count)
    differ = (_sorted(got, width) != _sorted(theirs, width)).any(-1)
    return differ, differ & ~near, near, theirs.astype(np.int32)


def compare_forward(case, found, layer):
    """How far the output is, queries with other picks, near-ties, and picks to give the layer."""
    x, _ = map(Tensor, _cases.text(case))
    differ, near, given = 0, 0, None
    if "scores" in found:
        picks = layer(x, return_indices=True)[1].asnumpy()
        last = [picks[..., -1:]] if case.architecture in _OPEN_BLOCK else []
        if last and case.config.get("index_kpool_always_select_tail", True):
            picks = picks[..., :-1]
        any_differ, wrong, close, theirs = _compared_picks(picks, found)
        differ, near = int(wrong.sum()), int(close.sum())
        if any_differ.any() and differ == 0:
            given = Tensor(np.concatenate([theirs, *last], -1))
    y = layer(x, topk_indices=given)
    return _relative(y.asnumpy(), found["y"]), differ, near, given


def compare(case, found, layer=None):
    """The Result of a case, for what `_oracle.run` found."""
    layer = make(case) if layer is None else layer
    x, slope = map(Tensor, _cases.text(case))
    forward, differ, near, given = compare_forward(case, found, layer)
    parameters = layer.trainable_params()

    def loss(x):
        return (layer(x, topk_indices=given) * slope).sum()

    of_x, of_parameters = mindspore.grad(loss, 0, parameters)(x)
    errors = {"x": _relative(of_x.asnumpy(), found["grad x"])}
    for parameter, got in zip(parameters, of_parameters, strict=True):
        errors[parameter.name] = _relative(got.asnumpy(), found[f"grad {parameter.name}"])
    worst = max(errors, key=errors.get)
    return Result(forward, errors[worst], worst, differ, near)


def main(arguments=None):
    """Print the table; the exit code is 1 where a layer is not equal."""
    parser = argparse.ArgumentParser(
        prog="python -m mindspore_nsa.models.compare", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--cases", type=int, default=20, help="of every architecture; default: 20")
    parser.add_argument(
        "--of", choices=_cases.ARCHITECTURES, nargs="+", default=_cases.ARCHITECTURES,
        help="architectures; default: all",
    )  # fmt: skip
    parser.add_argument("--all", action="store_true", help="print a line for every configuration")
    args = parser.parse_args(arguments)
    try:
        _oracle.require()
    except ImportError as error:
        return str(error)
    good = True
    print("architecture        cases  forward  gradients  picks that differ  near-ties")
    for architecture in args.of:
        results = []
        for seed in range(args.cases):
            case = _cases.draw(architecture, seed)
            result = compare(case, _oracle.run(case))
            results.append(result)
            if args.all or not result.good:
                print(f"  {architecture} {seed}, S = {case.shape[1]}: {result}")
        good = good and all(r.good for r in results)
        forward, backward = max(r.forward for r in results), max(r.backward for r in results)
        differ, near = sum(r.picks for r in results), sum(r.near for r in results)
        print(
            f"{architecture:<19} {len(results):5}  {forward:7.1e}  {backward:9.1e}  {differ:17}  "
            f"{near:9}"
        )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
