"""Tells another program of what an operator should know of a run: alarms, warnings, and that it has ended."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from socket import gethostname
from typing import Any

from attrs import define, field

from ...adapters.webhook import Webhook
from ...domain.epoch.epoch import Publication
from ...domain.errors import HeadwaterError, describe_error
from ...domain.ports import Alarm, Now
from ..deployment.deployment import AlertSettings
from .progress import exact_moment
from .report import IS_ALARM
from .runner import Runner
from .sink_publisher import describe_ahead, is_ahead

_LOGGER = "headwater"
_Find = Callable[[Runner, Publication | None], Iterable[Alarm]]


@contextmanager
def send_alerts(settings: AlertSettings, runners: Sequence[Runner]) -> Iterator[Callable[[], None]]:
    """Send alerts of a run inside this block.

    Args:
        settings: where to send them; nowhere if it has no webhook.
        runners: of the run.

    Yields:
        A function to call again and again; it looks for alarms if it is time to.
    """
    if settings.webhook is None or not runners:
        yield lambda: None
        return
    with ExitStack() as closing:
        webhook = Webhook(settings.webhook, settings.timeout)
        closing.callback(webhook.close)
        alerts = Alerts(runners, settings.check, webhook.post)
        handler = _Forward(alerts)
        logging.getLogger(_LOGGER).addHandler(handler)
        closing.callback(logging.getLogger(_LOGGER).removeHandler, handler)
        try:
            yield alerts.check
        except (KeyboardInterrupt, SystemExit):  # whoever ends the run knows of it
            raise
        except BaseException as error:  # a panic of Polars is no Exception
            alerts.send("stopped", f"the run has ended: {describe_error(error)}")
            raise


@define(eq=False)
class Alerts:
    """Sends an event for each alarm that begins, and for each that ends; its text may change in between.

    Args:
        runners: of the run.
        every: the time between two looks for alarms.
        post: sends an event.
    """

    runners: Sequence[Runner]
    every: timedelta
    post: Callable[[Mapping[str, Any]], None]
    _looked: timedelta | None = field(init=False, default=None)
    _known: dict[tuple[str, str], str] = field(init=False, factory=dict)

    def check(self) -> None:
        """Look for alarms if it is time to."""
        now = self.runners[0].clock.elapsed()
        if self._looked is not None and now - self._looked < self.every:
            return
        self._looked = now
        found = {(runner.pipeline, each.about): each.text for runner in self.runners for each in _find_alarms(runner)}
        for each in sorted(found.keys() - self._known.keys()):
            self.send("alarm", found[each], each[0])
        for each in sorted(self._known.keys() - found.keys()):
            self.send("resolved", self._known[each], each[0])
        self._known = found

    def send(self, kind: str, message: str, pipeline: str | None = None, *, is_named: bool = False) -> None:
        """Send an event. `text` is what chats show; `is_named`: the message names the pipeline."""
        about = f"{pipeline}: {message}" if pipeline and not is_named else message
        time = exact_moment(self.runners[0].clock.now())
        place = {"time": time, "host": gethostname(), "kind": kind, "pipeline": pipeline}
        self.post({"text": f"headwater {kind}: {about}", "message": message, **place})


class _Forward(logging.Handler):
    """Sends warnings of Headwater, but for those of the webhook itself, and of alarms, which are sent as such."""

    def __init__(self, alerts: Alerts) -> None:
        super().__init__(logging.WARNING)
        self._alerts = alerts

    def emit(self, record: logging.LogRecord) -> None:
        if not record.name.endswith(".webhook") and not getattr(record, IS_ALARM, False):
            self._alerts.send("warning", record.getMessage(), self._pipeline_of(record), is_named=True)

    def _pipeline_of(self, record: logging.LogRecord) -> str | None:
        """The pipeline that a record is about: its first argument, if it is about one."""
        first = record.args[0] if isinstance(record.args, tuple) and record.args else None
        return next((each.pipeline for each in self._alerts.runners if each.pipeline == first), None)


def alarms_of(runner: Runner, latest: Publication | None) -> Iterator[Alarm]:
    """Yield alarms of what a pipeline reads, and of what it publishes to; where finding them fails, the error."""
    for find in (_source_alarms, _sink_alarms):
        try:
            yield from find(runner, latest)
        except HeadwaterError as error:
            yield Alarm(str(error))


def _source_alarms(runner: Runner, latest: Publication | None) -> Iterable[Alarm]:
    now = Now(runner.clock.now(), watermark=latest.watermark if latest else None)
    return runner.source.alarms(latest.offsets if latest else None, now)


def _sink_alarms(runner: Runner, latest: Publication | None) -> Iterator[Alarm]:
    if runner.publisher and (held := runner.publisher.sink.published()):
        ledger = runner.current_ledger()  # a run may have published since `latest` was read
        if is_ahead(held, latest) and is_ahead(held, ledger.latest):
            yield Alarm(describe_ahead(held))
        runner.publisher.find_missing(ledger, held)  # its error is the alarm


def log_alarms(runners: Iterable[Runner]) -> None:
    """Warn of the alarms of what pipelines read, each text once; of what they publish to, the run itself has warned."""
    for runner in runners:
        runner.warnings.log(runner.pipeline, (each.text for each in _find_alarms(runner, _source_alarms)))


def _find_alarms(runner: Runner, find: _Find = alarms_of) -> Iterable[Alarm]:
    try:
        with runner.turn:
            return list(find(runner, runner.current_ledger().latest))
    except HeadwaterError as error:  # its tables cannot be read just now
        return [Alarm(str(error))]
