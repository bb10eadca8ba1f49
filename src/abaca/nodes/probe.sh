# SPDX-License-Identifier: Apache-2.0
# What a machine says of itself, and of its way to an address of a storage; it changes nothing. Arrives as machine.sh does
# (conversation.sh is how).

one_line() { tr '\n\t' '  ' | head -c 200; }

# Whether the port answers, by whatever can ask that here.
knock() {
    if command -v bash > /dev/null; then
        # shellcheck disable=SC2016
        said=$(timeout -s KILL 5 bash -c 'exec 3<> "/dev/tcp/$0/$1"' "$address" "$port" 2>&1)
    elif command -v nc > /dev/null; then
        said=$(timeout -s KILL 5 nc -z -w 4 "$address" "$port" 2>&1)
    else
        return 0
    fi
    case $? in
        0) say port open ;;
        137) say port silent ;;
        *) case $said in *[Uu]sage* | *option*) ;; *) say port "closed $(printf '%s' "$said" | one_line)" ;; esac ;;
    esac
}

main() {
    program='' address='' port=''
    for word; do
        value=${word#*=}
        case $word in program=*) program=$value ;; address=*) address=$value ;; port=*) port=$value ;; esac
    done
    [ "$(id -u)" != 0 ] || say root yes
    has_all=yes
    for one in $program; do command -v "$one" > /dev/null || has_all=''; done
    [ -z "$has_all" ] || say program yes
    [ -n "$address" ] || return 0
    if command -v ip > /dev/null; then
        if said=$(ip route get "$address" 2>&1); then
            say route "$(printf '%s' "$said" | one_line)"
        else
            say no_route "$(printf '%s' "$said" | one_line)"
        fi
    fi
    knock
}
