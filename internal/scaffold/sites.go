package scaffold

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/spec"
)

// PartitionsCommand lists a Slurm cluster's partitions, to be read by Cluster.
var PartitionsCommand = []string{"sinfo", "--noheader", "--format=%P|%a|%l"}

// Bounds of what one cluster is asked for, as a login node may list anything.
const (
	mostPartitions = 20
	mostAccounts   = 50
)

// word is a name that Slurm and ssh give, as far as it is one word everywhere.
var word = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,62}$`)

// Candidate is a site that may be usable.
type Candidate struct {
	Site spec.Site
	// About is what its user may want to know of it.
	About string
}

// Cluster returns the sites of a Slurm cluster, one for each partition that is up, the
// default one first: by the output of PartitionsCommand. They use the account named, else the
// first of own. login is the login node; "" is this machine.
func Cluster(login, partitions string, own []Account, account string) []Candidate {
	type partition struct {
		name    string
		first   bool
		limited bool
		limit   time.Duration
	}
	var found []partition
	for line := range strings.Lines(partitions) {
		f := strings.Split(strings.TrimSpace(line), "|")
		if len(f) != 3 || f[1] != "up" || len(found) == mostPartitions {
			continue
		}
		p := partition{name: strings.TrimSuffix(f[0], "*"), first: strings.HasSuffix(f[0], "*")}
		if p.limit, p.limited = limitOf(f[2]); !word.MatchString(p.name) || slices.ContainsFunc(found, func(o partition) bool { return o.name == p.name }) {
			continue
		}
		found = append(found, p)
	}
	slices.SortStableFunc(found, func(a, b partition) int {
		return cmp.Compare(map[bool]int{true: 0, false: 1}[a.first], map[bool]int{true: 0, false: 1}[b.first])
	})
	var all []Candidate
	for _, p := range found {
		s := spec.Site{Name: p.name, Provider: "slurm", Login: login, Slurm: &spec.Slurm{Partition: p.name}}
		if login != "" {
			s.Name = strings.ReplaceAll(login, "@", "-") + "-" + p.name
		}
		about := []string{"no time limit"}
		if p.limited {
			s.Slot, about = p.limit, nil
		}
		if use, is := accountFor(own, account, p.name); is {
			s.Slurm.Account = use.Name
			if use.Wall > 0 && (s.Slot == 0 || use.Wall < s.Slot) {
				s.Slot, about = use.Wall, []string{"the account's limit, where the partition has " + map[bool]string{true: spec.ShortDuration(p.limit.String()), false: "none"}[p.limited]}
			}
			if use.Nodes > 0 {
				about = append(about, fmt.Sprintf("at most %d nodes by the account", use.Nodes))
			}
			if names := Names(own); len(names) > 1 {
				about = append(about, "your accounts: "+strings.Join(names, ", "))
			}
		}
		all = append(all, Candidate{s, strings.Join(about, "; ")})
	}
	return all
}

// mostLimit bounds a time limit of a partition: beyond it, there is none.
const mostLimit = 3650 * 24 * time.Hour

// limitOf reads a time limit of sinfo.
func limitOf(text string) (limit time.Duration, limited bool) {
	limit, limited = spec.SlurmTime(text)
	return limit, limited && limit > spec.LeastMargin && limit <= mostLimit
}

// SSHHosts are the hosts that a configuration of ssh names, without patterns. include reads
// the files of an Include line.
func SSHHosts(text string, include func(pattern string) []string) []string {
	return sshHosts(text, include, 0)
}

// mostHosts bounds the hosts of a configuration, and deepest its nesting.
const (
	mostHosts = 50
	deepest   = 4
)

func sshHosts(text string, include func(string) []string, depth int) []string {
	var hosts []string
	add := func(names ...string) {
		for _, n := range names {
			if word.MatchString(n) && !slices.Contains(hosts, n) && len(hosts) < mostHosts {
				hosts = append(hosts, n)
			}
		}
	}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		end := strings.IndexAny(line, " \t=")
		if end < 0 {
			continue
		}
		values := strings.FieldsFunc(strings.TrimLeft(line[end:], " \t="), func(r rune) bool { return strings.ContainsRune(" \t\"", r) })
		switch strings.ToLower(line[:end]) {
		case "host":
			add(values...)
		case "include":
			for _, pattern := range values {
				if depth == deepest {
					break
				}
				for _, more := range include(pattern) {
					add(sshHosts(more, include, depth+1)...)
				}
			}
		}
	}
	return hosts
}

// Tried is a candidate with what came of a try.
type Tried struct {
	Candidate
	Works bool
	// Says is what works there, or why nothing does.
	Says string
}

// Sites writes a sites file: with those that work, and with the others as comments.
func Sites(host string, tried []Tried) (string, error) {
	var b strings.Builder
	b.WriteString("# Sites of BEE, made by bee init --sites on " + oneLine(host) + ".\n")
	b.WriteString("# Their order is the order in which runs try them. All keys: bee help sites.\n")
	b.WriteString("sites:\n")
	others := false
	for _, t := range tried {
		line, err := entry(t)
		if err != nil {
			return "", err
		}
		if t.Works {
			b.WriteString(line)
		}
		others = others || !t.Works
	}
	if others {
		b.WriteString("\n# Tried, and not usable now:\n")
	}
	for _, t := range tried {
		line, err := entry(t)
		if err != nil {
			return "", err
		}
		if !t.Works {
			b.WriteString("# " + strings.ReplaceAll(strings.TrimRight(line, "\n"), "\n", "\n# ") + "\n")
		}
	}
	return b.String(), nil
}

// entry is a site with a comment above it.
func entry(t Tried) (string, error) {
	text, err := t.Site.Text()
	if err != nil {
		return "", err
	}
	says := oneLine(t.Says)
	if t.About != "" {
		says += " (" + oneLine(t.About) + ")"
	}
	return fmt.Sprintf("  # %s\n  - %s\n", says, text), nil
}

// oneLine is a text of a tool or a site as it can be in a comment.
func oneLine(text string) string {
	const most = 300
	text = strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 || r == 0x2028 || r == 0x2029 || r == 0xfffd || r == 0xfeff {
			return ' '
		}
		return r
	}, text)), " ")
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return text
}
