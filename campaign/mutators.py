"""Mutations of a file's bytes by what they are: text, JSON, TOML, zip, gzip, safetensors, SQLite.

Each takes bytes and a seeded generator and returns other bytes; `mutated` chooses by the file's
name, and in a third of all cases passes over the grammar and alters plain bytes.
"""

import gzip
import io
import json
import random
import re
import sqlite3
import zipfile
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from campaign import hostile

Mutator = Callable[[bytes, random.Random], bytes]
_TOKEN = re.compile(rb'"(?:[^"\\\n]|\\.)*"|[A-Za-z_][\w./-]*|-?\d[\d.e+-]*|[^\w\s]')


def flip(content: bytes, draw: random.Random) -> bytes:
    buffer = bytearray(content)
    for _ in range(draw.randint(1, 8) if buffer else 0):
        buffer[draw.randrange(len(buffer))] ^= 1 << draw.randrange(8)
    return bytes(buffer)


def cut(content: bytes, draw: random.Random) -> bytes:
    """A file that ends too early, or lacks a part of its middle."""
    start = draw.randint(0, len(content))
    return content[:start] + (content[draw.randint(start, len(content)) :] * draw.randrange(2))


def splice(content: bytes, draw: random.Random) -> bytes:
    """A part of the file again, at another place of it."""
    start = draw.randint(0, len(content))
    part, place = content[start : start + draw.randint(1, 400)], draw.randint(0, len(content))
    return content[:place] + part + content[place + draw.choice((0, len(part))) :]


def length_field(content: bytes, draw: random.Random) -> bytes:
    """A number of two, four or eight bytes, most often near the start, becomes another."""
    size = draw.choice((2, 4, 8))
    place = draw.randint(0, draw.choice((64, 600, max(0, len(content) - size))))
    number = draw.choice((0, 1, 255, 2**15, 2**31 - 1, 2**31, 2**32 - 1, 2**62, 2**63, 2**64 - 1))
    return (
        content[:place]
        + (number % 2 ** (8 * size)).to_bytes(size, "little")
        + content[place + size :]
    )


def extend(content: bytes, draw: random.Random) -> bytes:
    tail = draw.choice(
        (b"\0" * 64, b"\n", b"\xff\xfe", content[:300], hostile.PICKLE, b"PK\x05\x06")
    )
    return content + tail if draw.random() < 0.7 else tail + content


def replaced(content: bytes, draw: random.Random) -> bytes:
    """Another file altogether."""
    whole = (
        b"",
        b"\0",
        b"\n",
        b"null",
        b"[]",
        b"{}",
        b"\xef\xbb\xbf",
        b"\xff" * 100,
        hostile.PICKLE,
    )
    return draw.choice((*whole, b"PK\x03\x04" * 9, hostile.nested(draw).encode()))


BYTES: tuple[Mutator, ...] = (flip, flip, cut, splice, length_field, length_field, extend, replaced)


def token(content: bytes, draw: random.Random) -> bytes:
    """A word, number or quoted text becomes a hostile one, its quotes kept."""
    if not (matches := list(_TOKEN.finditer(content))):
        return hostile.text(draw).encode("utf-8", "surrogatepass")
    match = draw.choice(matches)
    new = str(hostile.value(draw)).encode("utf-8", "surrogatepass")
    if match[0].startswith(b'"') and draw.random() < 0.9:
        new = json.dumps(new.decode("utf-8", "replace")).encode()
    return content[: match.start()] + new + content[match.end() :]


def lines(content: bytes, draw: random.Random) -> bytes:
    """A line goes, comes twice, changes places, or ends otherwise."""
    rows = content.split(b"\n")
    place, other = draw.randrange(len(rows)), draw.randrange(len(rows))
    kind = draw.randrange(4)
    if kind == 0:
        del rows[place]
    elif kind == 1:
        rows.insert(other, rows[place])
    elif kind == 2:
        rows[place], rows[other] = rows[other], rows[place]
    else:
        rows[place] += draw.choice((b"\r", b"\\", b"#", b'"', b"\0", b"\xff"))
    return b"\n".join(rows)


def json_value(content: bytes, draw: random.Random) -> bytes:
    """A value of a JSON document becomes another, goes, or comes twice."""
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        return flip(content, draw)
    if draw.random() < 0.08:
        return _with_text(document, hostile.nested(draw), draw)
    if draw.random() < 0.08:
        return re.sub(rb'("[^"]*") *:', rb"\1: 1, \1:", content, count=draw.randint(1, 3))
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        document = _altered(document, draw)
    return json.dumps(document, ensure_ascii=draw.random() < 0.5).encode("utf-8", "surrogatepass")


def json_line(content: bytes, draw: random.Random) -> bytes:
    rows = content.splitlines()
    if not rows or draw.random() < 0.2:
        return lines(content, draw)
    place = draw.randrange(len(rows))
    rows[place] = json_value(rows[place], draw)
    return b"\n".join(rows) + b"\n"


def _places(document: Any, path: tuple = ()) -> list[tuple]:
    entries = document.items() if isinstance(document, dict) else ()
    entries = enumerate(document) if isinstance(document, list) else entries
    return [(), *((key, *rest) for key, inner in entries for rest in _places(inner))]


