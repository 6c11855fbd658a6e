#!/bin/sh
# Becomes a systemd of its own in new namespaces, on a copy of this machine's files that goes with it: $1 is an empty directory.
set -eu
mount -t tmpfs tmpfs "$1"
mkdir "$1/upper" "$1/work" "$1/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$1/root"
cd "$1/root"
mount -t proc proc proc
mount --rbind /sys sys
mount --bind /dev dev
mount -t tmpfs tmpfs run
mkdir -p etc/systemd/system srv
printf '[Unit]\nDescription=test\n' >etc/systemd/system/test.target
for unit in systemd-tmpfiles-setup systemd-tmpfiles-clean; do ln -sf /dev/null etc/systemd/system/$unit.service; done
container=test exec chroot . /lib/systemd/systemd --system --unit=test.target
