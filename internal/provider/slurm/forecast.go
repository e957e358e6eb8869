package slurm

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/driver"
)

// Forecast implements driver.SiteQueue: Slurm reports when it would start such a
// job, as its queue is now.
func (p *provider) Forecast(ctx context.Context, r driver.Request) (driver.Waiting, error) {
	leave, err := p.s.Queue.enter(ctx)
	if err != nil {
		return driver.Waiting{}, err
	}
	defer leave()
	if err := p.fits(ctx, r); err != nil {
		return driver.Waiting{}, err
	}
	if p.s.Job != "" {
		return driver.Waiting{Expected: time.Now()}, nil
	}
	asked := time.Now()
	out, words, err := run(ctx, "sbatch", append(p.options("/tmp", r), "--test-only", "--wrap=true")...)
	if err != nil {
		p.s.Queue.outdate(asked)
		return driver.Waiting{}, err
	}
	return p.late(ctx, parseForecast(out+words)), nil
}

// parseForecast reads "sbatch: Job 3 to start at 1763711000 using 4 processors
// on nodes h[1-2] in partition main".
func parseForecast(out string) time.Time {
	_, after, ok := strings.Cut(out, " to start at ")
	if !ok {
		return time.Time{}
	}
	when, _, _ := strings.Cut(after, " ")
	return parseTime(when)
}

// late says why a job that Slurm would start at some time would not start at once. What
// an account or QOS allows in all its jobs Slurm does not look at in forecasts: there the
// user's jobs show that wait for it already, and nobody knows until when.
func (p *provider) late(ctx context.Context, at time.Time) driver.Waiting {
	if j := p.limited(ctx); j != nil {
		return driver.Waiting{Reason: "Slurm job " + j.id + " of yours waits there already: " + j.waiting()}
	}
	w := driver.Waiting{Expected: at}
	if time.Until(at) < time.Minute {
		return w
	}
	w.Reason = "its nodes are taken until then, or promised to jobs that come first"
	out, err := p.s.Queue.cachedCall(ctx, settled, "scontrol", "--oneliner", "show", "reservation")
	if err != nil {
		return w
	}
	for _, r := range parseReservations(out) {
		if words := r.delays(at, cmp.Or(p.option("--reservation"), p.s.Reservation)); words != "" {
			w.Reason = words
		}
	}
	return w
}

// limited gives a job of the user's, among those that the site's would be like, that waits
// for a limit of its account or QOS.
func (p *provider) limited(ctx context.Context) *job {
	filter := []string{"--user=" + strconv.Itoa(os.Getuid())}
	for _, like := range []struct{ option, value string }{
		{"--account", p.s.Account}, {"--qos", p.s.QOS}, {"--partition", p.s.Partition},
	} {
		if value := cmp.Or(p.option(like.option), like.value); value != "" {
			filter = append(filter, like.option+"="+value)
		}
	}
	list, err := jobs(ctx, filter...)
	if err != nil {
		return nil // the forecast is printed without
	}
	for _, j := range list {
		if j.queued() && j.limited() {
			return &j
		}
	}
	return nil
}

// reservation is one of nodes, as scontrol reports it.
type reservation struct {
	name, flags string
	start, end  time.Time
}

func parseReservations(out string) (list []reservation) {
	for line := range strings.Lines(out) {
		set := pairs(strings.Fields(line))
		if set["ReservationName"] != "" {
			list = append(list, reservation{set["ReservationName"], set["Flags"], parseTime(set["StartTime"]), parseTime(set["EndTime"])})
		}
	}
	return list
}

// reckons is how exactly Slurm reckons when a job starts.
const reckons = 2 * time.Minute

// delays says that a job starts at some time as the reservation is over then, or begins
// where it is the job's own; "": that is not why.
func (r reservation) delays(at time.Time, own string) string {
	near := func(t time.Time) bool { return !t.IsZero() && at.Sub(t) > -reckons && at.Sub(t) < reckons }
	what := "reservation " + r.name
	if strings.Contains(r.flags, "MAINT") {
		what = "maintenance (" + what + ")"
	}
	switch {
	case r.name == own && near(r.start):
		return "its " + what + " begins then"
	case r.name == own || !near(r.end):
		return ""
	case r.start.After(time.Now()):
		return fmt.Sprintf("%s begins at %s, before the job could end, and is over then: a shorter `time`, or a `min_slot`, may let it start before", what, r.start.Local().Format("2006-01-02 15:04"))
	}
	return what + " is over then"
}
