package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// The array of the step of that name.
const (
	shortCases = 1000
	casesPack  = 100
	casesAim   = 30 * time.Second // on two cores
)

// cases times an array of short cases in packs, on two emulated hosts, and counts its leases.
func (b *bench) cases(int) error {
	err := b.write("pair.yaml", "sites: [{name: pair, provider: local, hosts: 2}]\n")
	if err == nil {
		err = b.write("short.yaml", fmt.Sprintf("name: short\nimage: docker-archive:busybox.tar\narray: {cases: {n: {from: 1, to: %d}}, pack: %d}\nrun: 'true'\n", shortCases, casesPack))
	}
	if err != nil {
		return err
	}
	begun := time.Now()
	if _, err := b.do(b.bee, "--sites", "pair.yaml", "run", "-q", "-d", "short.yaml"); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() {
		_, err := b.do(b.bee, "wait", "short")
		ended <- err
	}()
	used := map[int]time.Duration{} // by its controllers, until they have ended
	for over := false; !over; {
		pids, _ := b.controllers() // none, before and after
		for _, pid := range pids {
			if took, err := processorTime([]int{pid}); err == nil {
				used[pid] = took
			}
		}
		select {
		case err := <-ended:
			if err != nil {
				return err
			}
			over = true
		case <-time.After(100 * time.Millisecond):
		}
	}
	took := time.Since(begun)
	leases, packs, err := b.leases("short")
	if err != nil {
		return err
	}
	var processor time.Duration
	for _, took := range used {
		processor += took
	}
	if processor == 0 {
		return errors.New("no controller of the array was seen")
	}
	what := fmt.Sprintf("an array of %d cases of `true`, `pack: %d`, on two emulated hosts", shortCases, casesPack)
	b.row(what, took, "the aim", casesAim)
	b.rows = append(b.rows,
		[4]string{"leases of it", fmt.Sprint(leases), fmt.Sprintf("packs %d", packs), "–"},
		[4]string{"processor of its controller", fmt.Sprintf("%.2f cores", processor.Seconds()/took.Seconds()), "1 core", "–"})
	return nil
}

// leases counts those that an array had, and its packs.
func (b *bench) leases(array string) (leases, packs int, err error) {
	out, err := b.do(b.bee, "ps", "-a", "--json", array)
	if err != nil {
		return 0, 0, err
	}
	var list []struct{ State, Pack string }
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		return 0, 0, err
	}
	seen := map[string]bool{}
	for _, r := range list {
		if r.State != "succeeded" || r.Pack == "" {
			return 0, 0, fmt.Errorf("a case is %s, of pack %q", r.State, r.Pack)
		}
		seen[r.Pack] = true
	}
	for pack := range seen {
		out, err := b.do(b.bee, "show", "--json", pack)
		if err != nil {
			return 0, 0, err
		}
		var v struct{ Attempts []struct{ Hosts []string } }
		if err := json.Unmarshal([]byte(out), &v); err != nil {
			return 0, 0, err
		}
		for _, a := range v.Attempts {
			if len(a.Hosts) > 0 { // else the site had no room
				leases++
			}
		}
	}
	if len(list) != shortCases {
		err = fmt.Errorf("%d cases are on record", len(list))
	}
	return leases, len(seen), err
}
