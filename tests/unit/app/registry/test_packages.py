"""Optional packages: whether they are there, and what installs them."""

from __future__ import annotations

from headwater.app.registry.packages import is_installed


def test_whether_a_package_is_installed() -> None:
    tried = ("json", "json.decoder", "no_such_package", "no_such.package", "json.no_such")
    assert [is_installed(each) for each in tried] == [True, True, False, False, False]
