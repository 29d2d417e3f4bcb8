"""The address of an S3 store in the environment."""

import pytest

from headwater.domain.errors import ConfigError

pytest.importorskip("polars")
from headwater.adapters.delta.local.endpoint import check_endpoint

HTTP, HTTPS = "http://host:9000", "https://host:9000"


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"AWS_ENDPOINT_URL": HTTPS},
        {"AWS_ENDPOINT_URL": f"{HTTPS}/a@b"},
        {"AWS_ENDPOINT_URL": HTTP, "AWS_ALLOW_HTTP": "true"},
        {"AWS_ENDPOINT": HTTP, "AWS_ALLOW_HTTP": "TRUE"},
        {"AWS_ENDPOINT_URL_S3": HTTP, "AWS_allow_http": "1"},
        {"AWS_ENDPOINT_URL_S3": HTTPS, "AWS_ENDPOINT_URL": HTTP},
        {"aws_endpoint_url": HTTP},
    ],
)
def test_these_are_taken(environment: dict[str, str]) -> None:
    check_endpoint(environment)


@pytest.mark.parametrize("name", ["AWS_ENDPOINT", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"])
@pytest.mark.parametrize("further", [{}, {"AWS_ALLOW_HTTP": "false"}])
@pytest.mark.parametrize("address", [HTTP, HTTP.upper()])
def test_without_tls_it_must_be_allowed(name: str, further: dict[str, str], address: str) -> None:
    with pytest.raises(ConfigError, match=f"{name} in the environment .* set AWS_ALLOW_HTTP=true"):
        check_endpoint({name: address, **further})


@pytest.mark.parametrize(
    "address",
    [
        "https://me:hidden@host",
        "http://hidden@host",
        "https://me:hid/den@host",
        "me:hidden@host",
        "https://me:hid#den@h",
    ],
)
def test_a_user_or_a_password_is_refused_and_not_shown(address: str) -> None:
    with pytest.raises(ConfigError, match="AWS_ENDPOINT_URL in the environment") as error:
        check_endpoint({"AWS_ENDPOINT_URL": address, "AWS_ALLOW_HTTP": "true"})
    assert "hid" not in str(error.value)


@pytest.mark.parametrize("address", ["", "host:9000", " https://host", "https://", "https://host:port", "ftp://host"])
def test_what_is_not_an_address_is_refused(address: str) -> None:
    with pytest.raises(ConfigError, match="AWS_ENDPOINT_URL in the environment is not an address such as https://"):
        check_endpoint({"AWS_ENDPOINT_URL": address})
