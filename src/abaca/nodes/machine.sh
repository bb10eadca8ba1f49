# SPDX-License-Identifier: Apache-2.0
# What Abaca does on a machine, in the plain shell that every machine has (busybox ash, dash, bash). The text is always
# the same and arrives on standard input; values arrive as words "key=value", and are never read as code.
# It decides nothing: it does an action and says what is there (conversation.sh is how). Whoever mounts believes the mount
# table that is said at the end, not exit codes. A mounted directory is never touched, not even to look at it: behind it
# may be a server that hangs.

one_line() { tr '\n\t' '  ' | head -c "${1:-600}"; }
limited() { timeout -s KILL "$@"; }
# Locks what is open as $2 within $1 seconds; most often it is free, and flock alone will do.
locked() { flock -n "$2" || limited "$1" flock "$2"; }

# The topmost mount at $place (the mount point as mountinfo writes it) and those below it.
read_table() {
    mounted='' below='' is_read=yes
    while read -r _ _ _ _ point rest; do
        case $point in
            "$place") mounted=$rest ;;
            "$place"/*) below="$below $point" ;;
        esac
    done < /proc/self/mountinfo
}

say_table() {
    [ -n "$is_read" ] || read_table
    [ -z "$mounted" ] || say mounted "$mounted"
}

has_programs() {
    for one in $program; do command -v "$one" > /dev/null || return 1; done
}

# The system: what decides which way of staying mounted, and without the program which packages and which way of mounting.
say_system() {
    read -r boot_id < /proc/sys/kernel/random/boot_id && say boot_id "$boot_id"
    [ ! -d /run/systemd/system ] || say systemd yes
    if has_programs; then
        say program yes
        return
    fi
    for file in /etc/os-release /usr/lib/os-release; do
        [ -r "$file" ] || continue
        while IFS= read -r line || [ -n "$line" ]; do
            case $line in ID=* | ID_LIKE=* | PRETTY_NAME=*) say os "$line" ;; esac
        done < "$file"
        break
    done
    # A name without a path: the shell is busybox, and mounts by itself.
    found=$(command -v mount)
    case $found in
        mount) say plain yes ;;
        /*) case $(readlink -f "$found") in *busybox*) say plain yes ;; esac ;;
    esac
}

# The mount point when nothing is mounted there: absent (with the first directory that would have to be made), empty...
say_directory() {
    here=$mount_point
    missing=''
    while [ ! -e "$here" ] && [ ! -L "$here" ]; do
        missing=$here
        here=${here%/*}
        [ -n "$here" ] || here=/
    done
    real=$here part=$here
    while [ -n "$part" ]; do
        if [ -L "$part" ]; then
            real=$(readlink -f "$here")
            break
        fi
        part=${part%/*}
    done
    say real "$real"
    say exists "$here"
    if [ -n "$missing" ]; then
        say missing "$missing"
    elif [ ! -d "$here" ]; then
        say directory file
    elif [ -n "$(ls -A "$here" 2> /dev/null | head -n 1)" ]; then
        say directory filled
    else
        say directory empty
    fi
}

# What makes a mount at the mount point come back after a reboot, ours or not.
say_kept() {
    if [ -e "/etc/systemd/system/$unit" ]; then
        while IFS= read -r line || [ -n "$line" ]; do say unit "$line"; done < "/etc/systemd/system/$unit"
        [ ! -L "/etc/systemd/system/remote-fs.target.wants/$unit" ] || say enabled yes
    fi
    [ -r /etc/fstab ] || return 0
    before=''
    while IFS= read -r line || [ -n "$line" ]; do
        set -f
        # shellcheck disable=SC2086
        set -- $line
        set +f
        case ${1:-} in
            '' | '#'*) ;;
            *)
                if [ "${2:-}" = "$place" ]; then
                    case $before in '# abaca '*) say fstab_mark "$before" ;; esac
                    say fstab "$line"
                fi
                ;;
        esac
        before=$line
    done < /etc/fstab
}

look() {
    say_certificate
    say_system
    say_table
    [ -n "$mounted" ] || say_directory
    say_kept
}

# Runs the rest while nobody else of us edits /etc/fstab or the units.
alone() {
    {
        ! command -v flock > /dev/null || locked 30 9 && "$@"
    } 9> /run/abaca-mounts.lock
}

# Waits for what an earlier worker began for the same attachment and may have given up: a mount that ends late would
# come after our unmount. What runs under it holds the lock too.
wait_for_turn() {
    turn=/run/abaca-turn-$name
    if command -v flock > /dev/null && { :; } 2> /dev/null > "$turn"; then
        exec 8> "$turn"
        if ! locked "$mount_s" 8; then
            say hung yes
            say problem 'what was begun here earlier has not ended yet'
            return 1
        fi
    fi
    # Where nobody listens any more this ends us: a successor may have undone by now what we were to do.
    echo abaca-turn || exit 1
}

# Standard input as $all, and as $left without our two lines: the mark with our name, or our former's, and the line
# after it if it is for our mount point. A last line without its end stays so, byte by byte.
read_fstab() {
    all='' left='' skip=''
    while { end=$newline && IFS= read -r line; } || { end='' && [ -n "$line" ]; }; do
        all=$all$line$end
        case $line in "# abaca $name" | "# abaca $name "* | "# abaca ${former:-$name} "*) skip=yes; continue ;; esac
        if [ -n "$skip" ]; then
            skip=''
            set -f
            # shellcheck disable=SC2086
            set -- $line
            set +f
            [ "${2:-}" != "$place" ] || continue
        fi
        left=$left$line$end
    done
}

write_fstab() {
    file=/etc/fstab
    [ ! -L "$file" ] || file=$(readlink -f /etc/fstab) && [ -n "$file" ] || file=/etc/fstab
    [ -e "$file" ] || : > "$file"
    read_fstab < "$file"
    if [ -n "$text" ]; then
        case $left in '' | *"$newline") ;; *) left=$left$newline ;; esac
        left=$left$text
    fi
    [ "$left" != "$all" ] || return 0
    new=$file.abaca # nobody else writes it meanwhile, and what a crash left of it is written over
    cp -p "$file" "$new" && printf '%s' "$left" > "$new" || { rm -f "$new"; return 1; }
    sync "$new" 2> /dev/null
    mv -f "$new" "$file" || return 1
    # Of a line that it has read systemd makes a unit, which lives on without the line.
    [ ! -d /run/systemd/system ] || reload
    return 0
}

write_unit() {
    file=/etc/systemd/system/$unit
    printf '%s' "$text" > "$file.abaca" && mv -f "$file.abaca" "$file" || return 1
    limited 30 systemctl --no-reload enable "$unit"
    reload
    [ -L "/etc/systemd/system/remote-fs.target.wants/$unit" ]
}

remove_unit() {
    [ -e "/etc/systemd/system/$unit" ] || return 0
    limited 30 systemctl --no-reload disable "$unit" > /dev/null 2>&1
    rm -f "/etc/systemd/system/remote-fs.target.wants/$unit" "/etc/systemd/system/$unit"
    rm -f "/etc/systemd/system/$unit.abaca"
    reload
    limited 10 systemctl reset-failed "$unit" > /dev/null 2>&1
    return 0
}

reload() { limited 30 systemctl daemon-reload > /dev/null 2>&1; }

keep() {
    case $keeper in
        unit) alone write_unit ;;
        *) alone write_fstab ;;
    esac
}

forget() {
    text=''
    [ -z "$own_unit" ] || alone remove_unit
    [ -z "$own_fstab" ] || alone write_fstab
}

# Whether no part of a path is a link. It is asked again at the last moment: where users may write, what was looked at
# can be another thing by now, and what is mounted would lie wherever the link leads.
is_straight() {
    part=$1
    while [ -n "$part" ]; do
        [ ! -L "$part" ] || return 1
        part=${part%/*}
    done
}

# The mounts that there are, to be compared with.
note_mounts() {
    ids=' '
    while read -r id _; do ids="$ids$id "; done < /proc/self/mountinfo
}

# Takes away what has just been mounted somewhere else than it was told; whether there was anything.
undo_astray() {
    found=''
    while read -r id _ _ _ point rest; do
        case $ids in *" $id "*) continue ;; esac
        what=${rest#* - }
        what=${what#* }
        [ "$(printf '%b' "${what%% *}")" != "$source" ] || found=$(limited 15 umount -f -l "$(printf '%b' "$point")")yes
    done < /proc/self/mountinfo
    [ -n "$found" ]
}

# From the mount point up to the first directory that was made for it, as long as they are empty. It comes before
# forgetting, since only what is remembered can be finished after a crash; that may have taken some of them already.
remove_directory() {
    [ -n "$made" ] || return 0
    case $mount_point in "$made" | "$made"/*) ;; *) return 0 ;; esac
    is_straight "$mount_point" || return 0
    here=$mount_point
    while { rmdir "$here" 2> /dev/null || [ ! -e "$here" ]; } && [ "$here" != "$made" ]; do here=${here%/*}; done
    return 0
}

# Every process whose directory, root, program, open file or mapping lies at or below the mount point.
say_holders() {
    holders=$({
        printf '%s\0' /proc/[0-9]*/cwd /proc/[0-9]*/root /proc/[0-9]*/exe /proc/[0-9]*/fd/* |
            xargs -0 ls -ld 2> /dev/null | grep -F -e " -> $mount_point" |
            while IFS= read -r line; do
                target=${line##* -> }
                case $target in
                    "$mount_point" | "$mount_point"/* | "$mount_point (deleted)") ;;
                    *) continue ;;
                esac
                line=${line%% -> *}
                line=${line##*/proc/}
                echo "${line%%/*}"
            done
        grep -lF -e " $mount_point/" /proc/[0-9]*/maps 2> /dev/null |
            while IFS= read -r line; do
                line=${line#/proc/}
                echo "${line%%/*}"
            done
    } | sort -nu | head -n 20 | while read -r pid; do
        what=$(tr '\0' ' ' < "/proc/$pid/cmdline" 2> /dev/null | one_line 200)
        [ -n "$what" ] || read -r what < "/proc/$pid/comm" || what='a process that has just ended'
        printf 'holder %s %s\n' "$pid" "$what"
    done)
    [ -z "$holders" ] || answer=$answer$holders$newline
    for point in $below; do say below "$point"; done
}

