# SPDX-License-Identifier: Apache-2.0
"""Every state machine: what is busy ends, what is named is reachable, and the names are those that clients know."""

import importlib
import pkgutil

import pytest

from abaca import domain, errors
from abaca.domain.state_machine import StateMachine

TASK = """migration_starting migration_in_progress migration_completing migration_success migration_error
    migration_cancelled migration_driver_in_progress migration_driver_phase1_done data_copying_starting
    data_copying_in_progress data_copying_completing data_copying_completed data_copying_cancelled
    data_copying_error"""
# What clients may meet, from the API's documented statuses; ours are a part of them.
DOCUMENTED = {
    "share": """creating creating_from_snapshot available inactive error deleting error_deleting deferred_deleting
        error_deferred_deleting deleted manage_starting manage_error unmanage_starting manage_error_unmanage_starting
        unmanage_error unmanaged extending extending_error shrinking shrinking_error shrinking_possible_data_loss_error
        migrating migrating_to replication_change restoring reverting reverting_error awaiting_transfer backup_creating
        backup_restoring backup_restoring_error ensuring server_migrating server_migrating_to""",
    "access rule": """queued_to_apply applying active error queued_to_deny denying queued_to_update updating""",
    "snapshot": """available error creating deleting error_deleting manage_starting manage_error unmanage_starting
        unmanage_error migrating migrating_to restoring""",
    "share server": """active inactive creating deleting error manage_starting manage_error unmanage_starting
        unmanage_error server_migrating server_migrating_to network_change""",
    "share network": "active error network_change",
    "share group": "creating available error deleting error_deleting",
    "share group snapshot": "creating available error deleting error_deleting",
    "access rules status": "active syncing error",
    "share replica": "active in_sync out_of_sync error",
    "share task": TASK,
    "share server task": TASK,
    "share backup": "creating available restoring deleting error",
}
# Our own resources: nobody documented their states before us.
OWN = {"attachment", "cluster"}


def machines():
    found = {}
    for module in pkgutil.walk_packages(domain.__path__, "abaca.domain."):
        for value in vars(importlib.import_module(module.name)).values():
            if isinstance(value, StateMachine):
                found[value.name] = value
    return sorted(found.values(), key=lambda machine: machine.name)


MACHINES = machines()
each_machine = pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.name)


def reachable(machine, starts):
    """Every state that events lead to from `starts`."""
    found, new = set(starts), set(starts)
    while new:
        new = {to for at, _, to in machine.rows if at in new} - found
        found |= new
    return found


def test_there_are_machines():
    assert {"share", "access rule"} <= {machine.name for machine in MACHINES}


@each_machine
def test_a_busy_state_has_a_success_and_a_failed_exit(machine):
    for state in machine.busy:
        exits = {event for at, event, to in machine.rows if at == state and to not in machine.busy}
        carried = reachable(machine, {to for at, event, to in machine.rows if at == state and event == "take"})
        exits |= {event for at, event, to in machine.rows if at in carried and to not in machine.busy}
        assert "failed" in exits, f"{state} cannot fail: its operation could never end"
        assert exits - {"failed"}, f"{state} can only fail"


@each_machine
def test_a_failure_always_leads_out_of_busy(machine):
    for at, event, to in machine.rows:
        if event == "failed":
            assert at in machine.busy
            assert to not in machine.busy


@each_machine
def test_every_busy_state_is_a_state(machine):
    assert machine.busy <= machine.states


@each_machine
def test_every_state_is_reachable_from_nothing_or_set_from_outside(machine):
    """A state that only an older release, an import or an operator's hand sets is one that may only be left."""
    entered = {to for _, _, to in machine.rows}
    legacy = {at for at, _, _ in machine.rows} - entered - {"none"}
    assert reachable(machine, {"none"}) | legacy >= machine.states
    assert not legacy & machine.busy, "nobody would ever start what these say is under way"


@each_machine
def test_every_state_can_be_left(machine):
    left = {at for at, _, _ in machine.rows}
    assert machine.states <= left


@each_machine
def test_the_states_are_those_that_clients_know(machine):
    assert machine.name in DOCUMENTED or machine.name in OWN
    if machine.name in DOCUMENTED:
        assert machine.values <= set(DOCUMENTED[machine.name].split())


@each_machine
def test_an_event_that_is_not_allowed_is_a_conflict(machine):
    for state in sorted(machine.states):
        for event in sorted(machine.events):
            if machine.allows(state, event):
                assert machine.after(state, event) == machine.sources(event)[state]
            else:
                with pytest.raises(errors.Conflict, match=f"while it is {state}"):
                    machine.after(state, event)


def test_an_unknown_event_is_a_bug():
    with pytest.raises(ValueError, match="knows no event paint"):
        MACHINES[0].sources("paint")


def test_two_rows_for_one_event_at_one_state_are_a_bug():
    with pytest.raises(ValueError, match="two rows for go at a"):
        StateMachine("thing", ("a", "go", "b"), (("a", "b"), "go", "c"))
