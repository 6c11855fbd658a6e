#!/bin/sh
# Runs in a clean root with /one.deb and /two.deb, in namespaces of its own: installs, upgrades, downgrades, removes, purges.
# Prints what the test compares. Standing in for systemd's, systemctl knows edgecore.service alone.
set -eu
export DEBIAN_FRONTEND=noninteractive PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
file=/etc/kubeedge/config/edgecore.yaml
database=/var/lib/kubeedge/edgecore.db
mount -t proc proc /proc
mount -t tmpfs tmpfs /run
mkdir -p /run/systemd/system
files() { find / -xdev -not -path '/proc/*' -not -path '/run/*' -not -path '/var/lib/dpkg/*' -not -path '/var/log/*' | sort; }
cat >/usr/local/bin/systemctl <<'S'
#!/bin/sh
lock=/var/lib/edged/edgecore.lock
runs() { [ -s $lock ] && kill -0 "$(cat $lock)" 2>/dev/null; }
case "$*" in
*is-active*edgecore.service) runs ;;
*is-active*) exit 3 ;;
*stop*edgecore.service | *disable*edgecore.service)
    if runs; then
        process=$(cat $lock)
        kill "$process"
        while kill -0 "$process" 2>/dev/null; do sleep 0.2; done
    fi
    ;;
*start*edgecore.service) edgecore run --config /etc/kubeedge/config/edgecore.yaml >>/run/edgecore.log 2>&1 & ;;
esac
S
chmod 755 /usr/local/bin/systemctl
files >/run/before
container() { edgecore get pods -A -o jsonpath='{.items[0].status.containerStatuses[0].containerID}' 2>/dev/null; }
running() {
    while [ -z "$(container)" ]; do sleep 1; done
    container
}
install() { dpkg --force-unsafe-io --install "$1" >&2; }
step() { printf '%s %s\n' "$1" "$2"; }

install /one.deb
step version "$(edgecore version | head -n 1)"
mkdir -p /etc/kubeedge/config /etc/kubeedge/manifests
cat >$file <<'Y'
modules:
  edgeHub: {enable: false}
  edged:
    hostnameOverride: n1
    rootDirectory: /var/lib/edged
    tailoredKubeletConfig:
      containerRuntimeEndpoint: embedded://
      staticPodPath: /etc/kubeedge/manifests
      readOnlyPort: 0
Y
cat >/etc/kubeedge/manifests/p.yaml <<'Y'
apiVersion: v1
kind: Pod
metadata: {name: p, namespace: default}
spec: {containers: [{name: c, image: x, command: [sleep, "100000"]}]}
Y
systemctl start edgecore.service
step installed "$(running)"
echo "# mine" >>/etc/default/edgecore
install /two.deb
step upgraded "$(running)"
step conffile "$(tail -n 1 /etc/default/edgecore)"
install /one.deb
step downgraded "$(running)"
systemctl stop edgecore.service
python3 -c "import sqlite3; c = sqlite3.connect('$database'); c.execute('PRAGMA user_version=99'); c.commit()"
if install /two.deb; then step schema taken; else step schema refused; fi
python3 -c "import sqlite3; c = sqlite3.connect('$database'); c.execute('PRAGMA user_version=3'); c.commit()"
systemctl start edgecore.service
step still "$(running)"
dpkg --remove edgecore >&2
step processes "$(grep -lz '^100000$' /proc/[0-9]*/cmdline 2>/dev/null | wc -l)"
step kept "$(ls $file $database 2>&1 | tr '\n' ' ')"
rm /etc/kubeedge/manifests/p.yaml
dpkg --purge edgecore >&2
files >/run/after
step left "$(comm -13 /run/before /run/after | tr '\n' ' ')"