# Unmounts the topmost mount. What the caller may believe is the table afterwards.
release() {
    if [ -n "$force" ]; then
        said=$(limited 15 umount -f -l "$mount_point" 2>&1)
    else
        said=$(limited 15 umount "$mount_point" 2>&1)
    fi
    code=$?
    read_table
    [ -n "$mounted" ] || return 0
    [ $code -ne 137 ] || say hung yes
    say problem "$(printf '%s' "$said" | one_line)"
    say_holders
    return 1
}

# Where a mount by certificate tells what was in its way; GlusterFS names it so.
log_of() { printf '%s\n' "$mount_point" | sed 's|/|-|g; s|^-|/var/log/glusterfs/|; s|$|.log|'; }

# Locks stay open in what runs for the mount as long as it is there, unless that is a process which serves it.
mount_now() {
    if [ -z "$identity" ]; then
        said=$(limited "$mount_s" mount -t "$fstype" -o "$options" "$source" "$mount_point" 2>&1)
        code=$?
        return
    fi
    log=$(log_of) logged=$(wc -c 2> /dev/null < "$(log_of)")
    said=$(limited "$mount_s" mount -t "$fstype" -o "$options" "$source" "$mount_point" 2>&1 8>&- 9>&-)
    code=$?
    tls=$(tail -c "+$((${logged:-0} + 1))" "$log" 2> /dev/null | sed -n 's/.*SSL routines:[^:]*:/TLS: /p' | tail -n 1)
    [ -n "$tls" ] || [ ! -e "$log" ] || tls="its log there is $log"
    said="${said:+${said%.}${tls:+; }}$tls"
    # Killed before it had seen that anybody serves it: what is in the table is not to be believed.
    [ $code -ne 137 ] || limited 15 umount -f -l "$mount_point" 2> /dev/null
}

