# SPDX-License-Identifier: Apache-2.0
# The virtiofsd of one share for one guest, on the hypervisor; everything of it is called after the attachment. Arrives as
# machine.sh does, and decides as little: it does an action, and says what is there (conversation.sh is how).

one_line() { tr '\n\t' '  ' | head -c 300; }
pause() { sleep 0.1 2> /dev/null || sleep 1; }

# The processes of ours; the command line of one that has ended is empty, even before it is reaped.
servers() {
    grep -ls -e "socket-path[=]$directory/$name[.]sock" /proc/[0-9]*/cmdline |
        while IFS= read -r line; do
            line=${line#/proc/}
            echo "${line%%/*}"
        done
}

find_program() {
    program=''
    for one in /usr/libexec/virtiofsd /usr/lib/virtiofsd /usr/lib/qemu/virtiofsd "$(command -v virtiofsd)"; do
        if [ -z "$program" ] && [ -f "$one" ] && [ -x "$one" ]; then program=$one; fi
    done
}

is_mounted() {
    while read -r _ _ _ _ point _; do
        [ "$point" != "$share" ] || return 0
    done < /proc/self/mountinfo
    return 1
}

# One at a time, so that what a killed worker left running does not undo what its successor does.
alone() {
    {
        # The flock of busybox knows no limit of its own.
        if command -v flock > /dev/null && ! timeout -s KILL 30 flock 9; then
            say problem 'another change goes on'
            return 1
        fi
        # Where nobody listens any more this ends us: a successor may have undone by now what we were to do.
        echo abaca-turn || exit 1
        "$@"
    } 9> /run/abaca-guests.lock
}

clear_it() {
    turn=0
    while pids=$(servers) && [ -n "$pids" ] && [ $turn -lt 60 ]; do
        signal=TERM
        [ $turn -lt 30 ] || signal=KILL
        # shellcheck disable=SC2086
        kill -s $signal $pids 2> /dev/null
        turn=$((turn + 1))
        pause
    done
    [ -z "$(servers)" ] || return 1
    dotted=$(printf '%s' "$socket" | tr / .)
    rm -f "$socket" "$socket.pid" "$log" "/run/virtiofsd/$dotted.pid" "/var/run/virtiofsd/$dotted.pid"
}

serve() {
    clear_it || return 1
    # An empty directory is never handed to a guest in place of a share.
    is_mounted || { say problem 'the share is not mounted'; return 1; }
    if "$program" --help 2>&1 | grep -q -e --shared-dir; then
        set -- "--shared-dir=$share" --cache=auto
    else
        set -- -o "source=$share" -o cache=auto
    fi
    setsid "$program" "--socket-path=$socket" "$@" < /dev/null > "$log" 2>&1 9>&- &
    turn=0
    while [ ! -S "$socket" ] && [ $turn -lt 50 ] && { [ $turn -lt 5 ] || [ -n "$(servers)" ]; }; do
        turn=$((turn + 1))
        pause
    done
    if [ ! -S "$socket" ]; then
        said=$(tail -n 3 "$log" 2> /dev/null | one_line)
        clear_it
        say problem "${said:-it ends without a word}"
        return 1
    fi
    # QEMU may run as another user, who owns its own socket.
    owner=$(stat -c %u:%g "$qmp_socket" 2> /dev/null) && chown "$owner" "$socket"
}

main() {
    action='' name='' directory='' qmp_socket=''
    for word; do
        value=${word#*=}
        case $word in
            action=*) action=$value ;; name=*) name=$value ;; directory=*) directory=$value ;;
            qmp_socket=*) qmp_socket=$value ;;
        esac
    done
    socket=$directory/$name.sock log=$directory/$name.log share=$directory/$name.share
    find_program
    # The directory stays: attachments that come and go at once do not take it from each other.
    [ -d "$directory" ] || mkdir -m 711 "$directory" 2> /dev/null
    case $action in
        serve) alone serve ;;
        clear) alone clear_it ;;
        listen)
            # In every network namespace, since sockets are reached by path from all of them.
            [ -z "$(cat /proc/[0-9]*/net/unix 2> /dev/null | grep -m 1 -e " $qmp_socket\$")" ] || say heard yes
            ;;
    esac
    [ -z "$program" ] || say program "$program"
    [ -z "$(servers)" ] || say serving yes
    sockets=''
    for one in "$directory"/*.sock; do
        one=${one##*/}
        [ ! -S "$directory/$one" ] || sockets="$sockets ${one%.sock}"
    done
    say sockets "$sockets"
}
