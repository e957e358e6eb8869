package main

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// line is a network whose parts are easy to compute with: 20 and 5 MB/s.
func line() network {
	return network{nic: 20e6, up: 5e6, down: 5e6, stream: 5e6, roundTrip: 40 * time.Millisecond, request: 160 * time.Millisecond}
}

func never() error { return nil }

// TestPredictions compares the simulator's predictions with closed forms.
func TestPredictions(t *testing.T) {
	const file, all = 4 << 20, 64 << 20
	same := scenario{clients: 4, file: file, bursts: 1, depth: 4, room: 1 << 30, streams: 2, upstream: 1}
	write, cold, narrow := same, same, same
	write.write, cold.read = all, all
	narrow.write, narrow.room = all, all/2
	for _, c := range []struct {
		name          string
		of            scenario
		rate, drained float64
		slack         float64
	}{
		{"a burst that fits", write, 20e6, all/5e6 + 0.2*all/file + 0.84, 0.05}, // the drain begins with the first files
		{"a cold read", cold, 5e6, all / 5e6, 0.12},
		{"a burst twice as large as the buffer", narrow, all / ((all - 0.95*all/2) / (file / (0.2 + file/5e6))), all/5e6 + 0.2*all/file, 0.15},
	} {
		got, err := c.of.predict(line(), never)
		if err != nil {
			t.Fatal(err)
		}
		if math.Abs(got.rate-c.rate) > c.slack*c.rate || math.Abs(got.drained-c.drained) > c.slack*c.drained {
			t.Errorf("%s: %+v instead of %g bytes/s, drained after %g s", c.name, got, c.rate, c.drained)
		}
		ended := all / got.rate
		if cost := (4*ended + got.drained) * price / 3600; math.Abs(got.cost-cost) > 0.01*cost {
			t.Errorf("%s: it costs %g instead of %g", c.name, got.cost, cost)
		}
	}
	if _, err := (scenario{clients: 1, file: file, bursts: 1, depth: 1, room: piece, streams: 1, write: all}).predict(line(), never); err == nil {
		t.Error("a buffer for one file is predicted")
	}
}

// TestScenariosAreMeasuredAsTheyArePredicted: prediction and plan are of the same bytes, and a measurement that is
// exactly as predicted has no error.
func TestScenariosAreMeasuredAsTheyArePredicted(t *testing.T) {
	m := &measurement{sizes: sizes{burst: 64 << 20}}
	for _, n := range []int{2, clients} {
		write, cold, mixed := m.scenario(n)
		for _, s := range []scenario{write, cold, mixed} {
			read, written := 0, 0
			p := s.plan("x")
			for _, f := range p.Phases {
				read, written = read+len(f.Read), written+len(f.Write)
			}
			if int64(read)*p.Size != s.read || int64(written)*p.Size != s.write*int64(s.bursts) || p.Clients != n {
				t.Errorf("%s: the plan has %d reads and %d writes", s.name, read, written)
			}
			want, err := s.predict(line(), never)
			if err != nil {
				t.Fatal(err)
			}
			begun := time.Unix(1000, 0)
			bytes := float64(s.read + int64(s.bursts)*s.write)
			waited := time.Duration(bytes / want.rate * float64(time.Second))
			got := s.measured(done{begun: begun, waited: waited, ended: begun.Add(waited + time.Duration(s.bursts-1)*s.every), drained: begun.Add(time.Duration(want.drained*float64(time.Second)) - s.every)})
			for _, r := range s.rows(got, want) {
				if r.Ratio != "+0.0 %" && r.Ratio != "-0.0 %" {
					t.Errorf("%+v", r)
				}
			}
			got.rate /= 2
			if r := s.rows(got, want); r[0].Ratio != "+100.0 %" {
				t.Errorf("twice as fast as measured: %+v", r[0])
			}
		}
	}
}

func TestBeside(t *testing.T) {
	m := line()
	m.up = smallFile * 100 // 10 ms
	if got := beside(250*time.Millisecond, m); got != 200*time.Millisecond {
		t.Errorf("%s", got)
	}
	if got := beside(time.Millisecond, m); got != 0 {
		t.Errorf("less than nothing: %s", got)
	}
}

