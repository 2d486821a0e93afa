"""Text as bytes: its documents, their split in two, and batches of them."""

import hashlib
import os
import sysconfig
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .errors import InputError

# Stands before every document. Text has no such byte, a file that has is not text.
START = 0
# Not the language's library but what else lies in its folder, from one machine to the next.
_NOT_LIBRARY = {"site-packages", "dist-packages", "test", "tests", "idle_test", "__pycache__"}
# Besides tab, line feed, form feed, carriage return and escape.
_CONTROL = bytes({*range(32)} - {9, 10, 12, 13, 27})


@dataclass(frozen=True)
class Corpus:
    """Documents one after another."""

    tokens: np.ndarray  # uint8 [n]; every document is START and its bytes
    starts: np.ndarray  # int64 [documents], where in `tokens` they begin

    def __len__(self):
        return len(self.tokens)

    def most_starts(self, context):
        """The largest number of documents that begin inside a piece, its first token apart."""
        # The fullest piece has a document's start as its second token.
        after = np.searchsorted(self.starts, self.starts + context - 1)
        return int((after - np.arange(len(self.starts))).max()) if context > 1 else 0

    def batch(self, positions, context, segments=None):
        """Packed pieces of `context` tokens.

        Args:
            positions (Sequence[int]): Where the pieces begin; a piece needs a token after it.
            context (int): Their length.
            segments (int): Length of the list of segments, filled up with the last end. 0: every
                piece is one segment, whatever documents it holds.
                Default: as many as any pieces may need.

        Returns:
            int32 tokens and their successors, both `[len(positions) * context]`, and int64
            prefix sums of the segments, `[segments]`: a segment ends with its document or piece.
            For 0 segments the sums are a tuple, which is the same for every batch.
        """
        positions = np.asarray(positions, np.int64)
        index = (positions[:, None] + np.arange(context)).reshape(-1)
        tokens, targets = (self.tokens[i].astype(np.int32) for i in (index, index + 1))
        if segments == 0:
            return tokens, targets, tuple(range(context, len(index) + 1, context))
        ends = []
        for row, position in enumerate(positions):
            first, last = np.searchsorted(self.starts, (position + 1, position + context))
            ends += [*(self.starts[first:last] - position + row * context), (row + 1) * context]
        if segments is None:
            segments = len(positions) * (1 + self.most_starts(context))
        ends += [len(index)] * (segments - len(ends))
        return tokens, targets, np.array(ends, np.int64)

    def draw(self, rng, rows, context):
        """Positions of random pieces."""
        return rng.integers(0, len(self) - context, rows)

    def in_order(self, rows, context, limit):
        """Positions of pieces from the beginning, side by side, in groups of `rows`.

        They cover about `limit` bytes, or all where it is 0, but at least one group.
        """
        size = rows * context
        covered = min(max(limit, size + 1), len(self)) if limit else len(self)
        positions = np.arange((covered - 1) // size * rows) * context
        return positions.reshape(-1, rows)

    def digest(self):
        """A short text that differs where the corpus differs."""
        whole = hashlib.sha256(self.tokens.tobytes())
        return whole.hexdigest()[:16]


def join(documents):
    """The `Corpus` of a sequence of bytes; empty ones are left out."""
    documents = [text for text in documents if text]
    if not documents:
        return Corpus(np.zeros(0, np.uint8), np.zeros(0, np.int64))
    lengths = np.array([len(text) + 1 for text in documents], np.int64)
    joined = b"".join(bytes([START]) + text for text in documents)
    return Corpus(np.frombuffer(joined, np.uint8), np.cumsum(lengths) - lengths)


def check_vocabulary(config, source):
    """Fail for a model of other tokens than bytes, as those of `recall` are."""
    if config.vocabulary != 256:
        raise InputError(
            f"{source}: vocabulary must be 256, because text is read as bytes, "
            f"got {config.vocabulary}"
        )


def encoded(text):
    """The bytes of a text of the command line, or of a file's name, in UTF-8 or not."""
    return text.encode(errors="surrogateescape")


def is_text(content):
    """Whether bytes look like text: no NUL and few other control bytes."""
    control = len(content) - len(content.translate(None, _CONTROL))
    return b"\0" not in content and control <= 0.01 * len(content)


def _read(path):
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"--data: cannot read {path}: {error.strerror}") from None


def standard_library():
    """(name, bytes) of the modules of the running interpreter's standard library."""
    root = Path(sysconfig.get_path("stdlib"))
    found = []
    for path in sorted(root.rglob("*.py")):
        relative = path.relative_to(root)
        content = b"" if _NOT_LIBRARY & {*relative.parts} else _read(path)
        if content and is_text(content):
            found.append((relative.as_posix(), content))
    return found


def user_files(paths, say=print):
    """(name, bytes) of text files and of all those in folders.

    A file that is named must be text and not empty. In a folder what is not text is left out, and
    `say` is told how many files that were.
    """
    found = []
    for path in map(Path, paths):
        if not path.exists():
            raise InputError(f"--data: {path} does not exist")
        if path.is_dir():
            found += _folder(path, say)
            continue
        if not path.is_file():
            # A pipe would wait for somebody to write, and a device may never end.
            raise InputError(f"--data: {path} is not a file or folder; save its text to a file")
        content = _read(path)
        if not content:
            raise InputError(f"--data: {path} is empty")
        if not is_text(content):
            raise InputError(f"--data: {path} is binary; text is needed")
        found.append((path.name, content))
    return found


def _folder(root, say):
    def fail(error):
        raise InputError(f"--data: cannot read {error.filename}: {error.strerror}")

    walked = os.walk(root, onerror=fail)
    paths = sorted(Path(folder, name) for folder, _, names in walked for name in names)
    contents = {path: _read(path) for path in paths if path.is_file()}
    texts = {path: c for path, c in contents.items() if c and is_text(c)}
    left_out = [path for path in contents if path not in texts]
    if left_out:
        first = encoded(str(left_out[0])).decode(errors="replace")
        say(f"{root}: {len(left_out)} empty or binary files left out, such as {first}")
    if not texts:
        raise InputError(f"--data: no text in {root} ({len(contents)} files)")
    return [(path.relative_to(root).as_posix(), content) for path, content in texts.items()]


def is_validation(name, share):
    """Whether a file is for validation: by its name alone, so that the same files always are."""
    number = int.from_bytes(hashlib.sha256(encoded(name)).digest()[:8], "big")
    return number < share * 2**64


def split(files, least=1, share=0.05):
    """Two corpora, for training and for validation.

    Files are split by name. Where that leaves less than `least` bytes on one side, as with a single
    file, the end of every file is for validation.
    """
    training = [content for name, content in files if not is_validation(name, share)]
    validation = [content for name, content in files if is_validation(name, share)]
    if min(sum(map(len, training)), sum(map(len, validation))) < least:
        cuts = [len(content) - int(len(content) * share) for _, content in files]
        training = [content[:cut] for (_, content), cut in zip(files, cuts)]
        validation = [content[cut:] for (_, content), cut in zip(files, cuts)]
    return join(training), join(validation)


def load(paths, context, rows, say=print):
    """Training and validation corpus of `paths`, or without any of the standard library."""
    files = user_files(paths, say) if paths else standard_library()
    needed = rows * context + 1  # of validation text, for one batch
    training, validation = split(files, needed)
    for corpus, name, least in (
        (training, "training", context + 1),
        (validation, "validation", needed),
    ):
        if len(corpus) < least:
            raise InputError(
                f"--data: {len(corpus)} bytes of {name} text, and {least} are needed "
                f"for rows={rows} and context={context}"
            )
    return training, validation
