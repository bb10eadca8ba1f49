#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Stands in for LVM on machines whose kernel has no device-mapper: what Heketi asks of it, under all the names it asks by.
# A group is a directory with the number of its extents, a volume a sparse file where its device would be, which `mount`
# puts behind a loop device. Kept are sizes, and what is full, taken or not there; thin pools never hold more than they have.
here=/var/lib/heketi/lvm
extent_k=4096
last=${!#}
fail() { echo "  $*" >&2; exit 5; }
extents() { echo $((($1 + extent_k - 1) / extent_k)); }
used() { # the extents of all pools of the group $1
    local sum=0 pool
    for pool in "$here/$1"/tp_*; do [ ! -e "$pool" ] || sum=$((sum + $(head -n 1 "$pool"))); done
    echo "$sum"
}
mkdir -p "$here"

case ${0##*/} in
wipefs) ;;
pvcreate) [ -f "$last" ] || fail "Device $last not found." ;;
pvremove) ;;
pvs | vgs) echo '{"report":[]}' ;;
vgcreate)
    group=${*: -2:1}
    mkdir "$here/$group" 2>/dev/null || fail "A volume group called $group already exists."
    # 128 MiB of metadata come before the first extent.
    echo $((($(stat -c %s "$last") / 1024 - 131072) / extent_k)) > "$here/$group/extents"
    ;;
vgremove) rm -rf "${here:?}/${last:?}" ;;
vgdisplay)
    [ -d "$here/$last" ] || fail "Volume group \"$last\" not found"
    total=$(cat "$here/$last/extents") taken=$(used "$last")
    echo "  $last:r/w:772:-1:0:0:0:-1:0:1:1:$((total * extent_k)):$extent_k:$total:$taken:$((total - taken)):stand-in"
    ;;
lvcreate)
    while [ $# -gt 0 ]; do
        case $1 in
        --size) size_k=${2%K} ;;
        --poolmetadatasize) metadata_k=${2%K} ;;
        --thin) group=${2%%/*} pool=${2##*/} ;;
        --virtualsize) virtual_k=${2%K} ;;
        --name) name=$2 ;;
        esac
        shift
    done
    # The metadata is kept twice.
    wanted=$(($(extents "$size_k") + 2 * $(extents "$metadata_k")))
    left=$(($(cat "$here/$group/extents") - $(used "$group")))
    [ "$wanted" -le "$left" ] || fail "Volume group \"$group\" has insufficient free space ($left extents): $wanted required."
    [ ! -e "$here/$group/$pool" ] || fail "Logical Volume \"$pool\" already exists in volume group \"$group\""
    printf '%s\n%s\n' "$wanted" "$name" > "$here/$group/$pool"
    truncate -s "${virtual_k}K" "/dev/mapper/$group-$name"
    ;;
lvs)
    pool=$here/$last
    [ -e "$pool" ] || fail "Failed to find logical volume \"$last\""
    echo "  $(sed 1d "$pool" | grep -c .)"
    ;;
lvremove)
    group=${last%%/*} name=${last##*/}
    case $name in
    tp_*) rm "$here/$group/$name" 2>/dev/null || fail "Failed to find logical volume \"$last\"" ;;
    *)
        [ -e "/dev/mapper/$group-$name" ] || fail "Failed to find logical volume \"$last\""
        ! losetup --associated "/dev/mapper/$group-$name" | grep -q . ||
            fail "Logical volume $last contains a filesystem in use."
        rm "/dev/mapper/$group-$name"
        sed -i "1!{/^$name\$/d}" "$here/$group"/tp_*
        ;;
    esac
    ;;
*) fail "${0##*/} is not stood in for" ;;
esac
