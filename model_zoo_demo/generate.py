"""Continue texts with a trained model: `python -m model_zoo_demo.generate FOLDER --prompt TEXT`.

The layers keep what they need of earlier bytes in caches, so a byte costs one step. Beyond the
model's context, where the oldest bytes fall out of sight, every byte recomputes the whole prefix.
Several prompts, of any lengths, are the rows of one batch.
"""

import argparse
import statistics
import sys
import time

import numpy as np
from mindspore import Tensor

from . import checkpoint, data
from .errors import InputError
from .machine import add_mode, reads_caches, set_up
from .model import Model, selected_rows


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


class Text:
    """A text that grows: its tokens so far, and those that the caches do not have."""

    def __init__(self, prompt, seed):
        self.tokens = [data.START, *prompt]
        self.new = list(self.tokens)
        self.prompt, self.rng, self.done = len(prompt), np.random.default_rng(seed), False

    def add(self, token):
        """Take a token; the document ends with the next one's start."""
        self.done = token == data.START
        self.new = [] if self.done else [token]
        self.tokens += self.new

    def drawn(self):
        """The bytes after the prompt."""
        return bytes(self.tokens[1 + self.prompt :])


def _step(model, texts, caches):
    """Logits of the next byte of every text that is not done, in order: one call for all."""
    tokens = np.array([token for text in texts for token in text.new], np.int32)
    ends = np.cumsum([len(text.new) for text in texts])
    logits = model(Tensor(tokens), Tensor(ends), caches).asnumpy()
    return [logits[end - 1] for end, text in zip(ends, texts) if text.new]


def _recomputed(model, text, length):
    """Generate from one text, from its last `length` tokens."""
    prefix = text.tokens[-length:]
    padded = np.zeros(length, np.int32)
    padded[: len(prefix)] = prefix
    return model(Tensor(padded), (length,)).asnumpy()[len(prefix) - 1]