def _altered(document: Any, draw: random.Random) -> Any:
    place = draw.choice(_places(document)[1:] or [()])
    if not place:
        return hostile.value(draw)
    parent = document
    for key in place[:-1]:
        parent = parent[key]
    key, kind = place[-1], draw.randrange(10)
    if kind == 0:
        del parent[key]
    elif kind == 1:
        parent[key] = {"x": parent[key]} if draw.randrange(2) else [parent[key]] * 3
    elif kind == 2 and isinstance(parent, dict):
        parent[hostile.text(draw)] = parent.pop(key)
    elif kind == 3:
        parent[key] = str(parent[key])
    else:
        parent[key] = hostile.value(draw)
    return document


def _with_text(document: Any, text: str, draw: random.Random) -> bytes:
    """The document with raw text at one place, as `json.dumps` could not nest it."""
    mark = "campaign-mark"
    place = draw.choice(_places(document))
    if not place:
        return text.encode()
    parent = document
    for key in place[:-1]:
        parent = parent[key]
    parent[place[-1]] = mark
    return json.dumps(document).replace(json.dumps(mark), text).encode()


def zipped(content: bytes, draw: random.Random) -> bytes:
    """An entry of a zip is altered, renamed or doubled, and all is packed anew."""
    packed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as source, zipfile.ZipFile(packed, "w", 8) as target:
        chosen = draw.choice(source.namelist())
        for name in source.namelist():
            inner, kind = source.read(name), draw.randrange(6)
            if name == chosen and kind == 0:
                other = re.sub("[\0\ud800]", "", hostile.text(draw))
                target.writestr(other or "x", inner)
            elif name == chosen and kind == 1:
                target.writestr(name, inner)
                target.writestr(f"{name}x", inner)
            elif name == chosen:
                inner = draw.choice((npy_header, npy_header, *BYTES, token))(inner, draw)
                target.writestr(name, inner)
            else:
                target.writestr(name, inner)
    return packed.getvalue()


def npy_header(content: bytes, draw: random.Random) -> bytes:
    """A word of the header of an array becomes another; the header keeps its length."""
    end = 10 + int.from_bytes(content[8:10], "little")
    header = token(content[10:end].rstrip(), draw)[: end - 11]
    return content[:10] + header.ljust(end - 11) + b"\n" + content[end:]


def gzipped(content: bytes, draw: random.Random) -> bytes:
    return gzip.compress(json_line(gzip.decompress(content), draw), 1)


def safetensors(content: bytes, draw: random.Random) -> bytes:
    """The JSON at the start is altered, most often with a length that fits; texts of JSON in its
    metadata are altered as such."""
    size = int.from_bytes(content[:8], "little")
    header, rest = content[8 : 8 + size], content[8 + size :]
    document = json.loads(header)
    notes = [k for k, v in document.get("__metadata__", {}).items() if v[:1] in '{["0123456789']
    if notes and draw.random() < 0.6:
        key = draw.choice(notes)
        altered = json_value(document["__metadata__"][key].encode(), draw)
        document["__metadata__"][key] = altered.decode("utf-8", "replace")
        header = json.dumps(document).encode()
    else:
        header = json_value(header, draw)
    if draw.random() < 0.9:
        size = len(header)
    return size.to_bytes(8, "little") + header + rest


def gguf(content: bytes, draw: random.Random) -> bytes:
    """Fields and the list of tensors, which stand first, are altered; weights seldom."""
    end = min(len(content), draw.choice((32, 1_000, 12_000)))
    return (
        draw.choice((length_field, flip, token, cut, splice))(content[:end], draw) + content[end:]
    )


def sqlite(content: bytes, draw: random.Random) -> bytes:
    """A cell, a column or a table of the database becomes another."""
    database = sqlite3.connect(":memory:")
    database.deserialize(content)
    table = draw.choice([n for (n,) in database.execute("SELECT name FROM sqlite_master")])
    columns = [name for _, name, *_ in database.execute(f"PRAGMA table_info({table})")]
    column, kind = draw.choice(columns), draw.randrange(8)
    with suppress(sqlite3.Error, OverflowError, UnicodeError):
        if kind == 0:
            database.execute(f"DROP TABLE {table}")
        elif kind == 1:
            database.execute(f"ALTER TABLE {table} RENAME COLUMN {column} TO other")
        elif kind < 5 and (held := database.execute(f"SELECT {column} FROM {table}").fetchone()):
            new = json_value(str(held[0]).encode(), draw).decode("utf-8", "replace")
            database.execute(f"UPDATE {table} SET {column} = ?", (new,))
        else:
            new = draw.choice((hostile.value(draw), hostile.PICKLE, None))
            database.execute(f"UPDATE {table} SET {column} = ?", (new,))
    database.commit()
    return database.serialize()


BY_SUFFIX: dict[str, tuple[Mutator, ...]] = {
    ".json": (json_value, json_value, json_value, token),
    ".jsonl": (json_line, json_line, json_line, token),
    ".gz": (gzipped,),
    ".npz": (zipped,),
    ".safetensors": (safetensors,),
    ".db": (sqlite,),
    ".gguf": (gguf,),
}


def mutated(name: str, content: bytes, draw: random.Random) -> bytes:
    """Other bytes for the file of that name."""
    suffix = name[name.rfind(".") :]
    own = BY_SUFFIX.get(suffix, (token, token, token, lines, lines))
    mutate = draw.choice(own if draw.random() < 0.7 else BYTES)
    return mutate(content, draw)
