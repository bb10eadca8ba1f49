# SPDX-License-Identifier: Apache-2.0
"""Load balancers and Prometheus get their answers without a token, and also when the database is away."""

import gc

import pytest
from prometheus_client.mmap_dict import MmapedDict

from abaca.app import figures as of_database
from abaca.db.administration import events
from abaca.db.engine import schema
from abaca.db.engine.database import Database
from abaca.db.journal import operations
from abaca.domain.administration.events import About, Subscriptions
from abaca.http import health
from abaca.metrics import Metrics
from tests.api import world
from tests.databases import postgres  # noqa: F401 (a fixture)

OK = {"detailed": False, "reasons": ["OK"]}
AWAY = {"detailed": False, "reasons": ["The database does not answer"]}
NOWHERE = "postgresql://nobody@127.0.0.1:1/none"


def application(environ, start_response):
    """Answers with the status in the path; /boom raises."""
    if environ["PATH_INFO"] == "/boom":
        raise RuntimeError("boom")
    environ[health.ROUTE] = "/things/{id}"
    start_response(f"{environ['PATH_INFO'].strip('/')} Something", [("content-type", "application/json")])
    return [b"{}"]


@pytest.fixture
def db(tmp_path):
    db = Database(f"sqlite:///{tmp_path / 'abaca.sqlite'}")
    schema.create_if_empty(db)
    yield db
    db.close()


def get(app, path):
    return world.call(app, "GET", path, b"", {})


def health_of(db, clock=lambda: 0.0):
    return health.front(application, health.Health(db, clock), None)


def test_health_is_what_load_balancers_of_manila_know(db):
    answer = get(health_of(db), "/healthcheck")
    assert (answer.status, answer.body) == (200, OK)
    assert answer.headers["content-type"] == "application/json"


def test_health_without_the_database_is_a_503():
    away = Database(NOWHERE)
    answer = get(health_of(away), "/healthcheck")
    assert (answer.status, answer.body, answer.headers["retry-after"]) == (503, AWAY, "5")
    away.close()


@pytest.mark.system
def test_health_follows_the_database_and_asks_it_once_a_second(postgres):  # noqa: F811
    now = [0.0]
    db = Database(postgres.new_database())
    app = health_of(db, lambda: now[0])
    assert get(app, "/healthcheck").status == 200
    postgres.stop(mode="immediate")
    now[0] = 0.9
    assert get(app, "/healthcheck").status == 200
    now[0] = 1.1
    assert get(app, "/healthcheck").status == 503
    postgres.start()
    now[0] = 2.2
    assert get(app, "/healthcheck").status == 200
    db.close()


def test_without_metrics_the_page_is_the_applications(db):
    asked = []

    def inner(environ, start_response):
        asked.append(environ["PATH_INFO"])
        environ["PATH_INFO"] = "/404"
        return application(environ, start_response)

    assert get(health.front(inner, health.Health(db), None), "/metrics").status == 404
    assert asked == ["/metrics"]


class Figures:
    """An application with figures, and what a scrape of it says."""

    def __init__(self, db, directory):
        self.metrics = Metrics(directory, "api-0")
        self.metrics.also(of_database.Queues(db))
        self.metrics.also(of_database.Events(db))
        self.app = health.front(application, health.Health(db), self.metrics)

    def get(self, path):
        return get(self.app, path)

    def lines(self):
        said = []
        chunks = self.app({"PATH_INFO": "/metrics"}, lambda status, headers: said.append((status, dict(headers))))
        assert said[0][0] == "200 OK"
        assert said[0][1]["content-type"].startswith("text/plain; version=0.0.4")
        return b"".join(chunks).decode().splitlines()


@pytest.fixture(autouse=True)
def closed_files():
    """The library leaves the files of its figures to the end of the process."""
    yield
    for found in gc.get_objects():
        if isinstance(found, MmapedDict):
            found.close()


@pytest.fixture
def figures(db, tmp_path):
    return Figures(db, tmp_path / "metrics")


def test_requests_are_counted_by_route_and_not_by_address(figures):
    for path in ("/200", "/200", "/404"):
        figures.get(path)
    lines = figures.lines()
    assert 'abaca_api_requests_total{method="GET",route="/things/{id}",status="200"} 2.0' in lines
    assert 'abaca_api_requests_total{method="GET",route="/things/{id}",status="404"} 1.0' in lines
    assert 'abaca_api_request_seconds_count{method="GET",route="/things/{id}"} 3.0' in lines


