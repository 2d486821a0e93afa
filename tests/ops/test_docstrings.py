"""The examples of MindSpore's own functions, and ours."""

import doctest

import pytest
from mindspore import ops

import mindspore_nsa

# MindSpore's name of a function: both are names of ours too.
BUILT_IN = (
    "nsa_compress",
    "nsa_compress_attention",
    "nsa_select_attention",
    "flash_attention_score",
)


def run_examples(name, text):
    examples = doctest.DocTestParser().get_examples(text)
    assert examples
    test = doctest.DocTest(examples, {"mindspore_nsa": mindspore_nsa}, name, name, 0, text)
    output = []
    results = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(
        test, out=output.append
    )
    assert results.attempted and not results.failed, "".join(output)


@pytest.mark.parametrize("name", BUILT_IN)
def test_built_in_example(name):
    """Changing `ops.` to `mindspore_nsa.` is all there is to do."""
    if not hasattr(ops, name):
        pytest.skip(f"this MindSpore has no ops.{name}")
    text = getattr(ops, name).__doc__
    assert f"ops.{name}(" in text
    run_examples(name, text.replace(f"ops.{name}(", f"mindspore_nsa.{name}("))


@pytest.mark.parametrize("name", [n for n in mindspore_nsa.__all__ if n != "__version__"])
def test_own_example(name):
    run_examples(name, getattr(mindspore_nsa, name).__doc__)


@pytest.mark.parametrize("name", [n for n in mindspore_nsa.__all__ if n != "__version__"])
def test_docstring_describes_the_signature(name):
    import inspect

    function = getattr(mindspore_nsa, name)
    text = function.__doc__
    for parameter in inspect.signature(function).parameters.values():
        assert f"{parameter.name} (" in text, parameter.name
        if parameter.default is not inspect.Parameter.empty and parameter.name != "padding_mask":
            entry = text[text.index(f"\n        {parameter.name} (") :]
            entry = entry[: entry.index("Default:") + 40]
            assert str(parameter.default) in entry, parameter.name
