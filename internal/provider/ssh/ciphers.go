package ssh

import (
	"context"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/cpu"
)

// OpenSSH's first choice of a cipher is one that is quick without AES in
// hardware. With it, AES-GCM carries a volume half as fast again, and ssh is
// most of what a move costs; so it goes first among those that the user's own
// configuration allows.

// ciphers keeps, for each host, the order that was found.
type ciphers struct {
	mu    sync.Mutex
	order map[string]string
}

// askTime is how long ssh may take to tell its configuration.
const askTime = 5 * time.Second

// options gives the options of ssh for a host, with the ciphers in our order
// unless they say something about ciphers themselves. Where nothing is found
// out, ssh chooses.
func (c *ciphers) options(ctx context.Context, client, host string, options map[string]string) map[string]string {
	for k := range options {
		if strings.EqualFold(k, "Ciphers") {
			return options
		}
	}
	if !doesAES() {
		return options
	}
	c.mu.Lock()
	order, known := c.order[host]
	c.mu.Unlock()
	if !known {
		order = quickFirst(configured(ctx, client, host, options, "ciphers"))
		c.mu.Lock()
		if c.order == nil {
			c.order = map[string]string{}
		}
		c.order[host] = order
		c.mu.Unlock()
	}
	if order == "" {
		return options
	}
	with := maps.Clone(options)
	if with == nil {
		with = map[string]string{}
	}
	with["Ciphers"] = order
	return with
}

func doesAES() bool { return cpu.X86.HasAES || cpu.ARM64.HasAES }

// configured gives a word of ssh's configuration for a host, or "".
func configured(ctx context.Context, client, host string, options map[string]string, word string) string {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	argv := sshCommand(host, options, "")
	argv = slices.Insert(argv[1:len(argv)-1], 0, "-G")
	out, err := exec.CommandContext(ctx, client, argv...).Output()
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(out)) {
		if value, is := strings.CutPrefix(strings.TrimSpace(line), word+" "); is {
			return value
		}
	}
	return ""
}

// quickFirst puts those of a list of ciphers first that hardware does, or gives
// "" where there is nothing to change.
func quickFirst(list string) string {
	names := strings.Split(list, ",")
	slices.SortStableFunc(names, func(a, b string) int {
		switch quickA, quickB := strings.Contains(a, "-gcm@"), strings.Contains(b, "-gcm@"); {
		case quickA == quickB:
			return 0
		case quickA:
			return -1
		}
		return 1
	})
	if order := strings.Join(names, ","); order != list {
		return order
	}
	return ""
}
