# SPDX-License-Identifier: Apache-2.0
"""What ensuring has found is counted in full and named in part."""

import msgspec

from abaca.domain.administration.ensuring import NAMED, WHY_LENGTH, Findings


def test_everything_that_was_looked_at_is_counted_once():
    findings = Findings()
    findings.count("unchanged", 3)
    findings.count("updated")
    findings.count("repaired")
    findings.skip("s1", "i1", "extending")
    findings.fail("s2", "i2", "gone")
    assert (findings.unchanged, findings.updated, findings.repaired, findings.skipped, findings.failed) == (
        3,
        1,
        1,
        1,
        1,
    )
    assert findings.done == 7


def test_however_many_fail_only_some_are_named_and_in_few_words():
    findings = Findings()
    for number in range(10_000):
        findings.fail(f"s{number}", f"i{number}", "because " * 100)
        findings.skip(f"s{number}", f"i{number}", "because " * 100)
    assert (findings.failed, findings.skipped) == (10_000, 10_000)
    assert [one.share_id for one in findings.some_failed] == [f"s{number}" for number in range(NAMED)]
    assert {len(one.why) for one in findings.some_failed + findings.some_skipped} == {WHY_LENGTH}
    assert len(msgspec.json.encode(findings)) < 40_000


def test_they_survive_being_stored():
    findings = Findings(unchanged=2)
    findings.skip("s", "i", "creating")
    assert msgspec.convert(msgspec.to_builtins(findings), Findings) == findings
