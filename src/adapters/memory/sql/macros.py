"""Macros for functions that DuckDB lacks or defines differently from Spark; each query's database gets them."""

import re

_UNLIKE_JAVA = "ŉǰΐΰևẖẗẘẙẚὐὒὔὖᾀᾁᾂᾃᾄᾅᾆᾇᾈᾉᾊᾋᾌᾍᾎᾏᾐᾑᾒᾓᾔᾕᾖᾗᾘᾙᾚᾛᾜᾝᾞᾟᾠᾡᾢᾣᾤᾥᾦᾧᾨᾩᾪᾫᾬᾭᾮᾯᾲᾳᾴᾶᾷᾼῂῃῄῆῇῌῒΐῖῗῢΰῤῦῧῲῳῴῶῷῼﬀﬁﬂﬃﬄﬅﬆﬓﬔﬕﬖﬗ"
"""Letters whose upper case is several letters in Java and one in DuckDB. Without ß: `hw_upper` replaces it by SS."""

_STOP = "headwater: "
_STOPPED = re.compile(rf"Could not convert string '{_STOP}(.*?)' to BOOL", re.DOTALL)

MACROS = (
    # A cast that fails, as DuckDB refuses its own `error` in the keys of a window. See `message_of`.
    f"""hw_stop(m) AS CASE WHEN CAST('{_STOP}' || m AS BOOLEAN) THEN NULL END""",
    # Casts ignore ASCII blanks and control characters around a value. Other blanks, which DuckDB's trim would remove,
    # are part of the value, so the result is null.
    r"""hw_stripped(t) AS regexp_replace(t, '^[\x00-\x20\x7f]+|[\x00-\x20\x7f]+$', '', 'g')""",
    """hw_trimmed(t) AS CASE WHEN trim(hw_stripped(t)) = hw_stripped(t) THEN hw_stripped(t) END""",
    f"""hw_upper(t) AS CASE WHEN strlen(t) <> length(t) AND regexp_matches(t, '[{_UNLIKE_JAVA}]')
        THEN hw_stop('upper: a letter of "' || t || '" has another upper case on Spark')
        ELSE upper(replace(t, 'ß', 'SS')) END""",
    """hw_lower(t) AS CASE WHEN strlen(t) <> length(t) AND regexp_matches(t, '[İΣ]')
        THEN hw_stop('lower: a letter of "' || t || '" has another lower case on Spark')
        ELSE lower(t) END""",
    # Integers in text may have a fraction, which is truncated, and no exponent.
    r"""hw_whole(t) AS CASE WHEN regexp_full_match(trim(t), '[+-]?(\d+(\.\d*)?|\.\d*)')
        THEN regexp_replace(trim(t), '^([+-]?)(\d*).*$', '\10\2') END""",
    # The digits with their point moved, as DuckDB finds no room for all digits before an exponent in a small decimal.
    # Spark takes more than 38 digits before the point for null, even if all are zeros.
    r"""hw_shifted(p, e) AS CASE WHEN e - length(p.part) < 38 THEN p.sign
        || left(repeat('0', -e) || p.whole, length(p.whole)) || left(p.part || repeat('0', e), greatest(e, 0)) || '.'
        || right(repeat('0', -e) || p.whole, greatest(-e, 0)) || substring(p.part, greatest(e, 0) + 1) END""",
    r"""hw_number(t) AS CASE
        WHEN regexp_full_match(trim(t), '[+-]?(\d+\.?\d*|\.\d+)') THEN trim(t)
        WHEN regexp_full_match(trim(t), '[+-]?(\d+\.?\d*|\.\d+)[eE][+-]?0*\d{1,3}')
        THEN hw_shifted(regexp_extract(trim(t), '([+-]?)(\d*)\.?(\d*)', ['sign', 'whole', 'part']),
            CAST(regexp_extract(trim(t), '[eE]\+?(.*)', 1) AS INTEGER))
        WHEN regexp_full_match(trim(t), '[+-]?(\d+\.?\d*|\.\d+)[eE]-\d+')
        THEN hw_stop('an exponent below -999 in "' || t || '"')
        WHEN strlen(t) <> length(t) AND regexp_full_match(t, '[+-]?[\p{Nd}.]+([eE][+-]?\p{Nd}+)?')
        THEN hw_stop('digits other than 0 to 9 in "' || t || '"') END""",
    r"""hw_float(t) AS CASE
        WHEN regexp_full_match(trim(t), '[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?[dDfF]?')
        THEN regexp_replace(trim(t), '[dDfF]$', '')
        WHEN regexp_full_match(lower(trim(t)), '[+-]?inf(inity)?|nan') THEN trim(t)
        WHEN t IN ('+NaN', '-NaN') THEN 'NaN'
        WHEN regexp_full_match(t, '[+-]?0[xX][0-9a-fA-F.]+[pP][+-]?\d+[dDfF]?')
        THEN hw_stop('a hexadecimal number in "' || t || '"; write it in decimal digits') END""",
    """hw_boolean(t) AS CASE
        WHEN lower(trim(t)) IN ('t', 'true', 'y', 'yes', '1') THEN true
        WHEN lower(trim(t)) IN ('f', 'false', 'n', 'no', '0') THEN false END""",
    # A year, or a year and a month, means their first day. A year may have a plus, and zeros before it.
    r"""hw_year(t) AS regexp_replace(t, '^\+?0{0,3}(\d{4})(-|$)', '\1\2')""",
    r"""hw_day(t) AS CASE WHEN regexp_full_match(hw_year(t), '\d{4}') THEN hw_year(t) || '-01-01'
        WHEN regexp_full_match(hw_year(t), '\d{4}-\d{1,2}') THEN hw_year(t) || '-01'
        WHEN regexp_full_match(hw_year(t), '\d{4}-\d{1,2}-\d{1,2}') THEN hw_year(t)
        WHEN regexp_full_match(t, '(\+?\d{5,7}|-\d{4,7})(-\d{1,2}){0,2}')
        THEN hw_stop('a year outside 1 to 9999 in "' || t || '"') END""",
    r"""hw_date(t) AS TRY_CAST(
        hw_day(regexp_replace(t, '(?s)^([+-]?\d{4,7}-\d{1,2}-\d{1,2})[ T].*$', '\1')) AS DATE)""",
    """hw_offset(t) AS CAST(t[1:1] || '1' AS BIGINT)
        * (CAST(t[2:3] AS BIGINT) * 3600 + CAST(t[4:5] AS BIGINT) * 60 + CAST(t[6:7] AS BIGINT))""",
    # Hours alone, with minutes, or with seconds as well; without colons, or with them and fewer digits; at most 18:00.
    r"""hw_zone(z) AS CASE WHEN z IN ('', 'Z') THEN 0
        WHEN regexp_full_match(z, '[+-](?:(?:1[0-7]|0?\d)(?::[0-5]?\d|:[0-5]\d:[0-5]\d)?'
            || '|(?:1[0-7]|0\d)[0-5]\d(?:[0-5]\d)?|18(?::00?|:00:00|00(?:00)?)?)')
        THEN hw_offset(rpad(replace(regexp_replace(regexp_replace(
            z, '^(.)(\d)(:|$)', '\10\2\3'), ':(\d)$', ':0\1'), ':', ''), 7, '0'))
        WHEN regexp_matches(z, '[A-Za-z]{2}')
        THEN hw_stop('a zone by name, "' || z || '": memory casts only times in UTC (Z) or with an offset') END""",
    """hw_digits(t) AS CASE WHEN t = '' THEN '0' ELSE t END""",
    r"""hw_moment(p) AS CASE WHEN p.day <> '' THEN TRY_CAST(hw_day(p.day) || ' ' || p.h || ':' || hw_digits(p.m)
        || ':' || hw_digits(p.s) || '.' || left(p.part || '000000', 6) AS TIMESTAMP)
        - to_seconds(hw_zone(regexp_replace(p.zone, '^[\x00-\x20]+', ''))) END""",
    # The first form is by far the most frequent one, and DuckDB reads it as Spark does.
    r"""hw_timestamp(t) AS CASE
        WHEN regexp_full_match(t, '\d{4}-\d{1,2}-\d{1,2}[ T]([01]?\d|2[0-3]):\d{1,2}:\d{1,2}(\.\d{1,9})?'
            || '(Z|[+-](0\d|1[0-7]):?[0-5]\d)?')
        THEN CAST(TRY_CAST(t AS TIMESTAMPTZ) AS TIMESTAMP)
        WHEN regexp_matches(t, '^[+-]?\d{4,6}-\d{1,2}-\d{1,2}[ T]')
        THEN hw_moment(regexp_extract(t, '(?s)^([+-]?\d{4,6}-\d{1,2}-\d{1,2})[ T]([01]?\d|2[0-3])'
            || '(?::([0-5]?\d)(?::([0-5]?\d)(?:\.(\d*))?(\D.*)?)?)?$', ['day', 'h', 'm', 's', 'part', 'zone']))
        WHEN regexp_matches(t, '^T?\d{1,2}:|^T\d{1,2}$')
        THEN hw_stop('no day in "' || t || '": Spark would take today; write the day before it')
        WHEN NOT regexp_matches(t, '^[+-]?\d{7}') THEN CAST(TRY_CAST(hw_day(t) AS DATE) AS TIMESTAMP) END""",
    # DuckDB writes years beyond 9999 without a plus, and year 0 as 0001 (BC).
    r"""hw_time_text(t) AS CASE WHEN year(t) BETWEEN 1 AND 9999 THEN CAST(t AS VARCHAR)
        WHEN year(t) > 9999 THEN '+' || CAST(t AS VARCHAR)
        ELSE CASE WHEN year(t) < 0 THEN '-' ELSE '' END || format('{:04d}', -year(t))
            || regexp_replace(replace(CAST(t AS VARCHAR), ' (BC)', ''), '^\d+', '') END""",
    """hw_substring(t, p, n) AS substring(t, CASE WHEN p = 0 THEN 1 ELSE p END, greatest(n, 0))""",
    """hw_tail(t, p) AS substring(t, CASE WHEN p = 0 THEN 1 ELSE p END)""",
    """hw_decimal(x) AS CAST(CAST(CAST(x AS DOUBLE) AS VARCHAR) AS DECIMAL(38, 20))""",
    # Doubles are rounded as their shortest text; from 2^53 on they have no fraction.
    """hw_round(x, n) AS CASE WHEN abs(x) >= 9007199254740992 THEN x
        ELSE CAST(round(hw_decimal(x), n) AS DOUBLE) END""",
    # Spark rounds floats as doubles.
    """hw_round_float(x, n) AS CASE WHEN abs(x) >= 9007199254740992 THEN x
        ELSE CAST(CAST(round(hw_decimal(x), n) AS VARCHAR) AS REAL) END""",
    """hw_zeroed(x) AS x + CAST(0 AS REAL)""",
    """hw_quotient(a, b) AS a / CASE WHEN b = 0 THEN NULL ELSE b END""",
    """hw_div(a, b) AS a // CASE WHEN b = 0 THEN NULL ELSE b END""",
    """hw_mod(a, b) AS a % CASE WHEN b = 0 THEN NULL ELSE b END""",
    """hw_fitting(v, w, m) AS CASE WHEN v IS NOT NULL AND w IS NULL THEN hw_stop(m) ELSE w END""",
    """hw_dayofweek(t) AS dayofweek(t) + 1""",
    """hw_seconds(t) AS CAST(CAST(date_part('microseconds', t) AS DECIMAL(18, 0)) * 0.000001 AS DECIMAL(8, 6))""",
    """hw_days_later(d, n) AS CAST(d AS DATE) + n""",
    """hw_days_apart(a, b) AS CAST(CAST(a AS DATE) - CAST(b AS DATE) AS INTEGER)""",
    """hw_months_later(d, n) AS CAST(CAST(d AS DATE) + to_months(n) AS DATE)""",
)


def message_of(error: str) -> str:
    """DuckDB's text of an error, or if a macro has stopped the query, the macro's message alone."""
    found = _STOPPED.search(error)
    return found[1] if found else error
