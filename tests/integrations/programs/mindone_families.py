"""Every family of mindone that calls an attention function: ours against its eager attention.

Tiny models with drawn weights, the same in both; rows with and without padding on either side
where a model takes a mask. Arguments: the cases to run, as numbers in CASES.
"""

import contextlib
import importlib
import inspect
import json
import logging
import sys
from pathlib import Path

import cpu_primitives
import mindspore as ms
import numpy as np
from mindone_cases import CASES, TINY
from mindspore import Tensor

from model_zoo_demo import cpu_operators

cpu_operators.with_cpu_operators("mindone")
ms.ops.rms_norm = cpu_operators.rms_norm
cpu_primitives.install()
logging.disable(logging.WARNING)

import mindone.transformers  # noqa: E402
import transformers  # noqa: E402
from mindone.transformers import modeling_utils  # noqa: E402

from mindspore_nsa.integrations import mindone as adapter  # noqa: E402

# Weights are drawn below.
modeling_utils.PreTrainedModel._initialize_weights = lambda self, module: None
NAME = adapter.register()
LENGTH = 8
# Relative to the largest number of eager attention's result; recurrent layers enlarge roundings.
LIMIT = 5e-5


def families():
    """{family: module} of those that look an attention function up."""
    found = {}
    for path in sorted(Path(mindone.transformers.__file__).parent.glob("models/*/modeling_*.py")):
        if "ALL_ATTENTION_FUNCTIONS[" in path.read_text():
            family = path.parent.name
            found[family] = f"mindone.transformers.models.{family}.{path.stem}"
    return found


def tiny(kind, changes):
    """Arguments of a configuration: those of TINY that it has, those of its parts, and changes."""
    known = set(inspect.signature(kind.__init__).parameters)
    with contextlib.suppress(TypeError, ValueError):
        known |= set(kind().to_dict())
    arguments = {name: value for name, value in TINY.items() if name in known}
    for name, part in getattr(kind, "sub_configs", {}).items():
        if part.__name__ != "AutoConfig":
            arguments[name] = tiny(part, {})
    for name, value in changes.items():
        if isinstance(value, dict) and isinstance(arguments.get(name), dict):
            value = {**arguments[name], **value}
        arguments[name] = value
    return arguments


def draw(model):
    rng = np.random.default_rng(0)
    for name, p in model.parameters_and_names():
        if p.dtype not in (ms.float32, ms.float16):
            continue
        drawn = rng.standard_normal(p.shape)
        if p.ndim >= 2:
            scale = 1 if "embed" in name else 1.5 / np.sqrt(np.prod(p.shape[1:]))
            drawn = drawn * scale
        else:
            drawn = p.asnumpy() + drawn / 10
        p.set_data(Tensor(drawn.astype(np.float32)).astype(p.dtype))


def tensors(x):
    """The float Tensors of a model's result, in order."""
    if isinstance(x, Tensor):
        return [x.asnumpy()] if x.dtype == ms.float32 else []
    if isinstance(x, dict):
        x = list(x.values())
    return [t for part in x for t in tensors(part)] if isinstance(x, (list, tuple)) else []


def given(value):
    if isinstance(value, np.ndarray):
        kind = np.float32 if value.dtype == np.float64 else value.dtype
        return Tensor(value.astype(kind))
    return value


def padded(rng):
    """Ids, and masks of none, left and right padding."""
    ids = rng.integers(3, 60, (2, LENGTH))
    for side in (None, slice(0, 3), slice(LENGTH - 3, LENGTH)):
        mask = np.ones((2, LENGTH), np.int64)
        if side is not None:
            mask[0, side] = 0
        yield ids, None if side is None else mask


def inputs_of(kind, extra, rows=None):
    """Pairs of keyword arguments, and the places that count, None for all."""
    rng = np.random.default_rng(1)
    if kind == "given":
        yield {name: draw_input(rng, what) for name, what in extra.items()}, rows
        return
    for ids, mask in padded(rng):
        more = {name: draw_input(rng, what) for name, what in extra.items()}
        if kind == "seq2seq":
            more["decoder_input_ids"] = ids[::-1].copy()
        if mask is not None:
            more["attention_mask"] = mask
        rows = None if mask is None or kind == "seq2seq" else mask > 0
        yield {"input_ids": ids, **more}, rows


def draw_input(rng, what):
    """A shape stands for normal numbers, ("ids", shape) for ids, others for themselves."""
    if isinstance(what, tuple) and what and what[0] == "ids":
        return rng.integers(3, 60, what[1])
    if isinstance(what, tuple) and what and what[0] == "array":
        return np.array(*what[1:])
    if isinstance(what, tuple) and all(isinstance(n, int) for n in what):
        return rng.standard_normal(what)
    return what


def real(case):
    """Where rows of given lengths hold tokens, None where nothing is padded."""
    if "rows" not in case:
        return None
    places = np.arange(LENGTH)
    return np.stack([(places >= first) & (places < last) for first, last in case["rows"]])


class Calls:
    """Whether our attention was asked."""

    def __init__(self):
        self.count, self.real = 0, adapter.attention
        modeling_utils.AttentionInterface._global_mapping[NAME] = self

    def __call__(self, *given, **options):
        self.count += 1
        return self.real(*given, **options)


def build(module, case, implementation):
    kind = getattr(module, case["model"])
    config = case.get("config") or kind.config_class.__name__
    config = getattr(transformers, config, None) or getattr(module, config, None)
    if config is None:
        config = kind.config_class
    config = config(**tiny(config, case.get("changes", {})))
    config._attn_implementation = implementation
    return kind(config, *case.get("arguments", ())).set_train(False)


def compare(module, case, calls):
    """The largest difference, and whether our attention was asked."""
    eager, ours = (build(module, case, name) for name in ("eager", NAME))
    draw(eager)
    for p, q in zip(eager.get_parameters(), ours.get_parameters()):
        q.set_data(p.value().copy())
    calls.count, worst = 0, 0.0
    for arguments, rows in inputs_of(case["inputs"], case.get("extra", {}), real(case)):
        results = []
        for model in (eager, ours):
            out = model(**{name: given(value) for name, value in arguments.items()})
            results.append(tensors(out))
        first, second = results
        # Layers give their weights besides, of which ours has none.
        assert len(first) == len(second) or len(second) == 1, (len(first), len(second))
        if rows is not None:
            first, second = [first[0][rows]], [second[0][rows]]
        for a, b in zip(first, second):
            assert np.isfinite(a).all(), "eager attention is not finite"
            if a.size:
                worst = max(worst, np.abs(a - b).max() / np.abs(a).max())
    return worst, calls.count


def main():
    ms.runtime.launch_blocking()
    calls, modules = Calls(), families()
    print("result:", json.dumps({"families": list(modules)}))
    numbers = [int(n) for n in sys.argv[1:]] or range(len(CASES))
    for number in numbers:
        case = CASES[number]
        try:
            module = importlib.import_module(modules[case["family"]])
            worst, count = compare(module, case, calls)
            found = "equal" if worst <= LIMIT else "differs"
            found = found if count else "eager"
            text = f"{worst:.1e}"
        except Exception as error:  # noqa: BLE001
            ours = "mindspore_nsa.integrations.mindone.attention" in str(error)
            found, text = "refused" if ours else "error", f"{type(error).__name__}: {error}"
        text = text.replace("\n", " ")[:400]
        print("result:", json.dumps({"case": number, "found": found, "text": text}), flush=True)


main()