def generate(
    model,
    context,
    prompts,
    count,
    temperature=0.9,
    top_k=50,
    top_p=1.0,
    seed=1,
    cached=True,
    seconds=None,
    samples=1,
):
    """Bytes that follow each of some prompts.

    Args:
        model (Model): Its graph is compiled for the prompts and for one byte of each, and again
            where a text ends before the others; without caches once, for the longest prefix: what
            stands after a shorter one is in the future and changes nothing.
        context (int): The number of bytes that the model looks back.
        prompts (list[bytes]): Beginnings of documents.
        count (int): How many bytes of each, unless a document ends before.
        temperature (float): Divides the logits. Default: ``0.9``.
        top_k (int): Only so many of the likeliest bytes are drawn; 0: all. Default: ``50``.
        top_p (float): Only the likeliest bytes that together have this probability are drawn.
            Default: ``1.0``.
        seed (int): Of the drawing; text number i has `seed` + i. Default: ``1``.
        cached (bool): Whether the layers keep caches; it changes the time, and what is drawn only
            where two bytes are as likely as each other within rounding. Default: ``True``.
        seconds (list, optional): Gets the time of every step. Default: ``None``.
        samples (int): Texts of each prompt, which the model reads once. Default: ``1``.

    Returns:
        list[bytes], without the prompts; the samples of a prompt come one after another.
    """
    repeated = [prompt for prompt in prompts for _ in range(samples)]
    texts = [Text(prompt, seed + i) for i, prompt in enumerate(repeated)]
    length = min(context, max(len(text.tokens) for text in texts) + count)
    cached = cached and reads_caches(model)
    caches = model.new_cache(len(prompts), length) if cached else None
    once = cached and samples > 1
    for _ in range(count):
        begin = time.perf_counter()
        going = [text for text in texts if not text.done]
        # A row without room gets no more tokens.
        for text in going:
            if len(text.tokens) > length or not cached:
                text.new = []
        if not going:
            break
        read = texts[::samples] if once else texts
        fresh = [text for text in read if text.new and not text.done]
        logits = dict(zip(map(id, fresh), _step(model, read, caches))) if fresh else {}
        if once:
            firsts = [i - i % samples for i in range(len(texts))]
            logits = {id(text): logits.get(id(texts[i])) for text, i in zip(texts, firsts)}
            caches = selected_rows(caches, [i // samples for i in range(len(texts))])
            once = False
        for text in going:
            scores = logits[id(text)] if text.new else _recomputed(model, text, length)
            text.add(choose(scores, temperature, top_k, top_p, text.rng))
        if seconds is not None:
            seconds.append(time.perf_counter() - begin)
    return [text.drawn() for text in texts]


def main(arguments=None):
    """The program."""
    parser = argparse.ArgumentParser(prog="python -m model_zoo_demo.generate", description=__doc__)
    parser.add_argument("folder", help="where train wrote its checkpoint")
    parser.add_argument(
        "--prompt",
        action="append",
        help="beginning of a text; may be given several times; default: none",
    )
    parser.add_argument(
        "--bytes", type=int, default=500, help="how many to add to every text; default: 500"
    )
    parser.add_argument(
        "--temperature",
        type=float,
        default=0.9,
        help="divides the logits; 0: always the likeliest byte; default: 0.9",
    )
    parser.add_argument(
        "--top-k",
        type=int,
        default=50,
        help="draw from so many of the likeliest bytes; 0: from all; default: 50",
    )
    parser.add_argument(
        "--top-p",
        type=float,
        default=1.0,
        help="of these, draw from the fewest that together have this probability; default: 1, all",
    )
    parser.add_argument(
        "--samples", type=int, default=1, help="texts of every prompt, read once; default: 1"
    )
    parser.add_argument("--seed", type=int, default=1, help="of the draws; default: 1")
    parser.add_argument(
        "--no-cache", action="store_true", help="recompute the whole prefix for every byte"
    )
    add_mode(parser)
    args = parser.parse_args(arguments)
    for name in ("bytes", "temperature", "top_k", "seed"):
        if not getattr(args, name) >= 0:
            raise InputError(f"--{name.replace('_', '-')} must not be negative")
    if args.samples < 1:
        raise InputError("--samples must be at least 1")
    if not 0 < args.top_p <= 1:
        raise InputError(f"--top-p must be above 0 and at most 1, got {args.top_p}")
    arrays, config, _ = checkpoint.load(args.folder)
    data.check_vocabulary(config, args.folder)
    set_up(args.mode, config.device)
    model = Model(config)
    checkpoint.restore(model.trainable_params(), arrays, args.folder)
    prompts = [data.encoded(text) for text in args.prompt or [""]]
    for prompt in prompts:
        if len(prompt) >= config.context:
            print(
                f"generate: the prompt has {len(prompt)} bytes, and the model was trained on a "
                f"context of {config.context}: it looks at the last of them only",
                file=sys.stderr,
            )
    settings = (args.bytes, args.temperature, args.top_k, args.top_p, args.seed)
    seconds = []
    drawn = generate(
        *(model, config.context, prompts, *settings),
        cached=not args.no_cache,
        seconds=seconds,
        samples=args.samples,
    )
    for i, text in enumerate(drawn):
        if len(drawn) > 1:
            print(f"--- {i + 1} ---")
        print((prompts[i // args.samples] + text).decode(errors="replace"))
    total, passed = sum(map(len, drawn)), sum(seconds)
    if seconds:
        # The median is of a step without compilation.
        step = statistics.median(seconds)
        print(
            f"generate: {total} bytes in {passed:.1f} s with compilation, "
            f"{len(drawn) / step:.1f} bytes/s in a step of {1e3 * step:.2f} ms",
            file=sys.stderr,
        )


if __name__ == "__main__":
    try:
        main()
    except InputError as error:
        sys.exit(f"generate: {error}")
