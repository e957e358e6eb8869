// Package energy meters what the processors of this host use, by the counters of the kernel
// (Linux, Documentation/power/powercap). A counter is of a whole processor: programs of others
// use part of it. The package knows no job, and changes nothing.
package energy

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/core"
)

// Counters is the directory with the counters of this host.
const Counters = "/sys/class/powercap"

// A counter continues at 0 after its most, some minutes apart under load. It is read so often
// that no processor of less than mostWatts passes it twice.
const (
	interval  = 15 * time.Second
	mostWatts = 1000
)

// Remedies where energy is not known.
const (
	remedyNone   = "Measure on a machine of Intel or AMD, not in a virtual one, with the kernel's module intel_rapl_msr."
	remedyDenied = "Run `chmod a+r " + Counters + "/intel-rapl:*/energy_uj` there as root, or run bee as root."
	remedyAgain  = "Measure again."
)

// A counter is the energy that a processor has used, in microjoules.
type counter struct{ used, most float64 }

// Meter adds up what the processors use, from Start to Stop.
type Meter struct {
	dir   string
	last  map[string]counter
	at    time.Time
	used  float64 // microjoules
	err   error
	stop  chan struct{}
	ended chan struct{}
}

// Start begins to meter by the counters in a directory.
func Start(dir string) *Meter {
	m := &Meter{dir: dir, at: time.Now(), stop: make(chan struct{}), ended: make(chan struct{})}
	m.last, m.err = read(dir)
	go m.watch()
	return m
}

func (m *Meter) watch() {
	defer close(m.ended)
	if m.err != nil {
		return
	}
	each := time.NewTicker(interval)
	defer each.Stop()
	for {
		select {
		case <-m.stop:
			m.add(time.Now())
			return
		case now := <-each.C:
			m.add(now)
		}
	}
}

// Stop returns what was used since Start. It is called once.
func (m *Meter) Stop() core.Energy {
	close(m.stop)
	<-m.ended
	if m.err == nil && m.used == 0 {
		m.err = &core.Error{Kind: core.Unsupported, Err: errors.New("the counters of energy do not count"), Remedy: remedyNone}
	}
	if m.err != nil {
		return core.Energy{Unknown: m.err.Error(), Remedy: core.Remedy(m.err)}
	}
	return core.Energy{Joules: m.used / 1e6}
}

// add adds what was used since the counters were last read.
func (m *Meter) add(now time.Time) {
	if m.err != nil {
		return
	}
	counters, err := read(m.dir)
	if err != nil {
		m.err = err
		return
	}
	if len(counters) != len(m.last) {
		m.err = again("the host had counters of energy of %d processors, and then of %d", len(m.last), len(counters))
		return
	}
	since := now.Sub(m.at)
	for zone, c := range counters {
		before, is := m.last[zone]
		switch used := c.used - before.used; {
		case !is:
			m.err = again("the counter of energy %s was not there before", zone)
		case since.Seconds()*mostWatts*1e6 >= c.most:
			m.err = again("the counters of energy were not read for %s, in which they may continue at 0 more than once", since.Round(time.Second))
		case used < 0:
			m.used += used + c.most
		default:
			m.used += used
		}
	}
	m.last, m.at = counters, now
}

func again(format string, args ...any) error {
	return &core.Error{Kind: core.Transient, Err: fmt.Errorf(format, args...), Remedy: remedyAgain}
}

// read returns the counters of whole processors by their zones. Zones below those are parts
// of a processor, and that of a platform (psys) includes the processors.
func read(dir string) (map[string]counter, error) {
	zones, err := filepath.Glob(filepath.Join(dir, "intel-rapl:*"))
	if err != nil {
		return nil, err
	}
	all := map[string]counter{}
	for _, zone := range zones {
		name := filepath.Base(zone)
		if strings.Count(name, ":") != 1 {
			continue
		}
		kind, err := text(filepath.Join(zone, "name"))
		if err != nil {
			return nil, err
		}
		if !strings.HasPrefix(kind, "package-") {
			continue
		}
		used, err := number(filepath.Join(zone, "energy_uj"))
		if err != nil {
			return nil, err
		}
		most, err := number(filepath.Join(zone, "max_energy_range_uj"))
		if err != nil {
			return nil, err
		}
		if used > most {
			return nil, &core.Error{Kind: core.Unsupported, Err: fmt.Errorf("the counter of energy %s is %.0f, expected %.0f at most", name, used, most), Remedy: remedyNone}
		}
		all[name] = counter{used, most}
	}
	if len(all) == 0 {
		return nil, &core.Error{Kind: core.Unsupported, Err: errors.New("the host has no counters of its processors' energy"), Remedy: remedyNone}
	}
	return all, nil
}

// text is a file of the kernel.
func text(file string) (string, error) {
	raw, err := os.ReadFile(file)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return "", &core.Error{Kind: core.Unsupported, Err: errors.New("this user may not read the counters of energy"), Remedy: remedyDenied}
	case err != nil:
		return "", again("read the counters of energy: %w", err)
	}
	return strings.TrimSpace(string(raw)), nil
}

func number(file string) (float64, error) {
	word, err := text(file)
	if err != nil {
		return 0, err
	}
	v, err := strconv.ParseUint(word, 10, 64)
	if err != nil {
		return 0, &core.Error{Kind: core.Unsupported, Err: fmt.Errorf("the counter of energy %s is %q, expected a number", filepath.Base(filepath.Dir(file)), core.Printable(word, 40)), Remedy: remedyNone}
	}
	return float64(v), nil
}
