package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

var up = regexp.MustCompile(`virtual machine up after ([0-9.a-zµ]+) \((kernel|from a template)`)

// ownStart is how long one of bee's guests took until docker answered in it, as
// bee itself reports, and whether it was booted.
func (g guestBench) ownStart(memory int) (took time.Duration, booted bool, err error) {
	if err := g.guests(1, memory); err != nil {
		return 0, false, err
	}
	text, err := g.b.do(g.b.bee, "run", "guests.yaml")
	if err != nil {
		return 0, false, err
	}
	found := up.FindStringSubmatch(text)
	if found == nil {
		return 0, false, fmt.Errorf("bee did not tell how long the machine took:\n%s", text)
	}
	took, err = time.ParseDuration(found[1])
	return took, found[2] == "kernel", err
}

// guests writes a job of some guests on this host, with so many MiB each.
func (g guestBench) guests(count, memory int) error {
	return g.b.write("guests.yaml", fmt.Sprintf("name: nothing\nimage: docker-archive:busybox.tar\nnodes: %d\nvm: {per_host: %d, cpus: 2, memory: %dM}\nrun: [\"true\"]\n", count, count, memory))
}

// newSize is a size of memory, in MiB, of which there is hardly a template yet:
// guests of it are booted once, and then come from one.
func newSize(base int) int { return base - 2*rand.IntN(base/8) }

// coldStart is how long a guest takes that is booted.
func (g guestBench) coldStart() (time.Duration, error) {
	for {
		took, booted, err := g.ownStart(newSize(2048))
		if err != nil || booted {
			return took, err
		}
	}
}

// template compares guests that come from a template with those that boot.
func (g guestBench) template(rounds int) error {
	rounds = max(rounds/6, 3)
	size := newSize(2048)
	var booted, templated []time.Duration
	for i := range rounds + 2 {
		took, err := g.coldStart()
		if err != nil {
			return err
		}
		booted = append(booted, took)
		took, _, err = g.ownStart(size)
		if err != nil {
			return err
		}
		if i > 1 { // the first one boots, the second makes the template
			templated = append(templated, took)
		}
	}
	g.b.row("start of a virtual machine from its template until docker answers", middle(templated), "booting it", middle(booted[1:]))
	return nil
}

// eight compares eight guests on this host with one, end to end: booted, and
// from a template.
func (g guestBench) eight(rounds int) error {
	const count = 8
	rounds = max(rounds/10, 1)
	var took [2][2][]time.Duration // by number of guests, and how they start
	var idle [2][]float64          // with all of them: parts of the processors' time
	for range rounds {
		for i, guests := range []int{1, count} {
			size := newSize(1024)
			for turn := range 3 { // booted; making the template; from it
				if err := g.guests(guests, size); err != nil {
					return err
				}
				before, err := processors()
				if err != nil {
					return err
				}
				is, err := g.b.once(g.b.bee, "run", "-q", "guests.yaml")
				if err != nil {
					return err
				}
				after, err := processors()
				if err != nil {
					return err
				}
				if turn == 1 {
					continue
				}
				took[i][turn/2] = append(took[i][turn/2], is)
				if guests == count {
					idle[turn/2] = append(idle[turn/2], (after.idle-before.idle)/(after.all-before.all))
				}
			}
		}
	}
	for how, name := range []string{"for the first time", "from a template"} {
		g.b.row(fmt.Sprintf("`bee run` of `true` in %d virtual machines of one host, %s", count, name), middle(took[1][how]), "one machine", middle(took[0][how]))
		slices.Sort(idle[how])
		g.b.rows = append(g.b.rows, [4]string{"the same: part of the processors' time that was idle", fmt.Sprintf("%.3f", idle[how][len(idle[how])/2]), "–", "–"})
	}
	return nil
}

// usage is what this machine's processors have done since it was booted, in ticks.
type usage struct{ idle, all float64 }

// processors reads the first line of /proc/stat (proc(5)).
func processors() (u usage, err error) {
	raw, err := os.ReadFile("/proc/stat")
	if err != nil {
		return u, err
	}
	line, _, _ := strings.Cut(string(raw), "\n")
	const idle, waiting, guests = 3, 4, 8 // what guests take is also counted before
	for i, word := range strings.Fields(line)[1:] {
		ticks, err := strconv.ParseFloat(word, 64)
		if err != nil || i >= guests {
			return u, err
		}
		u.all += ticks
		if i == idle || i == waiting {
			u.idle += ticks
		}
	}
	return u, nil
}
