"""Errors of rights, logins and limits: only the user can mend them, so they are not tried again."""

from __future__ import annotations

from contextlib import contextmanager
from socketserver import BaseRequestHandler, ThreadingTCPServer
from threading import Thread
from typing import TYPE_CHECKING

import pytest
from attrs import evolve
from confluent_kafka import KafkaError, KafkaException

from headwater.adapters.kafka.broker import TopicReader
from headwater.adapters.kafka.clients import Admin
from headwater.adapters.kafka.errors import translate_errors
from headwater.adapters.kafka.settings import KafkaSettings, SinkSettings
from headwater.adapters.shared.unanswered import remember_unanswered
from headwater.domain.errors import ConfigError, SinkUnavailable, SourceUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

SOURCE = KafkaSettings("broker:9092", ("orders", "lines"), options={"sasl.password": "geheim"})
SINK = SinkSettings("broker:9092", "prices", {"sasl.password": "geheim"})
LOGIN = KafkaError(KafkaError._AUTHENTICATION, "SASL authentication error: Invalid username or password")
PASSING = [
    KafkaError(KafkaError._AUTHENTICATION, f"SASL {words}")
    for words in (
        "authentication error: SaslAuthenticateRequest failed: Local: Broker transport failure",
        "PLAIN mechanism handshake failed: Local: Broker transport failure: broker's supported mechanisms:",
        "OAUTHBEARER token: Failed to acquire it",
    )
]
MECHANISM = KafkaError(
    KafkaError._AUTHENTICATION, "SASL PLAIN mechanism handshake failed: Broker: Unsupported SASL mechanism"
)
VERIFY = KafkaError(
    KafkaError._SSL, "SSL handshake failed: error:0A000086:SSL routines::certificate verify failed: broker certificate"
)
ALERT = KafkaError(
    KafkaError._TRANSPORT, "Receive failed: error:0A00045C:SSL routines::tlsv13 alert certificate required: SSL alert"
)
TOPIC = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)
ID = KafkaError(KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)


@pytest.mark.parametrize(
    ("settings", "cause", "told"),
    [
        (
            SOURCE,
            LOGIN,
            "refuses the login (SASL authentication error: Invalid username or password): correct sasl.mech",
        ),
        (SINK, LOGIN, "refuses the login (SASL authentication error: Invalid username or password): correct sasl.mech"),
        (
            SOURCE,
            MECHANISM,
            "refuses the login (.*Unsupported SASL mechanism): correct sasl.mechanism, sasl.username and",
        ),
        (
            SOURCE,
            VERIFY,
            "the TLS connection is refused (.*verify failed.*): correct security.protocol, ssl.ca.location",
        ),
        (
            SINK,
            ALERT,
            "the TLS connection is refused (.*certificate required.*): correct security.protocol, ssl.ca.loc",
        ),
        (SOURCE, TOPIC, "refuses to read topics orders, lines (.*): grant its user Describe and Read on them"),
        (SINK, TOPIC, "refuses to publish to topic 'prices' (.*): grant its user Describe and Write on 'prices' and"),
        (
            SINK,
            KafkaError(KafkaError.INVALID_TRANSACTION_TIMEOUT),
            "to last so long: set transaction.timeout.ms in `options` under publish to at most the broker's transac",
        ),
        (SINK, ID, "grant its user Describe and Write on the transactional id 'headwater.<pipeline>.<view>.prices'"),
    ],
)
def test_what_is_refused_is_told_with_what_is_missing(
    settings: KafkaSettings | SinkSettings, cause: KafkaError, told: str
) -> None:
    pattern = told.replace("(", r"\(").replace(")", r"\)")
    with pytest.raises(ConfigError, match=rf"^Kafka at broker:9092:? .*{pattern}"), translate_errors(settings):
        raise KafkaException(cause)


@pytest.mark.parametrize("cause", PASSING)
@pytest.mark.parametrize(("settings", "error"), [(SOURCE, SourceUnavailable), (SINK, SinkUnavailable)])
def test_a_fault_of_the_login_that_passes_is_tried_again(
    settings: KafkaSettings | SinkSettings, error: type[Exception], cause: KafkaError
) -> None:
    with pytest.raises(error, match="is the broker up"), translate_errors(settings):
        raise KafkaException(cause)


