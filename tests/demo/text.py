"""Text that is the same everywhere: sentences of words that a hash chooses."""

import hashlib

WORDS = "the cat dog sees hears a small red bird and old tree under near house\n".split(" ")


def sentence(name, number):
    digest = hashlib.sha256(f"{name} {number}".encode()).digest()
    words = (WORDS[byte % len(WORDS)] for byte in digest[:12])
    return (" ".join(words) + ".\n").encode()


def document(name, size):
    """About `size` bytes."""
    text, number = b"", 0
    while len(text) < size:
        text += sentence(name, number)
        number += 1
    return text[:size]


def write_folder(folder, files=12, size=700):
    """Documents of several lengths; by their names one in about twenty is for validation."""
    folder.mkdir(exist_ok=True)
    for i in range(files):
        (folder / f"{i}.txt").write_bytes(document(i, size + 37 * i))
    return folder
