# SPDX-License-Identifier: Apache-2.0
"""docs/operating/installing.md, word for word, on machines that systemd has booted."""

import contextlib
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from lab import booted, caller, keystone, processes
from tests.conftest import ROOT, wait_until
from tests.system import tls_database
from tests.system.relay import Relay

PAGE = (ROOT / "docs/operating/installing.md").read_text()
PACKAGES = (
    *("python3-minimal", "python3.11-minimal", "libpython3.11-minimal", "libpython3.11-stdlib", "python3.11"),
    *(
        "python3.11-venv",
        "python3-pip-whl",
        "python3-setuptools-whl",
        "libpam-modules",
        "libc6",
        "libgcc-s1",
        "libstdc++6",
    ),
)
# No network leads out of the machine: what an index has lies beside it.
PIP = "[global]\nno-index = true\nfind-links = /root/wheels\ndisable-pip-version-check = true\nno-compile = true\n"
# Asks again and again, each time on a new connection, until it is told to stop, and ends with a complaint when refused.
ASK = """
import http.client, pathlib
stop, count = pathlib.Path("/tmp/stop"), 0
while not stop.exists():
    connection = http.client.HTTPConnection("127.0.0.1", 8786, timeout=300)
    connection.request("GET", "/healthcheck")
    assert connection.getresponse().status == 200
    connection.close()
    count += 1
    pathlib.Path("/tmp/count").write_text(str(count))
"""


def commands(heading):
    """The lines of the page's shell blocks below a heading, one list a block."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    blocks = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)
    return [block.splitlines() for block in blocks]


def follow(machine, lines, timeout_s=900):
    """Each of the page's commands ends well."""
    for line in lines:
        done = machine.script(f"cd /root; {line}", timeout_s)
        assert done.code == 0, (line, done)


def block(heading, word):
    """The one shell block below a heading that has this word."""
    (found,) = [lines for lines in commands(heading) if any(word in line for line in lines)]
    return found


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    """The wheel of this tree, and those that it needs."""
    directory = tmp_path_factory.mktemp("wheels")
    pip = [sys.executable, "-m", "pip", "--quiet"]
    lock = ROOT / "requirements/run.txt"
    needed = [
        "download",
        "--no-deps",
        "--only-binary=:all:",
        "--require-hashes",
        "-r",
        lock,
        "-d",
        directory / "needed",
    ]
    ours = ["wheel", "--no-deps", "--no-build-isolation", "-w", directory, ROOT]
    for arguments in (needed, ours):
        subprocess.run([*pip, *arguments], check=True, timeout=600)
    return directory


def copy(disk, place):
    """The same disk once more, without the wheels; programs, which nobody changes where they lie, by links."""
    place.mkdir()
    for part in disk.iterdir():
        how = "-al" if part.name in ("usr", "opt") else "-a"
        processes.command(["cp", how, str(part), str(place)], 300)
    shutil.rmtree(place / "root/wheels", ignore_errors=True)


@pytest.fixture(scope="module")
def installed(wheels, network):
    """A machine on which the first three commands were followed, and its disk as it was then."""
    with booted.BootedGuest(network, "abaca", 768) as made:
        booted.install(made.disk, PACKAGES, ("runuser", "env"))
        shutil.copytree("/etc/pam.d", made.disk / "etc/pam.d", dirs_exist_ok=True)
        (made.disk / "usr/bin/python3").unlink(missing_ok=True)
        (made.disk / "usr/bin/python3").symlink_to("python3.11")
        shutil.copytree(wheels / "needed", made.disk / "root/wheels")
        for wheel in wheels.glob("abaca-*.whl"):
            shutil.copy(wheel, made.disk / "root")
        (made.disk / "etc/pip.conf").write_text(PIP)
        # Its disk is a directory of the host: what users other than root make there would be root's.
        made.check(["mount", "-t", "tmpfs", "tmpfs", "/var/lib"])
        follow(made, commands("One host")[0][:3])
        made.check(["sync"])
        image = made.run_directory / "installed"
        copy(made.disk, image)
        yield made, image


@pytest.fixture(scope="module")
def machine(installed):
    return installed[0]


def test_the_five_commands_make_a_running_enabled_service(machine):
    lines = commands("One host")[0]
    assert len(lines) == 5
    follow(machine, lines[3:])
    healthy = "/opt/abaca/bin/python -c \"import urllib.request as r; r.urlopen('http://127.0.0.1:8786/healthcheck')\""
    told = "systemctl status --no-pager -n 20 abaca-api abaca-worker"
    if machine.script(f"for try in $(seq 300); do {healthy} && exit; sleep 1; done; exit 1", 900).code:
        pytest.fail(machine.script(told).stdout)
    assert machine.script("systemctl is-enabled abaca-api abaca-worker abaca.target").stdout.split() == ["enabled"] * 3
    who = machine.script(
        "systemctl show -p MainPID --value abaca-api abaca-worker | xargs -n1 -I{} stat -c %U /proc/{}"
    )
    assert who.stdout.split() == ["abaca", "abaca"]


def test_no_client_is_refused_while_the_api_starts_again_on_the_socket_of_systemd(machine):
    follow(machine, block("One host", "abaca-api.socket"))
    assert machine.script("systemctl is-active abaca-api.socket abaca-api").stdout.split() == ["active"] * 2
    (machine.disk / "root/ask.py").write_text(ASK)
    machine.script("(python3 /root/ask.py 2> /tmp/complaint; echo > /tmp/ended) > /dev/null 2>&1 &")

    def count():
        return int(machine.script("cat /tmp/count").stdout or 0)

    wait_until(lambda: count() > 3, every_s=0.5)
    machine.check(["systemctl", "restart", "abaca-api"])
    before = count()
    wait_until(lambda: count() > before + 3, every_s=0.5)
    machine.script(": > /tmp/stop")
    wait_until(lambda: machine.run(["test", "-e", "/tmp/ended"]).code == 0, every_s=0.5)
    assert machine.check(["cat", "/tmp/complaint"]) == ""


