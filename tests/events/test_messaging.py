# SPDX-License-Identifier: Apache-2.0
"""Events reach a real RabbitMQ, where a listener of oslo.messaging's own reads them as it reads Manila's."""

import contextlib
import subprocess
import sys
import time
import warnings

import pytest
from oslo_config import cfg

from abaca.events.contract import Away
from lab import processes, rabbitmq, runs
from tests.conftest import wait_until
from tests.databases import fast_directory, on_postgres, place
from tests.events.house import House
from tests.events.test_webhooks import EVENT

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import oslo_messaging

    from abaca.events import messaging

MORE = """
[oslo_messaging_notifications]
driver = messagingv2
transport_url = {url}
topics = notifications
"""


@pytest.fixture(scope="module")
def broker():
    with runs.Run() as run, rabbitmq.RabbitMQ(run) as made:
        yield made


def durable(broker):
    return broker.url + "?amqp_durable_queues=true"


class Listener:
    """What a consumer of notifications gets."""

    def __init__(self, url):
        self.got = []
        conf = cfg.ConfigOpts()
        conf([], default_config_files=[], default_config_dirs=[])
        self._transport = oslo_messaging.get_notification_transport(conf, url=url)
        target = oslo_messaging.Target(topic="notifications")
        self._server = oslo_messaging.get_notification_listener(self._transport, [target], [self], executor="threading")
        self._server.start()

    def info(self, context, publisher_id, event_type, payload, metadata):
        self.got.append(("info", context, publisher_id, event_type, payload, metadata))

    def error(self, context, publisher_id, event_type, payload, metadata):
        self.got.append(("error", context, publisher_id, event_type, payload, metadata))

    def types(self, share_id):
        """In the order of their first arrival."""
        found = {
            (metadata["message_id"], kind): None
            for _, _, _, kind, payload, metadata in list(self.got)
            if payload.get("share_id") == share_id
        }
        return [kind for _, kind in found]

    def close(self):
        self._server.stop()
        self._server.wait()
        self._transport.cleanup()


@pytest.fixture(params=["sqlite", on_postgres])
def house(request, broker, receiver):
    with contextlib.ExitStack() as stack:
        database = place(request.param, stack.enter_context(fast_directory()), request)
        stack.callback(database.close)
        yield House(database, receiver, stack, MORE.format(url=durable(broker)))


@pytest.fixture
def listener(broker):
    made = Listener(durable(broker))
    yield made
    made.close()


pytestmark = pytest.mark.system
LIFE = ["share.create.start", "share.create.end", "share.delete.start", "share.delete.end"]


def test_a_consumer_of_manila_s_notifications_reads_them(house, listener):
    house.work()
    share_id = house.until_available(house.share())
    house.ask("DELETE", f"/shares/{share_id}")
    wait_until(lambda: listener.types(share_id) == LIFE)
    priority, context, publisher, _, payload, _ = next(
        one for one in listener.got if one[3] == LIFE[1] and one[4]["share_id"] == share_id
    )
    assert (priority, publisher) == ("info", "share.testhost")
    assert context["request_id"].startswith("req-")
    assert (payload["proto"], payload["size"], payload["status"]) == ("NFS", 1, "available")
    assert payload["host"].startswith("testhost@alpha#")


def test_what_failed_comes_with_priority_error(house, listener):
    nowhere = house.share()  # there is no pool before there is a worker
    house.work()
    wait_until(lambda: listener.types(nowhere) == ["share.create.start", "share.create.error"])
    assert [one[0] for one in listener.got if one[4]["share_id"] == nowhere] == ["info", "error"]


def test_a_bus_that_was_away_gets_what_it_missed(house, listener, broker):
    house.work()
    first = house.until_available(house.share())
    wait_until(lambda: listener.types(first) == LIFE[:2])
    broker.stop()
    second = house.until_available(house.share())
    wait_until(lambda: "the message bus does not take it" in house.command("event", "targets"), every_s=0.2)
    assert broker.password not in house.log + house.command("config", "check", "--all")
    broker.start()
    wait_until(lambda: listener.types(second) == LIFE[:2])


def test_a_bus_that_hangs_is_given_up_while_the_target_is_still_ours(broker):
    bus = messaging.Messaging(durable(broker), ["notifications"], "share.testhost")
    bus.send(EVENT)
    with processes.frozen(broker.process.pid, *processes.children(broker.process.pid)):
        begin_s = time.monotonic()
        with pytest.raises(Away):
            bus.send(EVENT)
        assert time.monotonic() - begin_s < bus.timeout_s
    bus.send(EVENT)
    bus.close()


def test_without_the_extra_it_is_refused_in_one_line(house):
    hidden = "import sys; sys.modules['oslo_messaging'] = None; from abaca.cli.main import main; main(sys.argv[1:])"
    argv = [sys.executable, "-c", hidden, "worker", "--config-file", str(house.directory / "abaca.conf")]
    ended = subprocess.run(argv, check=False, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 78
    assert len(ended.stderr.strip().splitlines()) == 1
    assert "pip install abaca[messaging]" in ended.stderr
