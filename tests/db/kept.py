# SPDX-License-Identifier: Apache-2.0
"""What each revision makes of the rows that it finds: what the tests of upgrading expect afterwards.

To say that revision 0002 does something to rows that were there, write a function that takes the rows by table, as
filled/<revision>.json has them, changes them in place to what they are at 0002 (a column that went is popped, one that
came with a value gets it, the rows of a new table are put under its name) and enter it in BECOMES. A revision without
an entry keeps every row and every column. Columns that rows do not name are not compared.
"""


def _0002(rows):
    """Operations have a home and keys, which those that have not ended hold; what was left is called orphaned."""
    rows["orphaned_mounts"] = rows.pop("left_mounts")
    rows["operation_keys"] = []
    for row in rows["operations"]:
        held = row.pop("running_key")
        of_share = row["resource_type"] == "share"
        key = row.pop("key")
        is_dry = row["kind"] == "backend-ensure-dry-run"
        row["keys"] = [f"share:{key}" if of_share else f"dry-run:{row['resource_id']}" if is_dry else key]
        row |= {"home": row["queue"], "signals": 0, "children": 0}
        if row["state"] in ("queued", "running", "paused"):
            kept = {"operation_id": row["id"], "key": row["keys"][0], "place": row["seq"], "seq": row["seq"]}
            rows["operation_keys"].append(kept | {"held_key": row["keys"][0] if held else None})
        if row["state"] == "queued" and row["not_before"] > 0:
            row["state"] = "waiting"


def _0004(rows):
    """Each rule has the state that it had on each instance of its share; those on their way out are denied."""
    rows["instance_access_rules"] = [
        {
            "access_rule_id": rule["id"],
            "share_instance_id": instance["id"],
            "state": rule["state"],
            "created_at": rule["created_at"],
            "updated_at": rule["updated_at"],
        }
        for rule in rows["access_rules"]
        for instance in rows["share_instances"]
        if instance["share_id"] == rule["share_id"]
    ]
    for rule in rows["access_rules"]:
        rule["is_denied"] = rule["state"] in ("queued_to_deny", "denying")


def _0005(rows):
    """Each rule has its client, which was what it had as its user's words."""
    for rule in rows["access_rules"]:
        rule["client"] = rule["access_to"]


def _0006(rows):
    """Operations that have not ended hold the key of their instance, and that of the share where they are about it."""
    of_both = ("share-delete", "share-extend", "share-shrink")
    operations = {row["id"]: row for row in rows["operations"]}
    kept = []
    for row in rows["operation_keys"]:
        operation = operations[row["operation_id"]]
        args, wanted = operation["args"], [row["key"]]
        if row["key"].startswith("share:"):
            instance_id = args["instance_id"] if "instance_id" in args else args["instance"]["id"]
            wanted = wanted if operation["kind"] in of_both else []
            wanted.append(f"share-instance:{instance_id}")
        operation["keys"] = wanted
        kept += [row | {"key": one, "held_key": one if row["held_key"] else None} for one in wanted]
    rows["operation_keys"] = kept


def _0008(rows):
    """Projects count the characters of their metadata: of what is recorded only shares have any."""
    for row in rows["quota_usages"]:
        of = [share["metadata"] for share in rows["shares"] if share["project_id"] == row["project_id"]]
        pairs = [pair for one in of for pair in one.items()] if row["scope"] == "project" else []
        row["metadata_characters"] = sum(len(key) + len(value) for key, value in pairs)


def _0016(rows):
    """The attachments that there are have been counted."""
    rows["attachment_counts"] = [{"number": len(rows["attachments"])}]


BECOMES = {"0002": _0002, "0004": _0004, "0005": _0005, "0006": _0006, "0008": _0008, "0016": _0016}


def after(rows, revisions):
    """The rows as they are after these revisions, given in order."""
    for revision in revisions:
        if revision in BECOMES:
            BECOMES[revision](rows)
    return rows
