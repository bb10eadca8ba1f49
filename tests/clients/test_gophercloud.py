# SPDX-License-Identifier: Apache-2.0
"""gophercloud's own acceptance tests of shared file systems, unmodified, in a cloud with Keystone and Neutron."""

import subprocess

import pytest

from lab import go_programs
from tests.clients.networked_site import PROJECT, Site, need, outcomes, thorough

pytestmark = [pytest.mark.system, thorough]

UNSAID = {"IMAGE_ID": "none", "FLAVOR_ID": "none", "FLAVOR_ID_RESIZE": "other", "POOL_NAME": "none", "EXTGW_ID": "none"}
FOREVER_S = 500
# Of replicas, which are not served yet; and of a message of one request of theirs, which no other cloud has either.
LEFT_OUT = ("TestReplica", "TestMessageDelete")


@pytest.fixture(scope="module")
def site(run):
    need(go_programs.built, go_programs.GOPHERCLOUD_TESTS)
    with Site(run, "gophercloud") as site:
        yield site


def test_gophercloud_passes_its_own_acceptance_tests(site, tmp_path, record_property):
    known = site.keystone.credentials("admin", PROJECT)
    given = {
        "OS_AUTH_URL": known["auth_url"],
        "OS_USERNAME": known["username"],
        "OS_PASSWORD": known["password"],
        "OS_PROJECT_ID": site.keystone.project_id(PROJECT),
        "OS_DOMAIN_NAME": known["user_domain_name"],
        "OS_REGION_NAME": "RegionOne",
        "OS_BRANCH": "master",
        **{f"OS_{name}": value for name, value in UNSAID.items()},
        "HOME": str(tmp_path),
        "PATH": "/usr/bin:/bin",
    }
    argv = [go_programs.built(go_programs.GOPHERCLOUD_TESTS), "-test.v", f"-test.timeout={FOREVER_S}s"]
    done = subprocess.run(argv, env=given, cwd=tmp_path, capture_output=True, text=True, timeout=FOREVER_S, check=False)
    ended = outcomes(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    skipped = [name for name, how in ended.items() if how == "SKIP"]
    assert [name for name in skipped if not name.startswith(LEFT_OUT)] == [], done.stdout
    passed = list(ended.values()).count("PASS")
    assert passed >= 42, done.stdout
    record_property("figure", f"gophercloud: {passed} of its tests passed, {len(skipped)} left out")
