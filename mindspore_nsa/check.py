"""`python -m mindspore_nsa.check`: every operator once, beside its float64 reference.

The operators that have an Ascend kernel are run with their gradients, in float16 and bfloat16, on
the device and the target that are chosen, and each result is compared with mindspore_nsa.reference.
What is printed is what a report of a fault needs. The exit code is 0 where everything agrees.
"""

import argparse
import sys
import traceback

import numpy as np

from . import reference
from ._config import TARGETS, set_target, show_config

# Of results whose largest value is 1: four steps of the dtype's last place. Operators round once,
# and a gradient is a sum of some hundred such products.
LIMITS = {"float16": 4 * 2.0**-10, "bfloat16": 4 * 2.0**-7}
# Of the blocks that are chosen: those of scores that differ by less than a rounding may change
# places.
CHOSEN_ALIKE = 0.98
NO_SCORE = 1e30
ENDS = (80, 192)  # two texts, packed
SCALE = 0.125


class Draw:
    """Values that every dtype holds, and their Tensors."""

    def __init__(self, dtype):
        import mindspore

        self._ms = mindspore
        self._dtype = getattr(mindspore, dtype)
        self._rng = np.random.default_rng(7)

    def __call__(self, *shape):
        """An array of eighths from -1 to 1."""
        return self._rng.integers(-8, 9, shape).astype(np.float32) / 8

    def tensor(self, array):
        """The array in the dtype that is checked."""
        return self._ms.Tensor(array).astype(self._dtype)

    def run(self, function, arrays, upstream):
        """Outputs of a function, and gradients of the arrays, for that of the first output."""
        tensors = [self.tensor(array) for array in arrays]
        outputs = function(*tensors)
        weights, float32 = self._ms.Tensor(upstream), self._ms.float32

        def total(*tensors):
            out = function(*tensors)
            out = out[0] if isinstance(out, tuple) else out
            return (out.astype(float32) * weights).sum()

        gradients = self._ms.grad(total, tuple(range(len(tensors))))(*tensors)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        gradients = gradients if isinstance(gradients, tuple) else (gradients,)
        return [self._array(t) for t in outputs], [self._array(t) for t in gradients]

    def _array(self, tensor):
        if tensor.dtype in (self._ms.int32, self._ms.int64):
            return tensor.asnumpy()
        return tensor.astype(self._ms.float32).asnumpy()


def nsa_compress(draw):
    """(name, ours, expected) of the outputs and of the gradients."""
    from . import nsa_compress as operator

    x, w, dy = draw(192, 2, 32), draw(32, 2), draw(10, 2, 32)
    options = {"actual_seq_len": ENDS}

    # A graph is compiled of its source, which MindSpore does not find for a lambda in a call.
    def forward(x, w):
        return operator(x, w, 32, 16, **options)

    outputs, gradients = draw.run(forward, (x, w), dy)
    yield "output", outputs[0], reference.nsa_compress(x, w, 32, 16, **options)
    expected = reference.nsa_compress_grad(dy, x, w, 32, 16, **options)
    yield from zip(("input_grad", "weight_grad"), gradients, expected)


def nsa_compress_attention(draw):
    """The same."""
    from . import nsa_compress_attention as operator

    q, k, v = draw(192, 4, 64), draw(10, 2, 64), draw(10, 2, 64)
    dy = draw(192, 4, 64)
    sizes = (SCALE, 4, 32, 16, 64, 2)
    ends = {"actual_seq_qlen": ENDS, "actual_cmp_seq_kvlen": (4, 10), "causal": True}
    options = {**ends, "actual_sel_seq_kvlen": (2, 4)}

    def forward(q, k, v):
        return operator(q, k, v, *sizes, **options)

    outputs, gradients = draw.run(forward, (q, k, v), dy)
    expected = reference.nsa_compress_attention(q, k, v, *sizes, **options)
    names = ("attention_out", "topk_indices", "softmax_max", "softmax_sum")
    yield from zip(names, outputs, expected)
    out, _, largest, total = expected
    expected = reference.nsa_compress_attention_grad(
        q, k, v, out, dy, largest, total, *sizes[:4], **ends
    )
    yield from zip(("query_grad", "key_grad", "value_grad"), gradients, expected)


