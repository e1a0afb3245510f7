#!/bin/sh
# The first process of every guest: mounts what tests need, runs /test.sh, tells how it ended.
#
# What the host reads are lines that begin with TOMBOLO-: RESULT name text, FACT text, ASK text (the
# host acts and answers with a line), DMESG ... DMESG-END, and at last EXIT status.
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t debugfs debug /sys/kernel/debug
stty -echo 2>/dev/null

result() { name=$1; shift; printf 'TOMBOLO-RESULT %s %s\n' "$name" "$*"; }
fact() { printf 'TOMBOLO-FACT %s\n' "$*"; }
fail() { printf 'TOMBOLO-FAIL %s\n' "$*"; failed=1; }
# ask WHAT: the host does it before it answers; $answer is what it said.
ask() { printf 'TOMBOLO-ASK %s\n' "$*"; read -r answer; [ "$answer" != failed ] || fail "the host failed: $*"; }
# load MODULE [PARAMETER...]
load() { module=$1; shift; insmod "/m/$module.ko" "$@" || fail "insmod $module $*"; }
# bind ADDRESS DRIVER: by override, so that no rival gets the device.
bind() {
	printf '%s' "$2" > "/sys/bus/pci/devices/$1/driver_override"
	printf '%s' "$1" > /sys/bus/pci/drivers_probe
	[ "$(basename "$(readlink "/sys/bus/pci/devices/$1/driver")")" = "$2" ] || fail "$1 is not bound to $2"
}
# client NAME PARAMETER...: runs our dmaengine client to its end; its result is called NAME.
client() {
	name=$1; shift
	insmod /m/tombolo_dmaclient.ko wait=1 "$@" || fail "$name: the client cannot be loaded"
	result "$name" "$(cat /sys/module/tombolo_dmaclient/parameters/result)"
	rmmod tombolo_dmaclient || fail "$name: the client cannot be unloaded"
}
unbind() { printf '%s' "$1" > "/sys/bus/pci/devices/$1/driver/unbind" || fail "$1 cannot be unbound"; }

failed=0
echo
# Made for each boot.
# shellcheck source=/dev/null
. /test.sh
echo
echo TOMBOLO-DMESG
dmesg
echo
echo TOMBOLO-DMESG-END
echo "TOMBOLO-EXIT $failed"
sync
poweroff -f
