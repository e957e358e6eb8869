package sshlink

import (
	"strings"

	"github.com/bee-hpc/bee/internal/shell"
)

// JumpCommand returns the value of ssh's ProxyCommand that reaches hosts through another, user@address. That one is
// reached with the given options, and its host key is known under an alias; "": as the options say.
func JumpCommand(options map[string]string, through, alias string) string {
	all := map[string]string{}
	for k, v := range options {
		if alias == "" || !strings.EqualFold(k, "HostKeyAlias") {
			all[k] = v
		}
	}
	if alias != "" {
		all["HostKeyAlias"] = alias
	}
	argv := sshCommand(through, all, "")
	var words []string
	for _, word := range argv[:len(argv)-3] { // without --, the host and an empty command
		words = append(words, shell.Quote(strings.ReplaceAll(word, "%", "%%"))) // ssh itself expands %h and others
	}
	return strings.Join(append(words, "-W", "'[%h]:%p'", "--", shell.Quote(strings.ReplaceAll(through, "%", "%%"))), " ")
}
