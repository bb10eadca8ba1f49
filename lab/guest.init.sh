#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The first process of a guest: network, modules, SSH, then commands. The host writes "ID SECONDS" on the serial line and the
# command into the shared directory; the answer is "ID CODE" on the line, and the output in files beside the command.
# Starting a program takes 10 ms here, so the shell does what it can alone.
# Where there is systemd, it becomes the first process once there is a network, and starts this again for the commands.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=dumb
# The first root cannot be left by pivot_root, with which daemons shut themselves in; the same root, mounted, can.
if [ $$ -eq 1 ] && [ "$1" != mounted ] && [ ! -x /lib/systemd/systemd ]; then
    busybox mount -o bind / /mnt
    cd /mnt
    busybox mount --move . /
    exec busybox chroot . /init mounted
fi
begin() {
    busybox mount -t proc proc /proc
    busybox mount -t devtmpfs devtmpfs /dev 2>/dev/null
    busybox mount -t tmpfs tmpfs /run
    mkdir -p /dev/pts /dev/shm /run/lock /run/host /run/lab
    busybox mount -t hostfs none /run/host

    read -r words < /proc/cmdline
    for word in $words; do
        case $word in lab.*=*) name=${word%%=*}; eval "lab_${name#lab.}=\${word#*=}" ;; esac
    done
    modprobe -a ipv6 nfsv4 fuse
    for scope in all default vec0; do echo 0 > /proc/sys/net/ipv6/conf/$scope/accept_dad; done
    echo "$lab_name" > /proc/sys/kernel/hostname
    ip link set lo up
    ip link set vec0 address "$lab_mac" up
    ip address add "$lab_ipv4" dev vec0
    ip address add "$lab_ipv6" dev vec0
    [ -z "$lab_gateway_v4" ] || ip route add default via "$lab_gateway_v4"
    [ -z "$lab_gateway_v6" ] || ip -6 route add default via "$lab_gateway_v6"
    echo "127.0.0.1 localhost
::1 localhost
${lab_ipv4%/*} $lab_name" > /etc/hosts

    # The root is in memory; what a disk would keep over a reboot is kept in the shared directory.
    [ -e /run/host/fstab ] || : > /run/host/fstab
    ln -sf /run/host/fstab /etc/fstab
}

serve() {
    busybox mount -t sysfs sysfs /sys
    busybox mount -t devpts devpts /dev/pts
    busybox mount -t tmpfs tmpfs /tmp
    busybox mount -t tmpfs tmpfs /dev/shm
    chmod 700 /root
    mkdir -p /root/.ssh
    cp /run/host/authorized_keys /root/.ssh/
    cp /run/host/host_key /etc/dropbear/
    chmod 600 /etc/dropbear/host_key /root/.ssh/authorized_keys
    if [ -x /usr/sbin/sshd ]; then
        mkdir -p /run/sshd
        cp /run/host/host_key.openssh /run/sshd/host_key
        chmod 600 /run/sshd/host_key
        /usr/sbin/sshd -f /dev/null -h /run/sshd/host_key -o 'UsePAM no' -o 'MaxStartups 200'
    else
        dropbear -r /etc/dropbear/host_key -s -p 22
    fi
    grep -v '^#' /etc/fstab | while read -r _ point _; do mkdir -p "$(printf '%b' "$point")"; done
    [ ! -s /etc/fstab ] || mount -a -t nfs,nfs4
}

answer() {
    setsid sh "/run/host/$1.sh" < /dev/null > "/run/lab/$1.out" 2> "/run/lab/$1.err" &
    child=$!
    setsid sh -c "sleep $2; kill -KILL -$child" > /dev/null 2>&1 &
    watchdog=$!
    wait "$child"
    code=$?
    kill -KILL "-$watchdog" 2> /dev/null
    # Copied at the end, since the host sees a file only when nobody has it open any more.
    for kind in out err; do
        cat "/run/lab/$1.$kind" > "/run/host/$1.$kind"
        rm -f "/run/lab/$1.$kind"
    done
    echo "$1 $code" >&4
}

[ $$ -ne 1 ] || begin
[ $$ -ne 1 ] || [ ! -x /lib/systemd/systemd ] || exec /lib/systemd/systemd
stty raw -echo < /dev/ttyS0
exec 3< /dev/ttyS0 4> /dev/ttyS0
[ $$ -ne 1 ] || (serve) 3<&- 4<&-
echo "ready 0" >&4
while read -r id seconds <&3; do
    answer "$id" "$seconds" 3<&- &
done
