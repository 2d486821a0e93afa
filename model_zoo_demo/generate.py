"""Continue a text with a trained model: `python -m model_zoo_demo.generate FOLDER --prompt TEXT`.

The layers keep what they need of earlier bytes in caches, so a byte costs one step. Beyond the
model's context, where the oldest bytes fall out of sight, every byte recomputes the whole prefix.
"""

import argparse
import sys
import time

import mindspore as ms
import numpy as np
from mindspore import Tensor

from . import checkpoint, data
from .errors import InputError
from .machine import set_up
from .model import Model


def choose(logits, temperature, top_k, top_p, rng):
    """Draw a token from float logits [vocabulary]; temperature 0 takes the likeliest.

    Only the `top_k` likeliest are drawn (0: all), and of them only the fewest that together have
    the probability `top_p`.
    """
    if temperature == 0:
        return int(logits.argmax())
    scaled = logits.astype(np.float64) / temperature
    if 0 < top_k < len(scaled):
        scaled[scaled < np.partition(scaled, -top_k)[-top_k]] = -np.inf
    weights = np.exp(scaled - scaled.max())
    weights /= weights.sum()
    order = np.argsort(-weights, kind="stable")
    before = np.cumsum(weights[order]) - weights[order]
    weights[order[before >= top_p]] = 0
    return int(rng.choice(len(weights), p=weights / weights.sum()))


def generate(
    model, context, prompt, count, temperature=0.9, top_k=50, top_p=1.0, seed=1, cached=True
):
    """Bytes that follow a prompt.

    Args:
        model (Model): Its graph is compiled once, for the longest prefix: what stands after a
            shorter one is in the future and changes nothing.
        context (int): The number of bytes that the model looks back.
        prompt (bytes): The beginning of a document.
        count (int): How many bytes, unless the document ends before.
        temperature (float): Divides the logits. Default: ``0.9``.
        top_k (int): Only so many of the likeliest bytes are drawn; 0: all. Default: ``50``.
        top_p (float): Only the likeliest bytes that together have this probability are drawn.
            Default: ``1.0``.
        seed (int): Of the drawing. Default: ``1``.
        cached (bool): Whether the layers keep caches; it changes the time, and what is drawn only
            where two bytes are as likely as each other within rounding. Default: ``True``.

    Returns:
        bytes, without the prompt.
    """
    rng = np.random.default_rng(seed)
    tokens = [data.START, *prompt]
    length = min(context, len(tokens) + count)
    caches, new = model.new_cache(1, length) if cached else None, list(tokens)
    for _ in range(count):
        if caches is not None and len(tokens) <= length:
            logits = model(Tensor(new, ms.int32), (len(new),), caches).asnumpy()[-1]
        else:
            prefix = tokens[-length:]
            padded = np.zeros(length, np.int32)
            padded[: len(prefix)] = prefix
            logits = model(Tensor(padded), (length,)).asnumpy()[len(prefix) - 1]
        token = choose(logits, temperature, top_k, top_p, rng)
        if token == data.START:
            break
        tokens.append(token)
        new = [token]
    return bytes(tokens[1 + len(prompt) :])


def main(arguments=None):
    """The program."""
    parser = argparse.ArgumentParser(prog="python -m model_zoo_demo.generate", description=__doc__)
    parser.add_argument("folder", help="where train wrote its checkpoint")
    parser.add_argument("--prompt", default="", help="beginning of the text")
    parser.add_argument("--bytes", type=int, default=500)
    parser.add_argument("--temperature", type=float, default=0.9)
    parser.add_argument("--top-k", type=int, default=50, help="0: draw from all bytes")
    parser.add_argument("--top-p", type=float, default=1.0, help="1: draw from all bytes")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--no-cache", action="store_true", help="recompute the whole prefix for every byte"
    )
    parser.add_argument("--mode", choices=("graph", "pynative"), default="graph")
    args = parser.parse_args(arguments)
    for name in ("bytes", "temperature", "top_k", "seed"):
        if not getattr(args, name) >= 0:
            raise InputError(f"--{name.replace('_', '-')} must not be negative")
    if not 0 < args.top_p <= 1:
        raise InputError(f"--top-p must be above 0 and at most 1, got {args.top_p}")
    arrays, config, _ = checkpoint.load(args.folder)
    set_up(args.mode, config.device)
    model = Model(config)
    checkpoint.restore(model.trainable_params(), arrays, args.folder)
    prompt = args.prompt.encode()
    if len(prompt) >= config.context:
        print(
            f"generate: the prompt has {len(prompt)} bytes, and the model was trained on a context "
            f"of {config.context}: it looks at the last of them only",
            file=sys.stderr,
        )
    settings = (args.bytes, args.temperature, args.top_k, args.top_p, args.seed)
    begin = time.perf_counter()
    drawn = generate(model, config.context, prompt, *settings, cached=not args.no_cache)
    seconds = time.perf_counter() - begin
    print((prompt + drawn).decode(errors="replace"))
    rate = f"{len(drawn)} bytes in {seconds:.1f} s, {len(drawn) / seconds:.1f} bytes/s"
    print(f"generate: {rate} with compilation", file=sys.stderr)


if __name__ == "__main__":
    try:
        main()
    except InputError as error:
        sys.exit(f"generate: {error}")
