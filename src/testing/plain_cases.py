"""Plain files that engines could read in different ways, with the rows that every engine must find in them."""

from __future__ import annotations

from typing import Any

READ: list[tuple[str, str, dict[str, str], list[tuple[Any, ...]]]] = [
    ("blank lines", "csv", {"a": "id,v\n\n1,2\n  \n3,4\n\n"}, [("1", "2"), ("3", "4")]),
    ("blank lines under one column", "csv", {"a": 'v\r\n1\r\n\r\n""\r\n'}, [("",), ("1",)]),
    ("a line break in quotes", "csv", {"a": 'id,v\n1,"a\n\nb"\n2,c\n'}, [("1", "a\n\nb"), ("2", "c")]),
    ("quotes in quotes", "csv", {"a": 'id,v\n1,"say ""x"""\n2,5" disk\n'}, [("1", 'say "x"'), ("2", '5" disk')]),
    ("empty texts", "csv", {"a": 'id,v,w\n1,"",\n2,,""\n'}, [("1", "", None), ("2", None, "")]),
    ("backslashes", "csv", {"a": 'id,v\n1,"c:\\\\d"\n2,"\\"\n3,\\\n'}, [("1", "c:\\\\d"), ("2", "\\"), ("3", "\\")]),
    (
        "line breaks of Windows",
        "csv",
        {"a": 'id,v\r\n1,"a\r\nb"\r\n2,\r\n3,""\r\n\r\n4,x\r\n'},
        [("1", "a\r\nb"), ("2", None), ("3", ""), ("4", "x")],
    ),
    ("line breaks in quotes of the header", "csv", {"a": '"i\rd","w\r\nx",v\n1,2,3\n'}, [("1", "2", "3")]),
    ("line breaks of both kinds", "csv", {"a": "id,v\n1,2\r\n2,\r\n3,4\n"}, [("1", "2"), ("2", None), ("3", "4")]),
    ("byte order marks", "csv", {"a": "\ufeffid,v\n1,2\n", "b": "\ufeffid,v\n3,4\n"}, [("1", "2"), ("3", "4")]),
    ("a field of a later file", "json", {"a": '{"id":1}\n', "b": '{"id":2,"v":3}\n'}, [(1, None), (2, 3)]),
    (
        "a field of a later file inside another",
        "json",
        {"a": '{"a":{"x":1}}\n', "b": '{"a":{"x":2,"y":3}}\n'},
        [({"x": 1, "y": None},), ({"x": 2, "y": 3},)],
    ),
    ("a type of a later file", "json", {"a": '{"a":null}\n{"a":1}\n', "b": '{"a":2.5}\n'}, [(1.0,), (2.5,), (None,)]),
    (
        "blank lines",
        "json",
        {"a": '\ufeff{"a":1}\r\n\r\n  \r\n{"a":2}', "b": "", "c": '\ufeff{"a":3}'},
        [(1,), (2,), (3,)],
    ),
    (
        "surrogate pairs",
        "json",
        {"a": '{"a":"\\ud83d\\ude00"}\n{"a":"\\\\ud800"}\n'},
        [("\U0001f600",), ("\\ud800",)],
    ),
    (
        "values that are all null",
        "json",
        {"a": '{"a":null,"b":[],"c":{},"d":[null,[]],"e":{"x":null,"y":{}},"f":[{}],"g":1}\n'},
        [(None, [], [None, []], {"x": None}, 1)],
    ),
    ("names of values", "json", {"a": '{"a":"a","b":{"a":"\\"a\\":"}}\n'}, [("a", {"a": '"a":'})]),
    ("an empty file", "csv", {"a": "", "b": "id,v\n1,2\n"}, [("1", "2")]),
]
"""Title, format, content of each file, and the rows in order."""

REFUSED = [
    ("columns in another order", "csv", {"a": "id,v\n1,10\n", "b": "v,id\n20,2\n"}, "file .*/[ab]: .*v, id"),
    ("another column", "csv", {"a": "id,v\n1,10\n", "b": "id,w\n2,20\n"}, "file .*/[ab]: .*id, w"),
    ("one more column", "csv", {"a": "id,v\n1,10\n", "b": "id,v,w\n2,20,3\n"}, "file .*/[ab]: .*header"),
    ("a column twice", "csv", {"a": "id,id\n1,10\n"}, "file .*/a: .*name of its own"),
    ("line breaks of old Macs", "csv", {"a": "id,v\r1,2\r3,4\r"}, "the header cannot be read: .*carriage return"),
    ("line breaks of old Macs and quotes", "csv", {"a": '"id",v\r1,"2"\r'}, "the header cannot be read: .*carriage"),
    ("bytes that are not UTF-8", "csv", {"a": "id,v\n1,2\n3,\udce9\n"}, "file .*/a.* UTF-8"),
    ("a header that is not UTF-8", "csv", {"a": "id,\udce9\n1,2\n"}, "UTF-8"),
    ("UTF-16 without its mark", "csv", {"a": "\0i\0d\0,\0v\0\n\x001\0,\x002\0\n"}, "it has NUL bytes: .* UTF-16"),
    ("a field too many", "csv", {"a": "id,v\n1,2,3\n2,3\n"}, "file .*/a.*fields"),
    ("a field too few", "csv", {"a": "id,v\n1,2\n2\n"}, "file .*/a.*fields"),
    ("a field too few after a quote", "csv", {"a": 'id,v\n1,"2"\n2\n'}, "file .*/a.*fields"),
    ("text behind a quote", "csv", {"a": 'id,v\n1,"a"b\n'}, "quote"),
    ("a name twice", "json", {"a": '{"a":1}\n{"a":1,"a":2}\n'}, "(?s)'a' twice|`a` already exists"),
    ("a name twice, with an escape", "json", {"a": '{"\\u0061":1,"a":2}\n'}, "(?s)'a' twice|`a` already exists"),
    ("a name twice inside another", "json", {"a": '{"a":{"x":1,"x":2}}\n'}, "(?s)'x' twice|`x` already exists"),
    ("names in another case", "json", {"a": '{"v":1}\n', "b": '\n{"V":2}\n'}, "file .*/b.*: names '[vV]' and '[vV]'"),
    ("names in another case inside an array", "json", {"a": '{"a":[{"x":1},{"X":2}]}\n'}, "file .*/a.*: names '[xX]'"),
    ("a broken line", "json", {"a": '{"a":1}\n{"a":\n{"a":3}\n'}, "/a|json"),
    ("two objects on a line", "json", {"a": '{"a":1}{"a":2}\n'}, "one JSON object|json"),
    ("an array", "json", {"a": '[{"a":1},{"a":2}]\n'}, "JSON object"),
    ("half of a surrogate pair", "json", {"a": '{"a":"b"}\n{"a":"\\ud800b"}\n'}, "file .*/a.*surrogate"),
    ("the other half of a surrogate pair", "json", {"a": '{"a":"\\ude00"}\n'}, "file .*/a.*surrogate"),
    ("a quote that is not closed", "csv", {"a": 'id,v\n1,"a\n2,b\n'}, "file .*/a.*not closed"),
]
"""Title, format, content of each file, and the message."""
