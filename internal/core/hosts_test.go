package core

import (
	"testing"
	"time"
)

func TestCheckHosts(t *testing.T) {
	host := func(i int, name string) Host {
		return Host{Index: i, Name: name, Dir: "/scratch/bee/r", Cache: "/c", Slots: 2, Addrs: []string{"10.0.0.1"}}
	}
	good := []Host{host(0, "n0"), host(1, "n1.example")}
	with := func(change func(h []Host)) []Host {
		h := []Host{good[0], good[1]}
		change(h)
		return h
	}
	for name, c := range map[string]struct {
		hosts, before []Host
		ok            bool
	}{
		"as asked":                 {good, nil, true},
		"none yet":                 {nil, nil, true},
		"still to come":            {with(func(h []Host) { h[0], h[1] = Host{Dir: "/d"}, Host{Dir: "/d"} }), nil, true},
		"named since":              {good, []Host{{}, {}}, true},
		"the same again":           {good, good, true},
		"too few":                  {good[:1], nil, false},
		"too many":                 {append(with(func([]Host) {}), host(2, "n2")), nil, false},
		"gone":                     {nil, good, false},
		"another index":            {with(func(h []Host) { h[1].Index = 0 }), nil, false},
		"a huge index":             {with(func(h []Host) { h[1].Index = 1 << 40 }), nil, false},
		"another name":             {with(func(h []Host) { h[1].Name = "n9" }), good, false},
		"one name twice":           {with(func(h []Host) { h[1].Name = "n0" }), nil, false},
		"a name with blanks":       {with(func(h []Host) { h[1].Name = "a b" }), nil, false},
		"a name like an option":    {with(func(h []Host) { h[1].Name = "-oProxyCommand=x" }), nil, false},
		"a relative directory":     {with(func(h []Host) { h[0].Dir = "d" }), nil, false},
		"a directory above":        {with(func(h []Host) { h[0].Dir = "/d/../e" }), nil, false},
		"a cache of two lines":     {with(func(h []Host) { h[0].Cache = "/c\nx" }), nil, false},
		"negative slots":           {with(func(h []Host) { h[0].Slots = -1 }), nil, false},
		"a placement":              {with(func(h []Host) { h[0].Placement = "cluster" }), nil, true},
		"a placement that is none": {with(func(h []Host) { h[0].Placement = "\x1b[2J" }), nil, false},
		"an address that is none":  {with(func(h []Host) { h[0].Addrs = []string{"x"} }), nil, false},
	} {
		if err := CheckHosts(c.hosts, 2, c.before); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCheckDeadline(t *testing.T) {
	at := time.Date(2026, 11, 26, 3, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		t, before time.Time
		ok        bool
	}{
		{at, time.Time{}, true},
		{time.Time{}, time.Time{}, true},
		{at, at, true},
		{at.Add(time.Hour), at, false},
		{time.Time{}, at, false},
		{time.Date(3000, 1, 1, 0, 0, 0, 0, time.UTC), time.Time{}, false},
	} {
		if err := CheckDeadline(c.t, c.before); (err == nil) != c.ok {
			t.Errorf("%v after %v: %v", c.t, c.before, err)
		}
	}
}

func TestNames(t *testing.T) {
	for name, ok := range map[string]bool{"jane": true, "_svc": true, "j.doe-2": true, "machine$": true, "": false, "Jane": false, "-l": false, "a b": false, "a\nProxyCommand x": false, "a;b": false} {
		if IsAccount(name) != ok {
			t.Errorf("account %q: %v", name, !ok)
		}
	}
	for name, ok := range map[string]bool{"n0": true, "login.example.org": true, "10.0.0.1": true, "[fe80::1%eth0]": true, "-oX=y": false, "a b": false, "a\nb": false, "": false} {
		if IsHost(name) != ok {
			t.Errorf("host %q: %v", name, !ok)
		}
	}
}
