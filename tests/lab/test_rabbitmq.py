# SPDX-License-Identifier: Apache-2.0
"""The private RabbitMQ takes connections, is not root, and is gone afterwards."""

from pathlib import Path

import pytest
from kombu import Connection

from lab import rabbitmq, runs

pytestmark = pytest.mark.system


def put(broker: rabbitmq.RabbitMQ, word: str) -> None:
    with Connection(broker.url.replace("rabbit://", "amqp://")) as connection:
        queue = connection.SimpleQueue("kept")
        queue.put(word)
        queue.close()


def get(broker: rabbitmq.RabbitMQ) -> str:
    with Connection(broker.url.replace("rabbit://", "amqp://")) as connection:
        queue = connection.SimpleQueue("kept")
        word: str = queue.get(timeout=60).payload
        queue.close()
        return word


def test_it_is_private_keeps_durable_queues_and_leaves_nothing() -> None:
    with runs.Run() as run:
        broker = rabbitmq.RabbitMQ(run).start()
        assert Path(f"/proc/{broker.process.pid}").stat().st_uid != 0
        put(broker, "word")
        broker.stop()
        broker.start()
        assert get(broker) == "word"
        broker.stop()
    assert run.leftovers() == []
