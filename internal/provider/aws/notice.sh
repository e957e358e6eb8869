	at=http://169.254.169.254/latest
	ttl='X-aws-ec2-metadata-token-ttl-seconds: 60'
	set -- "$at/meta-data/spot/instance-action" "$at/meta-data/events/recommendations/rebalance" "$at/meta-data/events/maintenance/scheduled"
	if command -v curl >/dev/null; then
		token=$(curl -s -f -m 5 -X PUT -H "$ttl" "$at/api/token") || return 1
		# Of those that are not there nothing is printed.
		found=$(curl -s -f -m 5 -H "X-aws-ec2-metadata-token: $token" "$@") || :
	else
		token=$(wget -q -O - -T 5 -t 1 --method=PUT --header="$ttl" "$at/api/token") || return 1
		found=$(wget -q -O - -T 5 -t 1 --header="X-aws-ec2-metadata-token: $token" "$@") || :
	fi
	for pair in notice:time rebalance:noticeTime maintenance:NotBefore; do
		printf '%s\n' "$found" | tr ',{' '\n\n' | sed -n 's/.*"'"${pair#*:}"'" *: *"\([0-9A-Za-z: -]*\)".*/\1/p' | while read -r when; do
			date -u -d "$when" +%s
		done 2>/dev/null | sort -n | head -n 1 | sed "s/^/${pair%:*} /"
	done
