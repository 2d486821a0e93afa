"""A locale whose decimal point is a comma, made without any package of a distribution."""

import struct
from pathlib import Path

_LC_NUMERIC = 1
_MAGIC = 0x20031115  # of glibc's locale files, combined with the category's number


def write_comma_locale(folder, name="comma"):
    """Environment of a process in which `setlocale(LC_NUMERIC, name)` finds it in `folder`.

    A category's file of glibc has a magic number, how many elements there are, where each begins,
    and the elements. Those of LC_NUMERIC are the decimal point, the separator of thousands and its
    grouping, the first two again as wide characters, and the name of the encoding.
    """
    texts = [
        b",\0",
        b"\0",
        b"\xff\0",
        struct.pack("<I", ord(",")),
        struct.pack("<I", 0),
        b"UTF-8\0",
    ]
    head = 8 + 4 * len(texts)
    body, places = b"", []
    for text in texts:
        body += b"\0" * (-len(body) % 4)
        places.append(head + len(body))
        body += text
    where = Path(folder) / name
    where.mkdir(parents=True)
    data = struct.pack(f"<II{len(texts)}I", _MAGIC ^ _LC_NUMERIC, len(texts), *places) + body
    (where / "LC_NUMERIC").write_bytes(data)
    return {"LOCPATH": str(folder)}
