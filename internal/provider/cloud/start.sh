#!/bin/sh
# Written by bee: what a machine that it rented runs at its first boot.
set -eu
umask 022
mkdir -p /etc/bee
rm -f /etc/bee/notice /etc/bee/rebalance /etc/bee/maintenance # of the machine that its image is made of

# The machine ends itself, whatever becomes of everything else.
cat >/etc/bee/guard <<'END'
#!/bin/sh
# Runs from each boot until this machine's expiry, and powers it off then.
# The metadata service has what was given to this machine: only root may read it.
ip rule list 2>/dev/null | grep -q 169.254.169.254 ||
	ip rule add to 169.254.169.254/32 uidrange 1-4294967294 prohibit ||
	iptables -I OUTPUT -d 169.254.169.254 -m owner ! --uid-owner 0 -j REJECT ||
	echo "bee: every user of this machine can read its metadata"
for setting in kernel.unprivileged_userns_clone=1 kernel.apparmor_restrict_unprivileged_userns=0; do
	sysctl -q -w "$setting" 2>/dev/null || : # not every kernel has these
done
watch=
@WATCH@
while :; do
	# A shell that can have no process ends: the guard is then started again.
	[ -z "$watch" ] || kill -0 "$watch" 2>/dev/null || exit 1
	now=$(date +%s) || now=
	if [ -z "$now" ]; then # no process can be had: neither give up nor power off
		sleep 5 || :
		continue
	fi
	left=$((@EXPIRES@ - now))
	if [ "$left" -le 0 ]; then # while files are fetched, this one is touched: ten minutes more, up to the last moment
		[ "$now" -lt @LAST@ ] && [ -n "$(find /etc/bee/fetching -mmin -10 2>/dev/null)" ] || break
		left=60
	fi
	[ "$left" -lt 60 ] || left=60
	sleep "$left"
done
sync
while :; do
	poweroff || shutdown -h now || halt -p
	sleep 10
done
END
mkdir -p /etc/systemd/system
cat >/etc/systemd/system/bee-guard.service <<'END'
[Unit]
Description=End of this machine at its expiry
StartLimitIntervalSec=0
[Service]
ExecStart=/bin/sh /etc/bee/guard
Restart=always
RestartSec=5
OOMScoreAdjust=-1000
[Install]
WantedBy=multi-user.target
END
if ! { systemctl daemon-reload && systemctl enable bee-guard.service && systemctl start --no-block bee-guard.service; }; then
	setsid sh -c 'while :; do sh /etc/bee/guard; sleep 5; done' </dev/null &
fi

mkdir -p /etc/security/limits.d
echo '* - memlock unlimited' >/etc/security/limits.d/bee.conf

# The host key that the submitting machine knows, and one that it learns over the first connection.
umask 077
cat >/etc/ssh/ssh_host_ed25519_key <<'END'
@HOSTKEY@
END
ssh-keygen -y -f /etc/ssh/ssh_host_ed25519_key >/etc/ssh/ssh_host_ed25519_key.pub
rm -f /etc/ssh/ssh_host_ecdsa_key /etc/ssh/ssh_host_ecdsa_key.pub
ssh-keygen -q -t ecdsa -N '' -C '' -f /etc/ssh/ssh_host_ecdsa_key
umask 022
chmod 644 /etc/ssh/*.pub
restorecon -R /etc/ssh 2>/dev/null || : # where there is SELinux
id @USER@ >/dev/null 2>&1 || useradd -m -s /bin/sh @USER@
: >/etc/bee/fetching
touch -d @0 /etc/bee/fetching
chown @USER@ /etc/bee/fetching
echo '@LOGINKEY@' >/etc/ssh/bee_login
if ! grep -q bee_login /etc/ssh/sshd_config; then
	cat >>/etc/ssh/sshd_config <<'END'

Match User @USER@
	AuthorizedKeysFile /etc/ssh/bee_login
	PasswordAuthentication no
END
fi
systemctl reload ssh || systemctl reload sshd || pkill -HUP -x sshd || : # it may start later
cp /etc/ssh/ssh_host_ecdsa_key.pub /etc/bee/host_key.pub
