"""Which tests are responsible for a source file, and what has to be built for them."""

import re
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

from .copy import ONE_ISA


@dataclass(frozen=True)
class Judge:
    """A run of pytest. `target` is what has to be built before, None where the tests build.

    One that finds most mutants within seconds is asked `first`, however long it is.
    """

    tests: tuple
    target: str | None = "_native"
    mindspore: bool = True
    first: bool = False

    def __str__(self):
        return " ".join(self.tests)


# By the beginning of its name: one compiles a Cell, the other one fails now and then where the
# kernels are slow.
LEFT_OUT = {
    "tests/kernels/test_forks.py": "test_a_compiled_cell",
    "tests/kernels/test_team.py": "test_a_daemon_outlives",
}
SWEEP = "tests/kernels/test_sweep.py"
RULES = Judge(("tests/infer",), mindspore=False)
HOST = Judge(("tests/ascendc/test_host_side.py",), "operators", first=True)
SMOKE = Judge(("tests/smoke/test_every_operator.py",))
LAYERS = Judge(("tests/smoke/test_every_layer.py",))
# Runners of tests/ascendc compile kernels and tilings themselves.
RUNNERS = {
    "attention": ("flash_attention_score*", "nsa_selected_attention", "nsa_compress_attention"),
    "compress": ("nsa_compress", "nsa_compress_with_cache"),
    "decoding": ("nsa_decode", "*_infer", "nsa_cache_step"),
    "nsa_compress_grad": ("nsa_compress",),
    "flash_attention_score_grad": ("flash_attention_score*",),
    "nsa_selected_attention_grad": ("nsa_selected_attention*",),
}


def _found(root, folder, *patterns):
    """The test files of these names that there are."""
    return sorted(
        {str(p.relative_to(root)) for x in patterns for p in root.glob(f"tests/{folder}/{x}")}
    )


def _each(root, folder, *patterns):
    """A judge of each of these test files: the quick ones are asked first."""
    return [Judge((test,)) for test in _found(root, folder, *patterns)]


def _cpu(root, file):
    tests = _found(root, "kernels", "test_*.py")
    without = {test: (f"--deselect={test}::{name}",) for test, name in LEFT_OUT.items()}
    return [
        Judge((test, *without.get(test, ())), mindspore=False, first=test == SWEEP)
        for test in tests
    ]


def _binding(root, file):
    name = Path(file).name
    errors = _each(root, "ops", "test_errors.py", "test_defaults.py")
    if name.startswith(("ascend", "aclnn")):
        return [RULES, *_ascend(root), *errors]
    steps = [LAYERS, *_each(root, "nn", "test_cache.py")] if "cache_step" in name else []
    calls = _each(root, "ops", "test_amp.py", "test_placeholders.py", "test_after_an_error.py")
    return [RULES, *_cpu(root, file), SMOKE, *errors, *calls, *steps]


def _ascend(root):
    found = _found(root, "ascendc", "test_built_in.py", "test_target_*.py")
    return [Judge((test,), "operators") for test in found]


def _on_host(path):
    return "op_host" in path.parts or "op_api" in path.parts


def _ascendc(root, file):
    operator = Path(file).parts[1]
    names = RUNNERS.get(operator, (operator,)) if operator != "common" else ("nsa_*",)
    patterns = [f"test_{name}.py" for name in names]
    if "attention" in operator and "infer" not in operator:  # which core does what changes no bit
        patterns.append("test_shares_of_cores.py")
    judges = [Judge((test,), None, False) for test in _found(root, "ascendc", *patterns)]
    if _on_host(Path(file)) or operator == "common":
        judges += [HOST, *_ascend(root)]
    return judges


# Tests of Python files beside those of the same name.
BESIDE = {
    "gradient": ("ops/test_training.py", "ops/test_random_calls.py", "ops/test_amp.py"),
    "custom": ("ops/test_placeholders.py", "ops/test_amp.py"),
    "indexer_kl_loss": ("ops/test_lightning_indexer_kl_loss.py",),
    "in_place": ("nn/test_cache.py",),
    **dict.fromkeys(("cache_step", "nsa_cache_step"), ("nn/test_cache.py",)),
    "ascend": ("ascendc/test_target_ascend.py", "cann/test_operators.py"),
    "layer_number": ("nn/test_cache.py", "nn/test_cache_saved.py"),
    "precision": ("nn/test_amp.py",),
    "norm": ("nn/test_model_options.py",),
    "parts": ("nn/test_cache.py", "nn/test_jit.py"),
}


def _python(root, folder, file, *patterns):
    """The judges of a folder and those of the file's own name."""
    stem = Path(file).stem.strip("_")
    named = (f"test_{stem}*.py", f"test_{stem.removeprefix('nsa_')}*.py", *patterns)
    names = [*(f"{folder}/{name}" for name in named), *BESIDE.get(stem, ())]
    return [judge for name in names for judge in _each(root, *name.rsplit("/", 1))]


