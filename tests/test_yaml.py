"""The YAML of hyperparameter sets: which texts are what, and which are refused, on which line."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import pytest

from a3c_zoo.config.yaml import MAX_BYTES, MAX_DEPTH, display, dump, parse_document, parse_value, read_document

SCALARS: list[tuple[str, Any]] = [
    # numbers, with or without a point in front of the exponent
    ("1e-4", 1e-4),
    ("1E5", 1e5),
    ("5e-3", 5e-3),
    ("1.5e+3", 1500.0),
    ("-.5", -0.5),
    ("3.", 3.0),
    ("7", 7),
    ("-7", -7),
    ("+7", 7),
    ("1_000_000", 1_000_000),
    ("1_0.5", 10.5),
    ("010", 10),  # not octal
    (".inf", math.inf),
    ("-.INF", -math.inf),
    # only these are booleans and null
    ("true", True),
    ("False", False),
    ("null", None),
    ("~", None),
    ("", None),
    # words, whatever YAML 1.1 makes of them
    ("no", "no"),
    ("off", "off"),
    ("yes", "yes"),
    ("on", "on"),
    ("y", "y"),
    ("2020-01-01", "2020-01-01"),
    ("1:30", "1:30"),
    ("0x1f", "0x1f"),
    ("1__0", "1__0"),
    ("e5", "e5"),
    ("<<", "<<"),
    ("=", "="),
    ("'5'", "5"),
    ('"true"', "true"),
    ("[64, 64]", [64, 64]),
    ("{a: 1e-3}", {"a": 1e-3}),
]


@pytest.mark.parametrize(("text", "expected"), SCALARS)
def test_scalars(text: str, expected: Any) -> None:
    value = parse_value(text)
    assert (value, type(value)) == (expected, type(expected))


def test_nan_is_a_number() -> None:
    assert math.isnan(parse_value(".nan"))


REFUSED: list[tuple[str, str]] = [
    ("!!python/object/apply:os.system ['true']", "tag '!!python/object/apply:os.system' is not allowed"),
    ("!!python/name:os.system", "tag '!!python/name:os.system' is not allowed"),
    ("!custom 3", "tag '!custom' is not allowed"),
    ("!!int 3", "tag '!!int' is not allowed"),
    ("&a [1]", "anchors and aliases are not allowed"),
    ("*a", "anchors and aliases are not allowed"),
    ("[1, 2", "expected ',' or ']'"),
    ("a: b: c", "mapping values are not allowed here"),
    ("a\n---\nb", "expected a single document"),
    ("9" * 5000, "too many digits"),
    ("\x00", "special characters are not allowed"),
    ("\t1", "a tab stands in this line"),
    ('"\\U00110000"', "an escape that is no Unicode character"),
    ('"\\UFFFFFFFF"', "an escape that is no Unicode character"),
    ("[" * 100_000, "nested too deeply"),
    ("x" * (MAX_BYTES + 1), "larger than 128 KiB"),
    ("\udcff", r"is not UTF-8 \(byte 0\)"),  # a byte of the command line that is not UTF-8
]


@pytest.mark.parametrize(("text", "message"), REFUSED, ids=[message for _, message in REFUSED])
def test_refused_values(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message.replace("[", r"\[").replace("]", r"\]")):
        parse_value(text)


DOCUMENTS: list[tuple[str, bytes, list[tuple[int, str]]]] = [
    ("empty", b"", []),
    ("only a comment", b"# nothing\n", []),
    ("byte order mark and CRLF", b"\xef\xbb\xbfrun:\r\n  seed: 1\r\n", []),
    ("control character", b"a:\n  b: 1\n  # \x0c\n", [(3, "special characters are not allowed")]),
    ("list at the top", b"- a\n- b\n", [(1, "must be a mapping of sections, not [a, b]")]),
    ("word at the top", b"hello\n", [(1, "must be a mapping of sections, not hello")]),
    ("duplicate key", b"a:\n  b: 1\n  c: 2\n  b: 3\n", [(4, "duplicate key, first given in line 2")]),
    ("duplicate section", b"a: {}\nb: {}\na: {}\n", [(3, "duplicate key, first given in line 1")]),
    ("number as a key", b"a: 1\n5: 2\n", [(2, "key 5 is no word; quote it")]),
    ("list as a key", b"? [1, 2]\n: 3\n", [(1, "key [1, 2] is no word; quote it")]),
    ("two tags", b"a: !x 1\nb:\n  c: !y 2\n", [(1, "tag '!x' is not"), (3, "tag '!y' is not")]),
    ("alias", b"a: &x [1]\nb: *x\n", [(1, "anchors and aliases are not allowed")]),
    ("merge key", b"a: 1\n<<: {b: 2}\n", []),  # a key like any other, unknown to every section
    ("syntax", b"a: 1\nb: [1\nc: 2\n", [(3, "while parsing a flow sequence expected ',' or ']'")]),
    ("not UTF-8", b"a: 1\nb: \xff\n", [(2, "is not UTF-8 (byte 8)")]),
    ("too large", b"#" * (MAX_BYTES + 1), [(0, "larger than 128 KiB")]),
]


@pytest.mark.parametrize(("raw", "expected"), [case[1:] for case in DOCUMENTS], ids=[case[0] for case in DOCUMENTS])
def test_documents(raw: bytes, expected: list[tuple[int, str]]) -> None:
    document = parse_document(raw, "x.yml")
    assert [fault.line for fault in document.faults] == [line for line, _ in expected]
    for fault, (_, message) in zip(document.faults, expected, strict=True):
        assert fault.message.startswith(message)


def test_lines_of_keys() -> None:
    document = parse_document(b"# header\n\na:\n  b: 1\n  c:\n    - 5\n    - 6\n", "x.yml")
    assert document.data == {"a": {"b": 1, "c": [5, 6]}}
    assert document.lines == {(): 3, ("a",): 3, ("a", "b"): 4, ("a", "c"): 5, ("a", "c", 0): 6, ("a", "c", 1): 7}


def test_depth_limit_is_exact() -> None:
    assert parse_value("[" * (MAX_DEPTH - 1) + "1" + "]" * (MAX_DEPTH - 1))
    with pytest.raises(ValueError, match="nested too deeply"):
        parse_value("[" * MAX_DEPTH + "1" + "]" * MAX_DEPTH)


def test_unreadable_files(tmp_path: Path) -> None:
    faults = [read_document(path, "x").faults[0] for path in (tmp_path / "missing.yml", tmp_path)]
    assert [(fault.line, fault.message) for fault in faults] == [
        (0, "no such file"),
        (0, "cannot be read: Is a directory"),
    ]


ROUND_TRIPS: list[Any] = [
    *(value for _, value in SCALARS),
    *(text for text, _ in SCALARS),  # as strings: those that look like something else must come back as strings
    1e-5,
    1e22,
    0.1 + 0.2,
    2**62,
    "a: b # c",
    "two\nlines",
    "x" * 300 + " y",
    "é\x07",
    "a\x85b\u2028c\u2029d",
    [],
    {},
    [[1], ["no", None]],
]


@pytest.mark.parametrize("value", ROUND_TRIPS, ids=repr)
def test_dump_reads_back(value: Any) -> None:
    text = dump({"section": {"key": value}})
    document = parse_document(text.encode(), "x.yml")
    assert document.faults == ()
    assert document.data == {"section": {"key": value}}
    assert type(document.data["section"]["key"]) is type(value)


def test_dump_has_no_aliases_and_lists_on_one_line() -> None:
    shared = [64, 64]
    assert dump({"a": shared, "b": shared}) == "a: [64, 64]\nb: [64, 64]\n"


def test_dump_is_safe_for_readers_of_yaml_1_1() -> None:
    assert dump({"a": "no", "b": "1e-4"}) == "a: 'no'\nb: '1e-4'\n"


@pytest.mark.parametrize(
    ("value", "expected"),
    [(None, "null"), (True, "true"), ("tanh", "tanh"), ([64, 64], "[64, 64]"), ({"a": 1}, "{a: 1}"), (object, None)],
)
def test_display(value: Any, expected: str | None) -> None:
    assert display(value) == (expected or repr(value))


def test_display_shortens() -> None:
    assert display("x" * 100) == "x" * 59 + "…"
    assert display("x" * 100, limit=0) == "x" * 100


def test_no_text_gets_past_the_faults() -> None:
    """Every text is read as plain data or as a fault. Plain data that is written and read again is equal."""
    pieces = [*"abc:-?[]{}!&*#|>'\"%@`,. \n\t019eE~<=\\", "\n  ", "- ", ": ", "!!int ", "---\n", "\x00", "é", "1e999"]
    choose = random.Random(0)
    for _ in range(2000):
        text = "".join(choose.choices(pieces, k=choose.randrange(25)))
        document = parse_document(text.encode(), "x.yml")
        if not document.faults:
            assert parse_document(dump(document.data).encode(), "y.yml").data == document.data