def nsa_selected_attention(draw):
    """The same."""
    from mindspore import Tensor

    from . import nsa_selected_attention as operator

    q, k, v, dy = draw(192, 4, 64), draw(192, 2, 64), draw(192, 2, 64), draw(192, 4, 64)
    own = np.concatenate([np.arange(80) // 64, np.arange(112) // 64])
    chosen = np.stack([np.zeros_like(own), own], -1)
    chosen[own == 0, 1] = -1
    indices = np.repeat(chosen[:, None], 2, 1).astype(np.int32)
    sizes = (SCALE, 4, 64, 2)
    options = {"actual_seq_qlen": ENDS, "actual_seq_kvlen": ENDS, "causal": True}
    tensor = Tensor(indices)

    def forward(q, k, v):
        return operator(q, k, v, tensor, *sizes, **options)

    outputs, gradients = draw.run(forward, (q, k, v), dy)
    expected = reference.nsa_selected_attention(q, k, v, indices, *sizes, **options)
    yield from zip(("attention_out", "softmax_max", "softmax_sum"), outputs, expected)
    out, largest, total = expected
    expected = reference.nsa_selected_attention_grad(
        q, k, v, out, dy, largest, total, indices, *sizes, **options
    )
    yield from zip(("query_grad", "key_grad", "value_grad"), gradients, expected)


def flash_attention_score(draw):
    """The same."""
    from . import flash_attention_score as operator

    q, k, v, dy = draw(192, 4, 64), draw(192, 2, 64), draw(192, 2, 64), draw(192, 4, 64)
    options = {
        **{"actual_seq_qlen": ENDS, "actual_seq_kvlen": ENDS, "scalar_value": SCALE},
        **{"input_layout": "TND", "sparse_mode": 3},
    }

    def forward(q, k, v):
        return operator(q, k, v, 4, return_softmax=True, **options)

    outputs, gradients = draw.run(forward, (q, k, v), dy)
    expected = reference.flash_attention_score(q, k, v, 4, **options)
    yield from zip(("attention_out", "softmax_max", "softmax_sum"), outputs, expected)
    out, largest, total = expected[:3]
    expected = reference.flash_attention_score_grad(q, k, v, dy, 4, largest, total, out, **options)
    yield from zip(("query_grad", "key_grad", "value_grad"), gradients, expected)


CHECKS = (nsa_compress, nsa_compress_attention, nsa_selected_attention, flash_attention_score)


def judge(ours, expected, dtype):
    """(whether a result agrees, what to print of it)."""
    expected = np.asarray(expected)
    if ours.shape != expected.shape:
        return False, f"has shape {ours.shape}, expected {expected.shape}"
    if np.issubdtype(expected.dtype, np.integer):
        alike = float(np.mean(ours == expected))
        return alike >= CHOSEN_ALIKE, f"{alike:.1%} equal (at least {CHOSEN_ALIKE:.0%})"
    if not np.isfinite(ours).all():
        return False, f"{np.count_nonzero(~np.isfinite(ours))} values are not finite"
    # The largest score of a query that sees no key is the lowest float, which would be the scale.
    seen = np.abs(expected) < NO_SCORE
    if not np.array_equal(np.abs(ours) < NO_SCORE, seen):
        return False, "other queries than expected see no key"
    error = np.abs(ours - expected)[seen].max() / np.abs(expected[seen]).max()
    return error <= LIMITS[dtype], f"error {error:.2e} (at most {LIMITS[dtype]:.2e})"


def run():
    """Print a line for each result; the number of those that do not agree."""
    wrong = 0
    for check in CHECKS:
        for dtype in LIMITS:
            try:
                for name, ours, expected in check(Draw(dtype)):
                    fine, text = judge(ours, expected, dtype)
                    wrong += not fine
                    verdict = "agrees" if fine else "DIFFERS"
                    print(f"{check.__name__:<24}{dtype:<10}{name:<15}{verdict:<9}{text}")
            except Exception:
                wrong += 1
                print(f"{check.__name__:<24}{dtype:<10}{'':<15}FAILED")
                traceback.print_exc(file=sys.stdout)
    return wrong


def main():
    """Returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m mindspore_nsa.check",
        description="Run every operator once and compare it with its float64 reference.",
    )
    parser.add_argument("--device", choices=("CPU", "Ascend"), help="default: MindSpore's own")
    parser.add_argument("--target", choices=TARGETS, help="default: by the device")
    parser.add_argument("--graph", action="store_true", help="in GRAPH_MODE, not in PyNative mode")
    chosen = parser.parse_args()
    import mindspore

    if chosen.device:
        mindspore.set_device(chosen.device)
    if chosen.target:
        set_target(chosen.target)
    mindspore.set_context(mode=mindspore.GRAPH_MODE if chosen.graph else mindspore.PYNATIVE_MODE)
    show_config()
    print(f"{'device':<16}{mindspore.get_context('device_target')}")
    wrong = run()
    print("everything agrees" if not wrong else f"{wrong} results do not agree")
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main())
