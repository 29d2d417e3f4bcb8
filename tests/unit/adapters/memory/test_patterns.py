"""Regular expressions of Java for RE2: which are written otherwise, and which are refused."""

import pytest

from headwater.adapters.memory.sql.patterns import pattern_of, separator_of
from headwater.domain.errors import ConfigError


@pytest.mark.parametrize(
    ("java", "re2"),
    [
        (r"^a+?b{1,2}(?:c|\.)[^\w\-]", r"^a+?b{1,2}(?:c|\.)[^\w\-]"),
        ("a.", r"a[^\n\r\x{85}\x{2028}\x{2029}]"),
        (r"\$[$]$", r"\$[$](?:\r\n|[\n\r\x{85}\x{2028}\x{2029}])?\z"),
        (r"[\s,]\s\S", r"[\t-\r ,][\t-\r ][^\t-\r ]"),
        ("(?i)abc", "(?i)abc"),
        ("[]a]]", "[]a]]"),
    ],
)
def test_what_both_know(java, re2):
    assert pattern_of(java) == re2


@pytest.mark.parametrize(
    "java",
    [
        *(r"\bA", r"(?m)^a", "(?s).", "(?i)É", "(?i)s", "(?i)[a]", "[a&&b]", "[a[b]]", "[[:digit:]]", r"\v", "a{,2}"),
        *(r"\C", "(?P<q>a)", "(?=a)", "a++", "(a)\\1", r"\p{L}", r"\Q.\E", "a$b", r"[\S]", r"[\b]", "{"),
        *("(a", "*a", "[z-a]", "a{2,1}"),
    ],
)
def test_what_differs_is_refused(java):
    with pytest.raises(ConfigError, match=r"finds something else here than on Spark; write|is not a pattern"):
        pattern_of(java)


@pytest.mark.parametrize("java", ["|", "b*", "x?", "^", "^a", ",$", r"\A,", "a|", "()", r"\b"])
def test_a_text_is_split_where_something_is_found(java):
    with pytest.raises(ConfigError, match="finds something else here than on Spark; write"):
        separator_of(java)


@pytest.mark.parametrize("java", ["[|]", r"\|", "[$]", r"\$", "[^^a]", ", *", "."])
def test_separators(java):
    assert separator_of(java) == pattern_of(java)
