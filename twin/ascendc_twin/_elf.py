"""Shared libraries of x86-64 Linux: which names they want, and small ones that hold traps."""

import ctypes
import mmap
import re
import struct
from functools import cache

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_DYNAMIC = struct.Struct("<qQ")
_PAGE = 0x1000
_LOAD, _DYNAMIC_SEGMENT = 1, 2
_DYNAMIC_SYMBOLS = 11
_NEEDED, _HASH, _STRINGS, _SYMBOLS, _STRING_BYTES, _SYMBOL_BYTES, _SONAME = 1, 4, 5, 6, 10, 11, 14


class Library:
    """The dynamic table of a library.

    Args:
        path: Of the file.

    Raises:
        ValueError: If it is no shared library of x86-64.
    """

    def __init__(self, path):
        with open(path, "rb") as file:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        if data[:5] != b"\x7fELF\x02" or struct.unpack_from("<H", data, 18)[0] != 62:
            raise ValueError(f"{path} is no library of x86-64")
        header = _HEADER.unpack_from(data)
        segments = [
            _SEGMENT.unpack_from(data, header[5] + i * header[9]) for i in range(header[10])
        ]
        self._data = data
        self._loaded = [(s[3], s[2], s[5]) for s in segments if s[0] == _LOAD]
        start, size = next((s[2], s[5]) for s in segments if s[0] == _DYNAMIC_SEGMENT)
        entries = list(_DYNAMIC.iter_unpack(data[start : start + size]))
        values = dict(entries)
        begin = self._offset(values[_STRINGS])
        self._strings = data[begin : begin + values[_STRING_BYTES]]
        self._symbols = self._offset(values[_SYMBOLS])
        self._count = self._symbol_count(header, values)
        self.needed = [self._text(value) for tag, value in entries if tag == _NEEDED]

    def _symbol_count(self, header, values):
        if _HASH in values:
            return struct.unpack_from("<I", self._data, self._offset(values[_HASH]) + 4)[0]
        # GNU's hash table leaves out what is wanted, so only the sections tell.
        for i in range(header[12]):
            section = _SECTION.unpack_from(self._data, header[6] + i * header[11])
            if section[1] == _DYNAMIC_SYMBOLS:
                return section[5] // _SYMBOL.size
        raise ValueError("a library has neither DT_HASH nor sections")

    def _offset(self, address):
        for begin, offset, size in self._loaded:
            if begin <= address < begin + size:
                return address - begin + offset
        raise ValueError("an address of the dynamic table lies in no segment")

    def _text(self, at):
        return self._strings[at : self._strings.index(b"\0", at)].decode()

    def names(self):
        """(wanted, defined): names that the library must find elsewhere, and those that it has."""
        table = self._data[self._symbols : self._symbols + self._count * _SYMBOL.size]
        wanted, defined = set(), set()
        for name, info, _, section, _, _ in _SYMBOL.iter_unpack(table):
            if name and info >> 4 == 1 and section == 0:
                wanted.add(name)
            elif name and section != 0:
                defined.add(name)
        return {self._text(at) for at in wanted}, {self._text(at) for at in defined}

    def texts(self, pattern):
        """The texts in the library that match all of a regular expression."""
        found = re.finditer(rb"(?<=\0)(?:" + pattern + rb")(?=\0)", self._data)
        return {match.group().decode() for match in found}


@cache
def _demangler():
    function = ctypes.CDLL("libstdc++.so.6").__cxa_demangle
    function.restype = ctypes.c_void_p
    free = ctypes.CDLL(None).free
    free.argtypes = [ctypes.c_void_p]
    return function, free


def readable(name):
    """A C++ name as its source has it; another one as it is."""
    function, free = _demangler()
    status = ctypes.c_int()
    address = function(name.encode(), None, None, ctypes.byref(status))
    if not address:
        return name
    text = ctypes.string_at(address).decode()
    free(address)
    return text


def _name_hash(name):
    value = 0
    for byte in name:
        value = (value << 4) + byte
        high = value & 0xF0000000
        value = (value ^ (high >> 24)) & ~high
    return value