def test_an_address_that_did_not_answer_is_not_asked_again_within_a_report() -> None:
    asked = list[str]()

    def ask(settings: KafkaSettings | SinkSettings, error: int) -> None:
        with translate_errors(settings):
            asked.append(settings.servers)
            raise KafkaException(KafkaError(error))

    other = KafkaSettings("other:9092", ("orders",))
    with remember_unanswered():
        for settings, error in ((other, KafkaError.LEADER_NOT_AVAILABLE), (SOURCE, KafkaError._TIMED_OUT)):
            for _ in range(2):
                with pytest.raises(SourceUnavailable, match=f"at {settings.servers} cannot be read just now"):
                    ask(settings, error)
        with pytest.raises(SinkUnavailable, match="topic 'prices' now"):
            ask(SINK, KafkaError._TIMED_OUT)
    assert asked == ["other:9092", "other:9092", "broker:9092"]
    for _ in range(2):
        with pytest.raises(SourceUnavailable):
            ask(SOURCE, KafkaError._TIMED_OUT)
    assert asked[3:] == ["broker:9092", "broker:9092"]


def test_other_options_and_a_silent_leader_do_not_hide_what_an_address_answers() -> None:
    def ask(settings: KafkaSettings, *, answered: bool) -> None:
        with pytest.raises(SourceUnavailable), translate_errors(settings, answered=answered):
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))

    with remember_unanswered():
        ask(SOURCE, answered=True)
        with translate_errors(SOURCE):
            pass
        ask(evolve(SOURCE, options={"security.protocol": "SSL"}), answered=False)
        with translate_errors(SOURCE):
            pass
        ask(SOURCE, answered=False)
        with pytest.raises(SourceUnavailable), translate_errors(evolve(SOURCE, topics=("others",))):
            pytest.fail("it was asked again")


def test_the_error_of_a_login_is_told_until_the_cluster_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    told = list[KafkaError]()
    admin = Admin({"bootstrap.servers": "127.0.0.1:1", "log_level": 0})
    monkeypatch.setattr(admin, "_failures", told)

    def asked(error: int) -> int:
        with pytest.raises(KafkaException) as caught, admin.logged_in():
            raise KafkaException(KafkaError(error))
        return int(caught.value.args[0].code())

    assert asked(KafkaError._TIMED_OUT) == KafkaError._TIMED_OUT
    told += [LOGIN, KafkaError(KafkaError._ALL_BROKERS_DOWN)]
    assert asked(KafkaError.TOPIC_AUTHORIZATION_FAILED) == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert [asked(KafkaError._TIMED_OUT) for _ in range(2)] == [KafkaError._AUTHENTICATION] * 2
    with admin.logged_in():
        pass
    assert asked(KafkaError._TIMED_OUT) == KafkaError._TIMED_OUT


@pytest.mark.lengthy
@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        (
            b"HTTP/1.1 400 Bad Request\r\n\r\n",
            ConfigError,
            "TLS connection is refused .*wrong version number.*: correct sec",
        ),
        (b"", SourceUnavailable, "does its port have TLS, as security.protocol in `options` says"),
    ],
)
def test_a_port_without_tls_is_named(answer: bytes, error: type[Exception], message: str) -> None:
    """A broker ends such a connection without an answer, as it does when it restarts."""
    with _server(answer) as port:
        settings = KafkaSettings(f"127.0.0.1:{port}", ("orders",), options={"security.protocol": "SSL"})
        with pytest.raises(error, match=rf"^Kafka at 127.0.0.1:{port}.*{message}"):
            TopicReader(settings).offset_bounds()


@contextmanager
def _server(answer: bytes) -> Iterator[int]:
    """A server without TLS: it answers the first message of each connection, and ends it."""

    class Handler(BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(1)
            self.request.sendall(answer)

    with ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()
