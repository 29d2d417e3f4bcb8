"""Options that Kafka's client refuses: the message names them, and never their values."""

from __future__ import annotations

from traceback import format_exception

import pytest

from headwater.adapters.kafka import broker, sink
from headwater.adapters.kafka.broker import TopicReader
from headwater.adapters.kafka.settings import KafkaSettings, SinkSettings
from headwater.domain.errors import ConfigError

NOBODY = "127.0.0.1:1"
REFUSED = [
    ({"sasl.user": "geheim"}, 'No such configuration property: "sasl.user"'),
    ({"security.protocol": "geheim"}, 'Invalid value for configuration property "security.protocol"'),
    ({"security.protocol": "sasl_ssl", "sasl.mechanisms": "geheim"}, "Unsupported SASL mechanism"),
]


@pytest.mark.parametrize(("options", "told"), REFUSED)
def test_options_of_a_source(options: dict[str, str], told: str) -> None:
    settings = KafkaSettings(NOBODY, ("orders", "lines"), options=options)
    for call in (lambda: broker.check_options(settings), TopicReader(settings).offset_bounds):
        with pytest.raises(ConfigError, match=r"^the source of Kafka topics orders, lines: .* the options: ") as caught:
            call()
        assert str(caught.value).endswith(told)
        assert "geheim" not in "".join(format_exception(caught.value))


@pytest.mark.parametrize(
    ("options", "told"),
    [
        *REFUSED,
        ({"acks": "1"}, "`acks` must be set to `all` when `enable.idempotence` is true"),
        ({"enable.idempotence": "false"}, "`transactional.id` requires `enable.idempotence=true`"),
    ],
)
def test_options_of_a_sink(options: dict[str, str], told: str) -> None:
    with pytest.raises(ConfigError, match=r"^publish to Kafka topic 'prices': .* the options: ") as caught:
        sink.check_options(SinkSettings(NOBODY, "prices", options))
    assert str(caught.value).endswith(told)


OWN = {"group.id": "x", "enable.auto.commit": "true", "bootstrap.servers": "b:1", "isolation.level": "read_committed"}


def test_options_of_a_source_that_would_have_no_effect() -> None:
    settings = KafkaSettings(NOBODY, ("orders",), options=OWN)
    for call in (lambda: broker.check_options(settings), TopicReader(settings).offset_bounds):
        with pytest.raises(
            ConfigError, match=r"^the source of Kafka topics orders: Headwater sets .* itself, .*: remove"
        ):
            call()
    other = KafkaSettings(NOBODY, ("orders",), options={"enable.auto.commit": "true", "group.id": "x"})
    with pytest.raises(ConfigError, match=r"Headwater sets enable\.auto\.commit, group\.id itself"):
        broker.check_options(other)


def test_options_of_a_sink_that_would_have_no_effect() -> None:
    settings = SinkSettings(NOBODY, "prices", {"transactional.id": "x", "linger.ms": "9"})
    with pytest.raises(ConfigError, match=r"^publish to Kafka topic 'prices': Headwater sets transactional\.id itself"):
        sink.check_options(settings)


def test_good_options_need_no_broker() -> None:
    options = {"client.id": "shop", "socket.keepalive.enable": "true"}
    broker.check_options(KafkaSettings(NOBODY, ("orders",), options=options))
    sink.check_options(SinkSettings(NOBODY, "prices", options))