mount_it() {
    if [ -n "$identity" ] && ! said=$(alone put_certificate 2>&1); then
        say problem "$(printf '%s' "$said" | one_line)"
        return 1
    fi
    # What brings it back comes first: a mount that nobody would find again after a reboot is none.
    if ! said=$(keep 2>&1); then
        say not_kept yes
        say problem "$(printf '%s' "$said" | one_line)"
        [ -z "$fresh" ] || take_back
        return 1
    fi
    if [ -n "$replace" ]; then release || return 1; fi
    read_table
    astray="$mount_point leads through a link by now"
    if [ -z "$mounted" ] && ! is_straight "$mount_point"; then
        say problem "$astray"
    elif [ -z "$mounted" ]; then
        [ -d "$mount_point" ] || said=$(mkdir -p "$mount_point" 2>&1) || say problem "$(printf '%s' "$said" | one_line)"
    fi
    if [ -z "$mounted" ] && [ -d "$mount_point" ] && is_straight "$mount_point"; then
        note_mounts
        mount_now
        read_table
        [ $code -ne 137 ] || [ -n "$mounted" ] || say hung yes
        if [ -z "$mounted" ] && [ $code -eq 0 ]; then
            said="mount -t $fstype ended without an error and mounted nothing${said:+: $said}"
            ! undo_astray || said=$astray
        fi
        [ -n "$mounted" ] || say problem "$(printf '%s' "$said" | one_line)"
    fi
    [ -n "$mounted" ] || [ -z "$fresh" ] || take_back
}