def test_a_request_that_fails_in_the_server_is_counted_as_such(figures):
    with pytest.raises(RuntimeError):
        figures.get("/boom")
    assert 'abaca_api_requests_total{method="GET",route="other",status="500"} 1.0' in figures.lines()


def test_a_scrape_and_a_health_check_are_no_requests(figures):
    figures.get("/healthcheck")
    figures.lines()
    assert not [line for line in figures.lines() if line.startswith("abaca_api_requests_total")]


def test_a_scrape_shows_what_other_processes_of_the_host_counted(figures, tmp_path):
    worker = Metrics(tmp_path / "metrics", "worker-a")
    worker.operation("share-create", "done", 0.2)
    worker.change("share.create", "done", 3.0)
    worker.driver_call("alpha", "create", 0.1, None)
    worker.driver_call("alpha", "create", 0.1, TimeoutError())
    worker.ensured("alpha", {"unchanged": 498, "skipped": 2}, 0.3)
    figures.get("/200")
    lines = figures.lines()
    assert 'abaca_worker_operations_total{kind="share-create",outcome="done"} 1.0' in lines
    assert 'abaca_change_seconds_sum{change="share.create",outcome="done"} 3.0' in lines
    assert 'abaca_driver_call_seconds_count{backend="alpha",call="create"} 2.0' in lines
    assert 'abaca_driver_errors_total{backend="alpha",call="create",error="TimeoutError"} 1.0' in lines
    assert 'abaca_ensured_shares_total{backend="alpha",found="unchanged"} 498.0' in lines
    assert 'abaca_ensure_page_seconds_count{backend="alpha"} 1.0' in lines
    assert any(line.startswith("abaca_api_requests_total") for line in lines)


def test_counters_go_on_when_a_process_comes_back(figures, db, tmp_path):
    figures.get("/200")
    again = Figures(db, tmp_path / "metrics")
    again.get("/200")
    assert 'abaca_api_requests_total{method="GET",route="/things/{id}",status="200"} 2.0' in again.lines()


def test_the_journal_is_asked_at_the_scrape(figures, db):
    row = {"kind": "share-create", "args": {}, "resource_type": "share"}
    with db.write() as tx:
        for number in range(3):
            operations.add(
                tx, {**row, "queue": "here@alpha", "keys": [f"share:s{number}"], "resource_id": f"s{number}"}
            )
    lines = figures.lines()
    assert 'abaca_operations{kind="share-create",queue="here@alpha",state="queued"} 3.0' in lines
    assert 'abaca_operations_lease_expired{queue="here@alpha"} 0.0' in lines


def test_a_scrape_shows_how_far_a_target_of_events_is_behind(figures, db, tmp_path):
    db.subscriptions = Subscriptions({"webhook_audit": ["*"]})
    with db.write() as tx:
        for number in range(2):
            events.write(tx, "share.create.end", About(resource_type="share", resource_id=f"s{number}"), {})
    worker = Metrics(tmp_path / "metrics", "worker-a")
    worker.events("webhook_audit", 5, 1)
    lines = figures.lines()
    assert 'abaca_events_undelivered{target="webhook_audit"} 2.0' in lines
    assert 'abaca_events_dropped{target="webhook_audit"} 0.0' in lines
    assert any(line.startswith('abaca_events_oldest_undelivered_seconds{target="webhook_audit"}') for line in lines)
    assert 'abaca_events_total{outcome="delivered",target="webhook_audit"} 5.0' in lines
    assert 'abaca_events_total{outcome="failed",target="webhook_audit"} 1.0' in lines


def test_a_scrape_without_the_database_leaves_the_journal_out(tmp_path):
    away = Database(NOWHERE)
    figures = Figures(away, tmp_path / "metrics")
    figures.get("/200")
    lines = figures.lines()
    assert any(line.startswith("abaca_api_requests_total") for line in lines)
    assert not any(line.startswith("abaca_operations") for line in lines)
    away.close()


def test_methods_that_nobody_knows_are_counted_as_one(figures):
    for number in range(20):
        world.call(figures.app, f"ODD{number}", "/405", b"", {})
    lines = figures.lines()
    assert 'abaca_api_requests_total{method="other",route="/things/{id}",status="405"} 20.0' in lines
    assert not any("ODD" in line for line in lines)