# A trap writes its text to standard error and ends the process, by system calls
# alone, so that it needs nothing of any other library.
_WRITE_AND_END = bytes.fromhex(
    "b801000000"  # mov $1, %eax         write
    "bf02000000"  # mov $2, %edi
    "0f05"  # syscall
    "b8e7000000"  # mov $231, %eax       exit_group
    "bf01000000"  # mov $1, %edi
    "0f05"  # syscall
    "f4"  # hlt
)


def write_library(path, soname, traps=None, needed=()):
    """Write a shared library.

    Args:
        path: Of the file.
        soname: Its name.
        traps: {name: text}: functions that write their text to standard error and end the process
            with status 1.
        needed: Names of the libraries that are loaded with it.
    """
    strings = bytearray(b"\0")

    def put(text):
        strings.extend(text.encode() + b"\0")
        return len(strings) - len(text.encode()) - 1

    traps = traps or {}
    names = sorted(traps)
    places = [put(name) for name in names]
    dynamic = [(_NEEDED, put(name)) for name in needed] + [(_SONAME, put(soname))]

    buckets = max(1, len(names))
    first, chain = [0] * buckets, [0] * (len(names) + 1)
    for i, name in enumerate(names, 1):
        bucket = _name_hash(name.encode()) % buckets
        chain[i], first[bucket] = first[bucket], i
    table = struct.pack(f"<{2 + buckets + len(chain)}I", buckets, len(chain), *first, *chain)

    # One page each for headers and tables, code and texts, the dynamic table: the loader maps them
    # with rights of their own.
    segments = 4
    symbols_at = _HEADER.size + segments * _SEGMENT.size
    hash_at = symbols_at + (len(names) + 1) * _SYMBOL.size
    strings_at = hash_at + len(table)
    tables_end = strings_at + len(strings)
    code_at = -(-tables_end // _PAGE) * _PAGE

    # lea text(%rip), %rsi; mov $length, %edx; jmp of the common end.
    stub = 7 + 5 + 5
    code, texts = bytearray(), bytearray()
    common = len(names) * stub
    texts_at = common + len(_WRITE_AND_END)
    for name in names:
        text = (traps[name] + "\n").encode()
        here = len(code)
        code += b"\x48\x8d\x35" + struct.pack("<i", texts_at + len(texts) - (here + 7))
        code += b"\xba" + struct.pack("<I", len(text))
        code += b"\xe9" + struct.pack("<i", common - (here + stub))
        texts += text
    code += _WRITE_AND_END + texts
    dynamic_at = -(-(code_at + len(code)) // _PAGE) * _PAGE

    symbols = bytes(_SYMBOL.size)
    for i, place in enumerate(places):
        # A global function; which section it is in does not matter, only that it is in one.
        symbols += _SYMBOL.pack(place, 0x12, 0, 1, code_at + i * stub, stub)
    dynamic += [
        (_HASH, hash_at),
        (_STRINGS, strings_at),
        (_SYMBOLS, symbols_at),
        (_STRING_BYTES, len(strings)),
        (_SYMBOL_BYTES, _SYMBOL.size),
        (0, 0),
    ]
    last = b"".join(_DYNAMIC.pack(*entry) for entry in dynamic)
    ident = b"\x7fELF\x02\x01\x01" + bytes(9)
    head = _HEADER.pack(ident, 3, 62, 1, 0, _HEADER.size, 0, 0, 64, 56, segments, 64, 0, 0)

    def segment(kind, rights, at, size):
        return _SEGMENT.pack(kind, rights, at, at, at, size, size, _PAGE if kind == _LOAD else 8)

    head += segment(_LOAD, 4, 0, tables_end) + segment(_LOAD, 5, code_at, len(code))
    head += segment(_LOAD, 6, dynamic_at, len(last))
    head += segment(_DYNAMIC_SEGMENT, 6, dynamic_at, len(last))
    content = bytearray(head + symbols + table + strings)
    content += bytes(code_at - len(content)) + code
    content += bytes(dynamic_at - len(content)) + last
    path.write_bytes(content)