def test_an_upgrade_keeps_what_is_there(machine):
    follow(machine, commands("Upgrade")[0])
    wait_until(lambda: machine.script("systemctl is-active abaca-api abaca-worker").code == 0, every_s=1)


def test_a_removal_leaves_the_data_alone(machine):
    follow(machine, commands("Removal")[0])
    assert machine.script("ls /opt/abaca /usr/lib/systemd/system/abaca.target").stdout == ""
    assert machine.check(["ls", "/var/lib/abaca/abaca.sqlite"])


# Three hosts

KEYSTONE = "keystone.example.org"


@pytest.fixture(scope="module")
def identity(run):
    """A Keystone that names itself as machines of the network reach it."""
    made = keystone.Keystone(run)
    made.auth_url = f"http://{KEYSTONE}:{made.port}/v3"
    with made:
        yield made


@pytest.fixture(scope="module")
def hosts(installed, network, run, identity):
    """Three machines on which the first three commands were followed, with the page's configuration; by name."""
    with contextlib.ExitStack() as stack:
        database, authority = stack.enter_context(tls_database.served(run))
        tls_database.make_files(database)
        for listens, inner in ((5432, database.port), (identity.port, identity.port)):
            stack.enter_context(Relay((network.host_ipv4, listens), inner))
        section = re.search(r"```ini\n(.*?)```", tls_database.PAGE, re.DOTALL)[1]
        configuration = tls_database.with_names_of_here(section).replace("PASSWORD", keystone.USERS["abaca"].password)
        configuration = configuration.replace(f"https://{KEYSTONE}/v3", identity.auth_url)
        guests = {name: booted.BootedGuest(network, name, 512) for name in ("api-1", "api-2", "storage")}
        for name, guest in guests.items():
            copy(installed[1], guest.disk)
            there = guest.disk / "etc/abaca"
            # This kernel has no btrfs.
            own = configuration.replace("driver = local\nexport_ips = 192.0.2.10\n", "driver = dummy\n")
            (there / "abaca.conf").write_text(own if name == "storage" else configuration)
            shutil.copy(authority, there / "database-ca.pem")
            # Whatever boots writes its own; what a name server says is added to it.
            names = f"{network.host_ipv4} {tls_database.HOST} {KEYSTONE}"
            (guest.disk / "etc/tmpfiles.d").mkdir(exist_ok=True)
            (guest.disk / "etc/tmpfiles.d/names.conf").write_text(f"w+ /etc/hosts - - - - {names}\\n\n")
            (guest.shared / "fstab").write_text("tmpfs /var/lib tmpfs defaults 0 0\n")
            stack.callback(guest.stop)
        with ThreadPoolExecutor(len(guests)) as pool:
            list(pool.map(lambda guest: guest.start(), guests.values()))
        yield guests


def user(guest, identity, name="demo"):
    """One who asks the API of this host."""
    return caller.Caller(f"http://{guest.ipv4}:8786", caller.token(identity.token(name)))


def answers(guest, identity):
    with contextlib.suppress(processes.LabError):
        return user(guest, identity).get("/types") is not None
    return False


def wait_for_units(guest, *names):
    """They are enabled and run; their log is told when they do not."""
    assert guest.run(["systemctl", "is-enabled", *names]).stdout.split() == ["enabled"] * len(names)
    running = f"systemctl is-active {' '.join(names)}"
    if guest.script(f"for try in $(seq 300); do {running} && exit; sleep 1; done; exit 1", 900).code:
        pytest.fail(guest.script(f"systemctl status --no-pager -n 20 {' '.join(names)}").stdout)


def test_three_hosts_serve_from_one_database(hosts, identity):
    apis = [hosts["api-1"], hosts["api-2"]]
    for guest in hosts.values():
        follow(guest, block("Three hosts with PostgreSQL", "chown"))
    follow(hosts["storage"], block("Three hosts with PostgreSQL", "db upgrade"))
    for guest in apis:
        follow(guest, block("Three hosts with PostgreSQL", "abaca-api"))
    follow(hosts["storage"], block("One host", "local.conf"))
    follow(hosts["storage"], block("Three hosts with PostgreSQL", "abaca-worker"))
    for name, unit in (("api-1", "abaca-api"), ("api-2", "abaca-api"), ("storage", "abaca-worker")):
        wait_for_units(hosts[name], unit)
    for guest in apis:
        wait_until(lambda guest=guest: answers(guest, identity), every_s=0.5)
    administrator = user(apis[0], identity, "admin")
    caller.ensure_type(administrator, "default")
    caller.wait_for_pools(administrator)
    made = user(apis[0], identity).post("/shares", "share", share_proto="NFS", size=1, share_type="default")
    user(apis[1], identity).wait(f"/shares/{made['id']}", "available")


def test_one_api_goes_on_when_the_other_loses_its_power_which_comes_back_by_itself(hosts, identity):
    first, second = hosts["api-1"], hosts["api-2"]
    first.kill()
    made = user(second, identity).post("/shares", "share", share_proto="NFS", size=1, share_type="default")
    user(second, identity).wait(f"/shares/{made['id']}", "available")
    first.start()
    wait_until(lambda: answers(first, identity), every_s=0.5)
    assert user(first, identity).get(f"/shares/{made['id']}")["status"] == "available"