take_back() {
    case $keeper in unit) own_unit=yes ;; *) own_fstab=yes ;; esac
    remove_directory
    forget 2> /dev/null
    [ -z "$identity" ] || alone drop_certificate
}

# By what storages know the machine: one key, one certificate and one authority for all mounts, in a directory of ours.
# `users` there has a file for each mount that needs them; with the last of these all goes. GlusterFS looks for them
# below /etc/ssl, or where OpenSSL was built to look: both have links to ours, and what else is there is not touched.
certificates=/etc/ssl/abaca

say_places() {
    echo /etc/ssl
    other=$(openssl version -d | sed -n 's/^OPENSSLDIR: "\(.*\)"$/\1/p')
    [ ! -d "$other" ] || [ "$other" -ef /etc/ssl ] || echo "$other"
}

# Whether nobody else's certificate is where ours shall be; says whose is.
is_free() {
    for place_of in $(say_places); do
        for end in key pem ca; do
            file=$place_of/glusterfs.$end
            if [ -e "$file" ] && ! [ "$file" -ef "$certificates/$end" ]; then
                echo "$file is there already, and not Abaca's: move it away"
                return 1
            fi
        done
    done
}

# Whether others than this mount need what is there.
has_other_users() {
    for user in "$certificates"/users/*; do
        [ ! -e "$user" ] || [ "$user" = "$certificates/users/$name" ] || [ "$user" = "$certificates/users/$former" ] ||
            return 0
    done
    return 1
}

# Whether this mount needs it, and what it is.
say_certificate() {
    [ -e "$certificates/users/$name" ] || return 0
    say certified yes
    [ -r "$certificates/pem" ] || return 0
    while IFS= read -r line || [ -n "$line" ]; do say certificate "$line"; done < "$certificates/pem"
}

# A mount that needs the key is noted first, then as what the machine is known, then the key is made: a crash in between
# leaves nothing that nobody would take away.
make_request() {
    is_free || return 1
    mkdir -p "$certificates/users" && chmod 700 "$certificates" || return 1
    known=$(cat "$certificates/name" 2> /dev/null)
    if [ -n "$known" ] && [ "$known" != "$identity" ] && has_other_users; then
        echo "this machine is known as $known already, so it has two entries: attach by that one"
        return 1
    fi
    : > "$certificates/users/$name" && printf '%s\n' "$identity" > "$certificates/name" || return 1
    if [ ! -s "$certificates/key" ]; then
        (umask 077 && openssl genrsa -out "$certificates/key.new" 2048 2>&1) || return 1
        sync "$certificates/key.new" 2> /dev/null
        mv -f "$certificates/key.new" "$certificates/key" || return 1
    fi
    openssl req -new -key "$certificates/key" -subj "/CN=$identity"
}

request_certificate() {
    had=''
    [ ! -e "$certificates/users/$name" ] || had=yes
    if ! said=$(alone make_request 2>&1); then
        say problem "$(printf '%s' "$said" | one_line)"
        [ -n "$had" ] || alone drop_certificate
        return 1
    fi
    inside=''
    while IFS= read -r line; do
        case $line in '-----BEGIN '*) inside=yes ;; esac
        [ -z "$inside" ] || say request "$line"
        case $line in '-----END '*) inside='' ;; esac
    done << END
$said
END
}

put_certificate() {
    is_free || return 1
    [ -s "$certificates/key" ] || { echo 'its key is gone, and is made anew'; return 1; }
    if [ -s "$certificates/ca" ] && [ "$(cat "$certificates/ca")" != "${ca%"$newline"}" ] && has_other_users; then
        echo 'it has mounts of another certificate authority: a machine can have one for all its volumes'
        return 1
    fi
    for end in ca pem; do
        case $end in ca) all=$ca ;; *) all=$pem ;; esac
        printf '%s' "$all" > "$certificates/$end.new" && mv -f "$certificates/$end.new" "$certificates/$end" || return 1
    done
    rm -f "$certificates/users/${former:-$name}"
    : > "$certificates/users/$name" || return 1
    for place_of in $(say_places); do
        for end in key pem ca; do ln -sfn "$certificates/$end" "$place_of/glusterfs.$end" || return 1; done
    done
}

drop_certificate() {
    [ -d "$certificates" ] || return 0
    rm -f "$certificates/users/$name"
    rmdir "$certificates/users" 2> /dev/null || return 0
    for place_of in $(say_places); do
        for end in key pem ca; do
            file=$place_of/glusterfs.$end
            [ "$(readlink "$file")" != "$certificates/$end" ] || rm -f "$file"
        done
    done
    rm -rf "$certificates"
}

unmount_it() {
    if [ -n "$ours" ]; then release || return 1; fi
    remove_directory
    forget
    [ -z "$identity" ] || alone drop_certificate
    rm -f "$turn"
}

main() {
    action='' name='' mount_point='' place='' source='' fstype='' program='' options='' unit='' keeper='' text='' made=''
    own_unit='' own_fstab='' ours='' force='' fresh='' replace='' waits='' former='' is_read='' turn='' mount_s=30
    identity='' pem='' ca=''
    for word; do
        value=${word#*=}
        case $word in
            action=*) action=$value ;; name=*) name=$value ;; mount_point=*) mount_point=$value ;; place=*) place=$value ;;
            source=*) source=$value ;; fstype=*) fstype=$value ;; program=*) program=$value ;; options=*) options=$value ;;
            unit=*) unit=$value ;; keeper=*) keeper=$value ;; text=*) text=$text$value$newline ;; made=*) made=$value ;;
            own_unit=*) own_unit=$value ;; own_fstab=*) own_fstab=$value ;; ours=*) ours=$value ;; force=*) force=$value ;;
            fresh=*) fresh=$value ;; replace=*) replace=$value ;; waits=*) waits=$value ;; mount_s=*) mount_s=$value ;;
            former=*) former=$value ;; identity=*) identity=$value ;;
            pem=*) pem=$pem$value$newline ;; ca=*) ca=$ca$value$newline ;;
        esac
    done
    case $action in
        look) [ -z "$waits" ] || { wait_for_turn && rm -f "$turn"; } ;;
        request) wait_for_turn && request_certificate ;;
        mount) wait_for_turn && mount_it ;;
        unmount) wait_for_turn && unmount_it ;;
    esac
    exec 8>&- # what comes next may be long in coming
    look
}
