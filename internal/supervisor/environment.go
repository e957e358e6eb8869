package supervisor

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"slices"
	"strings"
)

// ofTheTerminal are variables that distinguish one terminal from another, and that no
// run depends on.
func ofTheTerminal() []string {
	return []string{
		"_", "PWD", "OLDPWD", "SHLVL", "TERM", "COLUMNS", "LINES", "WINDOWID", "WINDOW", "STY", "TMUX", "TMUX_PANE",
		"SSH_CLIENT", "SSH_CONNECTION", "SSH_TTY", "XDG_SESSION_ID",
	}
}

// Key distinguishes environments in which a run may go another way:
// secrets, the way to an ssh agent, an allocation of Slurm's, PATH, the umask,
// and which bee it is, on which of the hosts that share the state directory.
func Key(env []string, binary string, further ...string) string {
	kept := slices.DeleteFunc(slices.Clone(env), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.Contains(ofTheTerminal(), name)
	})
	slices.Sort(kept)
	kept = append(append(kept, binary), further...)
	if host, err := os.Hostname(); err == nil {
		kept = append(kept, host)
	}
	if info, err := os.Stat(binary); err == nil {
		kept = append(kept, fmt.Sprint(info.Size(), info.ModTime().UnixNano()))
	}
	if raw, err := os.ReadFile("/proc/self/status"); err == nil {
		for line := range strings.Lines(string(raw)) {
			if strings.HasPrefix(line, "Umask:") {
				kept = append(kept, line)
			}
		}
	}
	sum := sha256.Sum256([]byte(strings.Join(kept, "\x00")))
	return hex.EncodeToString(sum[:8])
}
