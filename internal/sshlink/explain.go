package sshlink

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/shell"
)

// explain returns an error with a kind and a remedy for what ssh printed.
func (p *Client) explain(host, words string, err error) error {
	if _, ours := errors.AsType[*core.Error](err); ours {
		return err
	}
	if words == "" {
		words = err.Error()
	}
	e := &core.Error{Kind: core.Transient, Op: "connect by ssh to", Object: host, Err: errors.New(words)}
	// A laptop leaves its network, and a certificate ends: who was let in before may
	// be so again, and what computes there is not given up meanwhile.
	unknown := core.Permanent
	if _, before := p.answered.Load(host); before {
		unknown = core.Transient
	}
	login := p.byHand(host)
	has := func(parts ...string) bool {
		for _, part := range parts {
			if strings.Contains(words, part) {
				return true
			}
		}
		return false
	}
	switch {
	case has("REMOTE HOST IDENTIFICATION HAS CHANGED"):
		e.Kind, e.Remedy = core.Permanent, "If whoever runs the host confirms the new key, remove the old one by `"+removal(words, host)+"` and run `"+login+"` once by hand."
		e.Err = errors.New("the host's key is not the known one any more: it was made again, or another machine answers in the host's place")
	case has("Host key verification failed", "No matching host key", "host key is known"):
		e.Kind, e.Remedy = core.Permanent, "The host's key is not known: run `"+login+"` once by hand, compare and accept it."
	case has(noexec):
		e.Kind, e.Remedy = core.Permanent, "Have logins on "+host+" set XDG_CACHE_HOME to a directory where programs may be run."
	case has(replaceable):
		e.Kind, e.Remedy = core.Permanent, "Have logins on "+host+" set XDG_CACHE_HOME to a directory that, like those above it, nobody else can write to, or take that right away (`chmod go-w`)."
	case has("Permission denied (", "Too many authentication failures"):
		e.Kind, e.Remedy = unknown, "ssh may not ask for a password here: make `"+login+" true` work without one (ssh-agent, `ssh-copy-id`, ~/.ssh/config)."
	case has("Temporary failure in name resolution"):
		e.Remedy = "Has this machine a network, and a name server that answers?"
	case has("Could not resolve hostname", "Name or service not known"):
		e.Kind, e.Remedy = unknown, "Check the name in the sites file, or in ~/.ssh/config."
	case has("No space left", "cut short"):
		e.Kind, e.Remedy = core.Permanent, "Free space in the home directory on "+host+"."
	case has("Connection refused", "timed out", "No route to host", "unreachable", "closed by", "Broken pipe"):
		e.Remedy = "Is the host up, and its sshd? Try `" + login + " true`."
	case errors.Is(err, errNoStart):
		e.Kind, e.Remedy = core.Permanent, "See what `"+login+" '~/.cache/bee/bin/bee-* version'` says: a limit of memory may be too low."
		if e.Err = err; words != err.Error() {
			e.Err = fmt.Errorf("%w: %s", err, words)
		}
	default:
		e.Remedy = "Try `" + login + " true`."
	}
	return e
}

// byHand is the command by which people log in to a host with the site's options.
func (p *Client) byHand(host string) string {
	words := []string{"ssh"}
	options := p.configs.setBack(host)
	if options == nil {
		options = map[string]string{}
	}
	maps.Copy(options, p.s.Options)
	for _, k := range slices.Sorted(maps.Keys(options)) {
		option := k + "=" + options[k]
		if strings.ContainsAny(option, " \t'\"$\\") {
			option = shell.Quote(option)
		}
		words = append(words, "-o", option)
	}
	return strings.Join(append(words, host), " ")
}

// removal is the command that forgets a host's key: ssh's own words, where they
// report one.
func removal(words, host string) string {
	for line := range strings.Lines(words) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "ssh-keygen ") {
			return line
		}
	}
	return "ssh-keygen -R " + NameOf(host)
}
