# SPDX-License-Identifier: Apache-2.0
# What Abaca's scripts have in common, and their last part: `main` does one action by the words that it is given and says
# what there is as lines "key value"; then come the words of the next action, each a line, an empty one at the end. A line
# is never read as code. The shell has read all of its text before it answers, and whoever goes on has heard the answer, so
# that a shell that reads ahead takes no word for text.
export LC_ALL=C PATH=/usr/sbin:/usr/bin:/sbin:/bin
umask 022
cd /
newline='
'

# What is said goes out at once, with the end of the action.
say() { answer="$answer$1 $2$newline"; }

converse() {
    while :; do
        answer=''
        main "$@" < /dev/null
        printf 'abaca-answer\n%sabaca-end\n' "$answer"
        set --
        while IFS= read -r word || exit 0; [ -n "$word" ]; do set -- "$@" "$word"; done
    done
}

converse "$@"
