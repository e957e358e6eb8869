package sshlink

import (
	"fmt"
	"sort"
	"strings"

	"github.com/bee-hpc/bee/internal/environ"
)

// sshCommand is the command line of the OpenSSH client. The user's own
// configuration decides everything else: keys, agent, ports, jumps. What it has for people
// who log in is left out.
func sshCommand(host string, options map[string]string, remote string) []string {
	set := map[string]string{
		"BatchMode":           "yes", // a prompt would hang a run at night
		"ConnectTimeout":      "10",
		"ServerAliveInterval": "5",
		"ServerAliveCountMax": "3",
		"RequestTTY":          "no",
		"LogLevel":            "ERROR",
		"PermitLocalCommand":  "no",
		"VisualHostKey":       "no",
		"EscapeChar":          "none",
		"ClearAllForwardings": "yes", // a port that is taken would end the connection
		"ForwardX11":          "no",
		"Tunnel":              "no",
	}
	for k, v := range options {
		set[k] = v
	}
	keys := make([]string, 0, len(set))
	for k := range set {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	argv := []string{"ssh"}
	for _, k := range keys {
		argv = append(argv, "-o", k+"="+set[k])
	}
	return append(argv, "--", host, remote)
}

// RemoteArg is the argument by which the bee binary, on a host, becomes our
// agent there.
const RemoteArg = "remote"

// here is the agent's first word: it has started.
const here = "here"

// noexec is what the script says of a directory that is mounted with that option.
const noexec = "on a file system where no programs may be run"

// gzipped is the host's word for a binary that may come compressed, and the program
// that it has for it.
const gzipped = "gzip"

// replaceable is what the script says of a directory in which others can replace programs.
const replaceable = "others can replace what is in it"

// bootScript is what the login shell of a host runs first, whichever shell that is. It
// finds the binary of this very version, by its checksum, or takes it in from its
// standard input, and becomes it, with the account's own umask: what jobs write
// is not bee's alone. One round trip when it is there. Reading all of it takes a
// moment, so beyond its size that is looked at only where it has not started (doubt).
// A binary in a directory that others can write to or replace is not started: the rules
// are those of fsutil.CheckParents. Copies of other versions go when nobody has used them
// for months.
func bootScript(binaries map[string]binary, doubt bool) string {
	whole := `[ -x "$b" ] && [ "$(wc -c <"$b")" -eq "$z" ]`
	if doubt {
		whole += ` && echo "$s  $b" | sha256sum -c >/dev/null 2>&1`
	}
	amd, arm := binaries["amd64"], binaries["arm64"]
	return anyShell(fmt.Sprintf(`u=$(umask)
umask 077
case $(uname -s)-$(uname -m) in
Linux-x86_64) a=amd64 s=%s z=%d ;;
Linux-aarch64) a=arm64 s=%s z=%d ;;
*) a=$(uname -s)-$(uname -m) s= ;;
esac
d=${XDG_CACHE_HOME:-$HOME/.cache}/bee/bin
b=$d/bee-$s
safe() {
q=$1
set -- /
while [ -n "${q%%/*}" ]; do set -- "$@" "$q"; q=${q%%/*}; done
[ -z "$q" ] || set -- "$@" "$q"
LC_ALL=C ls -ldn "$@" | while read -r m l o g w; do
[ "$o" = 0 ] || [ "$o" = "$me" ] || { [ "$o" = 65534 ] && [ "$root" != 0 ]; } || exit 1
case $m in
l* | ?????????[tT]*) continue ;;
????????w*) exit 1 ;;
?????w*) [ "$o$g" = 00 ] || { [ "$g" = "$(id -g)" ] && [ "$(id -gn)" = "$(id -un)" ]; } || exit 1 ;;
esac
done
}
if [ -n "$s" ]; then
mkdir -p "$d" || exit 1
me=$(id -u)
root=0
read -r root w 2>/dev/null </proc/self/uid_map
p=$(cd -P "$d" && pwd -P)
if ! safe "$d" || { [ "$p" != "$d" ] && ! safe "$p"; }; then echo "bee: $d: %s" >&2; exit 1; fi
fi
if [ -n "$s" ] && %s; then
echo
echo "BEE have $a"
else
p=
command -v gzip >/dev/null 2>&1 && p=gzip
echo
echo "BEE need $a $p"
read -r n && [ "$n" -gt 0 ] && t=$b.$$ || exit 1
head -c "$n" | ${p:-cat} ${p:+-dc} >"$t"
if [ "$(wc -c <"$t")" -ne "$z" ]; then rm -f "$t"; echo "bee: the copy of the bee binary was cut short (is the disk of $d full?)" >&2; exit 1; fi
if command -v sha256sum >/dev/null 2>&1 && ! echo "$s  $t" | sha256sum -c >/dev/null 2>&1; then rm -f "$t"; echo "bee: the copy of the bee binary is damaged" >&2; exit 1; fi
chmod 700 "$t" || exit 1
if ! [ -x "$t" ]; then rm -f "$t"; echo "bee: $d is %s" >&2; exit 1; fi
mv -f "$t" "$b" || exit 1
find "$d" -type f -name 'bee-*' -atime +90 -exec rm -f {} + 2>/dev/null
echo "BEE have $a"
fi
umask "$u"
touch -a "$b" 2>/dev/null
unset %s
exec "$b" %s`, amd.sum, amd.size, arm.sum, arm.size, replaceable, whole, noexec, strings.Join(environ.OfRuntime(), " "), RemoteArg))
}

// wordLength bounds a word of the command line: the C shell takes 1,024 bytes in all.
const wordLength = 800

// anyShell is the command by which a login shell of any kind runs a script. All of them,
// the C shell and fish too, take a word between single quotes as it is if there is no
// quote, line break, backslash before a backslash or quote, nor exclamation mark in it:
// so the script comes in words that printf decodes.
func anyShell(script string) string {
	encoded := strings.NewReplacer("\n", `\n`, `\`, `\0134`, "'", `\0047`, "!", `\0041`).Replace(script)
	command := `exec /bin/sh -c 'eval "$(printf %b "$@")"' bee`
	for encoded != "" {
		n := min(len(encoded), wordLength)
		if cut := strings.LastIndexByte(encoded[:n], '\\'); n < len(encoded) && cut > n-len(`\0000`) {
			n = cut
		}
		command += " '" + encoded[:n] + "'"
		encoded = encoded[n:]
	}
	return command
}