// TestSummary adds phases up: each lasts until its last client has ended.
func TestSummary(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	d := summary(plan{At: at(0), Phases: make([]phase, 2)}, [][]span{{{at(0), at(3)}, {at(10), at(11)}}, {{at(0), at(5)}, {at(10), at(14)}}})
	if d.begun != at(0) || d.ended != at(14) || d.waited != 9*time.Second {
		t.Errorf("%+v", d)
	}
}

func TestPhases(t *testing.T) {
	const two = `{"attempts":[{"site":"one","phases":{"acquire":9,"run":50,"drain":0.5,"checkpoint":1,"release":0.25}},{"site":"two","phases":{"acquire":0.25,"launch":1,"start":0.5,"run":9,"release":9}}]}`
	if left, begun, err := phases([]byte(two)); left != 1750*time.Millisecond || begun != 1750*time.Millisecond || err != nil {
		t.Errorf("%s, %s, %v", left, begun, err)
	}
	for _, bad := range []string{`{"attempts":[{"site":"one"}]}`, `{"attempts":[{"site":"one"},{"site":"one"}]}`, ``} {
		if left, begun, err := phases([]byte(bad)); err == nil {
			t.Errorf("%s: %s, %s", bad, left, begun)
		}
	}
}

func TestIperfReports(t *testing.T) {
	if v, err := received([]byte(`{"end":{"sum_sent":{"bits_per_second":9},"sum_received":{"bits_per_second":1.6e8}}}`)); v != 2e7 || err != nil {
		t.Errorf("%v, %v", v, err)
	}
	for _, bad := range []string{`{"error":"unable to connect"}`, `{"end":{}}`, `nothing`} {
		if v, err := received([]byte(bad)); err == nil {
			t.Errorf("%s is read as %v", bad, v)
		}
	}
}

// writePlan writes a plan as the hosts read it.
func writePlan(t *testing.T, dir string, p plan) string {
	t.Helper()
	f, err := os.CreateTemp(dir, "*.json")
	if err == nil {
		defer f.Close()
		err = json.NewEncoder(f).Encode(p)
	}
	if err != nil {
		t.Fatal(err)
	}
	return f.Name()
}

// TestWork has two clients carry a plan out in a directory: each file once, and no phase before the one ahead is over.
func TestWork(t *testing.T) {
	dir := t.TempDir()
	in := func(names []string) (all []string) {
		for _, n := range names {
			all = append(all, filepath.Join(dir, filepath.Base(n)))
		}
		return all
	}
	first, second := in(files("a", 5)), in(files("b", 3))
	p := plan{Clients: 2, At: time.Now().Add(time.Second), Every: 50 * time.Millisecond, Depth: 2, Size: 3 << 20 / 2, Phases: []phase{{Write: first}, {Read: first, Write: second}}}
	name := writePlan(t, dir, p)
	var all [2][]span
	errs := make(chan error, 2)
	for i := range all {
		go func() {
			var err error
			all[i], err = work(t.Context(), name, i)
			errs <- err
		}()
	}
	for range all {
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
	}
	for i := range all {
		if len(all[i]) != 2 || all[i][1].Begun != all[1-i][1].Begun || all[i][1].Begun.Before(all[1-i][0].Ended) {
			t.Errorf("client %d: %+v, the other one %+v", i, all[i], all[1-i])
		}
	}
	j := &job{far: dir}
	if _, err := j.drained(t.Context(), []string{"/work/a-000", "/work/a-004", "/work/b-002"}, p.Size); err != nil {
		t.Error(err)
	}
	p.At, p.Size, p.Phases = time.Now(), 1, p.Phases[1:]
	if _, err := work(t.Context(), writePlan(t, dir, p), 0); err == nil || !strings.Contains(err.Error(), "instead of") {
		t.Errorf("a file of another size: %v", err)
	}
}

func TestManyFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "many")
	if r, err := manyFiles(dir, 20, time.Minute); err != nil || r.Create <= 0 || r.Stat <= 0 || r.Remove <= 0 {
		t.Errorf("%+v, %v", r, err)
	}
	if n, _, err := bounded(1000, 0, func(int) error { return nil }); err != nil || n != 1 {
		t.Errorf("%d in no time, %v", n, err)
	}
	if err := smallFiles(dir, 3); err != nil {
		t.Fatal(err)
	}
	if rate, err := readAll(filepath.Join(dir, "many"), 3, time.Minute); err != nil || rate <= 0 {
		t.Errorf("%g, %v", rate, err)
	}
}
