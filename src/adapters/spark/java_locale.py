"""The locale of Spark's JVMs, which is always English: ``upper``, ``lower`` and digits in file names depend on it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ...domain.errors import ConfigError

if TYPE_CHECKING:
    from py4j.java_gateway import JavaGateway

JAVA_OPTIONS = "spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions"
LOCALE_OPTIONS = (
    "-Duser.language=en -Duser.country=US -Duser.script= -Duser.variant= -Duser.extensions="
    " -Duser.language.format=en -Duser.country.format=US -Duser.extensions.format="
)
"""Java's options for the locale ``en_US``, whatever ``LANG`` is and whichever of these options comes before."""
UTF8_LOCALE = "C.UTF-8"
"""A locale that needs no installation, with file names in UTF-8."""
_OF_NAMES = "LC_ALL", "LC_CTYPE", "LANG"
_REMEDY = "-Duser.language=en -Duser.country=US"
_LETTERS = "iI\N{LATIN SMALL LETTER DOTLESS I}İÌ"
"""Turkish and Azerbaijani map the case of i, Lithuanian that of Ì, each in its own way."""


def with_locale(settings: Mapping[str, str], name: str) -> str:
    """The Java options of a setting, with the locale after them: Java uses the last of several equal options."""
    return f"{without_locale(settings.get(name, ''))} {LOCALE_OPTIONS}".strip()


def without_locale(options: str) -> str:
    """Java options without those that `with_locale` adds."""
    return options.removesuffix(LOCALE_OPTIONS).rstrip()


def has_utf8_names(environ: Mapping[str, str]) -> bool:
    """Whether a JVM with these environment variables reads and writes the names of files as UTF-8.

    >>> has_utf8_names({"LANG": "de_DE.utf8"}), has_utf8_names({"LANG": "de_DE.utf8", "LC_ALL": "C"})
    (True, False)
    """
    locale = next((environ[name] for name in _OF_NAMES if environ.get(name)), "C")
    return locale.partition(".")[2].partition("@")[0].lower() in ("utf-8", "utf8")


def check_locale(gateway: JavaGateway) -> None:
    """Refuse a JVM whose locale changes results.

    Args:
        gateway: the connection to the driver's JVM.

    Raises:
        ConfigError: letters change their case in another way than in English, or numbers have other digits.
    """
    from py4j.java_gateway import JavaClass  # not in the base environment, which checks settings

    client = gateway._gateway_client
    text = JavaClass("org.apache.spark.unsafe.types.UTF8String", client).fromString(_LETTERS)
    mapped = text.toUpperCase().toString(), text.toLowerCase().toString()
    zero = JavaClass("java.text.DecimalFormatSymbols", client).getInstance().getZeroDigit()
    if (*mapped, zero) == (_LETTERS.upper(), _LETTERS.lower(), "0"):
        return
    locales, category = (JavaClass(f"java.util.Locale{inner}", client) for inner in ("", "$Category"))
    here = locales.getDefault(), locales.getDefault(category.FORMAT)
    found = " and ".join(dict.fromkeys(each.toLanguageTag() for each in here))
    raise ConfigError(
        f"Spark's JVM runs in the locale {found}, in which upper() and lower() give other letters, or files of tables"
        f' get names with other digits. Start Spark with "{JAVA_OPTIONS[0]}" = "{_REMEDY}" and the same under'
        f' "{JAVA_OPTIONS[1]}", or with LANG=C.UTF-8 on every machine; and take options such as -Duser.language out of'
        " the variables JAVA_TOOL_OPTIONS and _JAVA_OPTIONS"
    )