def _ops(root, file):
    more = ("test_defaults.py", "test_plans.py", "test_errors.py")
    named = _python(root, "ops", file, *more)
    if "/generated/" in file:  # the calls of target ascend are in them, too
        named += [judge for name in BESIDE["ascend"] for judge in _each(root, *name.split("/"))]
    return [SMOKE, *named, Judge(("tests/ops",))]


def _nn(root, file):
    named = _python(root, "nn", file, f"test_*{Path(file).stem.strip('_').split('_')[0]}*.py")
    return [LAYERS, *named, Judge(("tests/nn", "--ignore", "tests/nn/parallel"))]


def _folder(folder):
    return lambda root, file: _each(root, folder, "test_*.py")


# The first whose folder a file lies in.
RESPONSIBLE = {
    "cpu/": _cpu,
    "infer/": lambda root, file: [RULES, *_cpu(root, file), SMOKE],
    "binding/": _binding,
    "ascendc/": _ascendc,  # but for the examples, which are tests
    "mindspore_nsa/ops/": _ops,
    "mindspore_nsa/nn/parallel/": _folder("nn/parallel"),
    "mindspore_nsa/nn/": _nn,
    "mindspore_nsa/integrations/": _folder("integrations"),
    "mindspore_nsa/models/": _folder("models"),
}


# In the names of files that only other instruction sets than ONE_ISA use, if they are included.
OTHER_ISAS = {"amx", "avx2", "avx512", "neon", "scalar"} - {ONE_ISA}


def folder_of(file):
    """The folder of the table that a file lies in; None where nobody judges it."""
    words = re.split(r"[_.]", Path(file).name)
    if file.startswith("ascendc/examples/") or OTHER_ISAS.intersection(words):
        return None
    return next((folder for folder in RESPONSIBLE if file.startswith(folder)), None)


def area_of(file):
    """Group of the file in the report."""
    if file.startswith("ascendc/"):
        return "op_host" if _on_host(Path(file)) else "op_kernel"
    return folder_of(file)


# The quick ones of a folder's judges: beginnings of their names, and their tests where not all are
# quick. Each takes seconds, or a minute where it builds a kernel or starts workers.
_RANDOM = ("test_random_configurations",)
QUICK = {
    "cpu/": {"kernels/test_sweep": (), "kernels/test_keys": (), "kernels/test_tile": ()},
    "infer/": {"infer": (), "kernels/test_sweep": (), "kernels/test_run": ()},
    "binding/": {"infer": (), "kernels/test_run": (), "smoke": (), "ascendc/test_built": ()},
    "ascendc/": {
        **{"ascendc/test_host_side": (), "ascendc/test_built": (), "ascendc/test_shares": ()},
        # NsaCacheStep, which the host side's own calls leave out.
        "ascendc/test_target_cache_layers": ("test_pieces_are_the_whole[shared-float16-pynative]",),
        **dict.fromkeys(("ascendc/test_nsa", "ascendc/test_flash"), _RANDOM),
    },
    "mindspore_nsa/ops/": {"smoke": (), "ops/test_": ()},
    "mindspore_nsa/nn/parallel/": {
        "nn/parallel/test_weights": (),
        "nn/parallel/test_plan": (),
        "nn/parallel/test_workers": (
            *("test_a_context_of_one_worker", "test_same_as_one_worker[2]"),
            *("test_calls_on_ascend[2]", "test_dropout[2]"),
        ),
        "nn/parallel/test_faults": ("test_faults",),
    },
    "mindspore_nsa/nn/": {"smoke": (), "nn/test_": ()},
    "mindspore_nsa/integrations/": {
        "integrations/test_errors": (),
        "integrations/test_mindone": (),
        "integrations/test_mindformers": ("test_pynative", "test_model"),
    },
    "mindspore_nsa/models/": dict.fromkeys(
        (f"models/test_{name}" for name in ("docstrings", "errors", "kl", "against")), ()
    ),
}


def _quick(root, judge, tests):
    """The judge with the tests that are quick, None if it has none."""
    file = judge.tests[0]
    names = next((n for name, n in tests.items() if file.startswith(f"tests/{name}")), None)
    if not names:
        return None if names is None else judge
    text = (root / file).read_text()
    there = [name for name in names if f"def {name.partition('[')[0]}(" in text]
    return replace(judge, tests=tuple(f"{file}::{name}" for name in there)) if there else None


def judges_of(root, file, quick=False):
    """The judges of a source file that this Python can run, each once; all, or the quick ones."""
    folder = folder_of(file)
    found = dict.fromkeys(RESPONSIBLE[folder](root, file))
    here = find_spec("mindspore") is not None
    found = [judge for judge in found if here or not judge.mindspore]
    if quick:
        found = filter(None, (_quick(root, judge, QUICK[folder]) for judge in found))
    return list(dict.fromkeys(found))
