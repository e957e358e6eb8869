package core

import (
	"errors"
	"fmt"
	"net/netip"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Bounds of what a site may say of its hosts.
const (
	mostSlots     = 1 << 20
	mostAddresses = 256
	longestPath   = 4096
)

// accountForm is the form of an account's name, as useradd(8) has it.
var accountForm = regexp.MustCompile(`^[a-z_][a-z0-9_.-]*\$?$`)

// hostForm is the form of a host's name, or of its address as ssh takes it.
var hostForm = regexp.MustCompile(`^\[?[A-Za-z0-9_]([A-Za-z0-9_.:%-]*[A-Za-z0-9_])?\]?$`)

// IsAccount reports whether a text has the form of an account's name.
func IsAccount(name string) bool { return len(name) <= 32 && accountForm.MatchString(name) }

// IsHost reports whether a text has the form of a host's name.
func IsHost(name string) bool { return len(name) <= 253 && hostForm.MatchString(name) }

// IsMoment reports whether a time is zero, or one that a clock of today's may show.
func IsMoment(t time.Time) bool { return t.IsZero() || t.Year() >= 1970 && t.Year() < 2200 }

// CheckHosts refuses hosts of a lease that are not what was asked for: so many, or none
// yet. Hosts without a name are still to come. before, if not nil, are the hosts that the
// site named earlier, which stay.
func CheckHosts(hosts []Host, asked int, before []Host) error {
	fail := func(i int, what, got, expected string) error {
		return &Error{Kind: Lost, Op: "check", Object: fmt.Sprintf("host %d", i), Err: fmt.Errorf("%s is %q, expected %s", what, Printable(got, 80), expected), Remedy: RemedyVersions}
	}
	if len(hosts) != 0 && len(hosts) != asked || len(hosts) < len(before) {
		return &Error{Kind: Lost, Op: "check", Object: "hosts of the site", Err: fmt.Errorf("number is %d, expected %d", len(hosts), asked), Remedy: RemedyVersions}
	}
	names := map[string]bool{}
	for i, h := range hosts {
		if h.Dir != "" && (!path.IsAbs(h.Dir) || path.Clean(h.Dir) != h.Dir) {
			return fail(i, "directory", h.Dir, "an absolute path")
		}
		for _, dir := range []string{h.Dir, h.Cache} {
			if len(dir) > longestPath || strings.ContainsAny(dir, "\x00\n\r") {
				return fail(i, "directory", dir, "a path")
			}
		}
		switch {
		case h.Name == "":
			continue
		case h.Index != i:
			return fail(i, "index", fmt.Sprint(h.Index), fmt.Sprint(i))
		case !IsHost(h.Name):
			return fail(i, "name", h.Name, "a host name")
		case names[h.Name]:
			return fail(i, "name", h.Name, "another than that of an earlier one")
		case h.Slots < 0 || h.Slots > mostSlots:
			return fail(i, "number of slots", fmt.Sprint(h.Slots), "a number of cores")
		case !slices.Contains([]string{"", "cluster", "spread", "none"}, h.Placement):
			return fail(i, "placement", h.Placement, "cluster, spread or none")
		case len(h.Addrs) > mostAddresses:
			return fail(i, "number of addresses", fmt.Sprint(len(h.Addrs)), fmt.Sprint(mostAddresses, " at most"))
		case len(before) > i && before[i].Name != "" && before[i].Name != h.Name:
			return fail(i, "name", h.Name, before[i].Name+", as before")
		}
		names[h.Name] = true
		for _, a := range h.Addrs {
			if _, err := netip.ParseAddr(a); err != nil {
				return fail(i, "address", a, "one of IP")
			}
		}
	}
	return nil
}

// CheckDeadline refuses a time at which a site takes its hosts back that no clock shows,
// or that is another one than before; zero: it was not known.
func CheckDeadline(t, before time.Time) error {
	switch {
	case !IsMoment(t):
		return &Error{Kind: Lost, Op: "check", Object: "deadline of the site", Err: errors.New("it is " + t.Format(time.RFC3339) + ", expected a time between 1970 and 2200"), Remedy: RemedyVersions}
	case !before.IsZero() && !t.Equal(before):
		return &Error{Kind: Lost, Op: "check", Object: "deadline of the site", Err: fmt.Errorf("it is %s, and was %s", t.Format(time.RFC3339), before.Format(time.RFC3339)), Remedy: RemedyVersions}
	}
	return nil
}
