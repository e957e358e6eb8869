// Package shell writes words for POSIX shells.
package shell

import "strings"

// Quote gives a word that a shell takes for s, whatever is in it.
func Quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
