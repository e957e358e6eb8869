package sshlink

import (
	"context"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"
)

// configs keeps, for each host, what its connections need beside the user's configuration.
type configs struct {
	mu    sync.Mutex
	needs map[string]map[string]string // options by host
}

// askTime is how long ssh may take to report its configuration.
const askTime = 5 * time.Second

// sessions are options by which a user's configuration has ssh start something else than
// the command that it is given, or go without its standard input. Older clients do not
// know all of them, so each is set back only where ssh reports that it is set.
func sessions() map[string]string {
	return map[string]string{"RemoteCommand": "none", "SessionType": "default", "StdinNull": "no", "ForkAfterAuthentication": "no"}
}

// options gives the options of ssh for a host: those of the site, and what is set back of
// the user's own configuration.
func (c *configs) options(ctx context.Context, client, host string, options map[string]string) map[string]string {
	c.mu.Lock()
	needs, known := c.needs[host]
	c.mu.Unlock()
	if !known {
		needs = needed(configured(ctx, client, host, options))
		c.mu.Lock()
		if c.needs == nil {
			c.needs = map[string]map[string]string{}
		}
		c.needs[host] = needs
		c.mu.Unlock()
	}
	with := maps.Clone(options)
	if with == nil {
		with = map[string]string{}
	}
	for k, v := range needs {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(options)), func(o string) bool { return strings.EqualFold(o, k) }) {
			with[k] = v
		}
	}
	return with
}

// needed gives what a configuration needs.
func needed(config map[string]string) map[string]string {
	needs := map[string]string{}
	for k, v := range sessions() {
		if set, known := config[strings.ToLower(k)]; known && set != v {
			needs[k] = v
		}
	}
	return needs
}

// setBack are the options of a host's connections that its user has to know of to make
// one by hand.
func (c *configs) setBack(host string) map[string]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.needs[host])
}

// configured gives ssh's configuration for a host, by words in lower case. It is empty
// where ssh does not report.
func configured(ctx context.Context, client, host string, options map[string]string) map[string]string {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	argv := sshCommand(host, options, "")
	argv = slices.Insert(argv[1:len(argv)-1], 0, "-G")
	out, err := exec.CommandContext(ctx, client, argv...).Output()
	if err != nil {
		return nil
	}
	config := map[string]string{}
	for line := range strings.Lines(string(out)) {
		if word, value, is := strings.Cut(strings.TrimSpace(line), " "); is {
			config[word] = value
		}
	}
	return config
}
