# announced prints what the cloud has announced of this machine: lines of a word and a time.
announced() {
@NOTICE@
}
while :; do
	announced | while read -r what when; do
		case $what in notice | rebalance | maintenance) ;; *) continue ;; esac
		if [ "$when" -gt 0 ] 2>/dev/null && [ "$when" != "$(cat "/etc/bee/$what" 2>/dev/null)" ]; then
			echo "$when" >/etc/bee/notice.next && mv /etc/bee/notice.next "/etc/bee/$what"
		fi
	done
	sleep 1 || :
done &
watch=$!
