package slurm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/fsutil"
)

// startTimeout is how long the agents may take once their job runs. A queue
// that the node's disks or a prolog are in the way of may take long.
const startTimeout = 5 * time.Minute

// leaseQueue is Slurm's queue, in which a lease waits for the nodes of its job.
type leaseQueue struct{ l *lease }

// Ready implements driver.LeaseQueue. The nodes are there once the first agent has
// written down what was granted.
func (q leaseQueue) Ready(ctx context.Context) (driver.Waiting, error) {
	if err := q.l.away(); err != nil {
		return driver.Waiting{}, err
	}
	switch unused, missed, err := q.unused(); {
	case err != nil:
		return driver.Waiting{}, err
	case unused:
		return driver.Waiting{Missed: missed}, q.lost("")
	}
	if t, err := q.l.look(); err != nil {
		return driver.Waiting{}, err
	} else if t != nil {
		return q.ready(t), nil
	}
	if q.l.details.Job == "" {
		return driver.Waiting{}, q.lost("it was never submitted")
	}
	j, err := q.l.p.s.Queue.job(ctx, q.l.details.Job)
	if t, err := q.l.look(); err != nil {
		return driver.Waiting{}, err
	} else if t != nil { // it came in between, and may have gone
		return q.ready(t), nil
	}
	switch {
	case err != nil:
		return driver.Waiting{}, err
	case j.gone():
		return driver.Waiting{}, q.lost(j.ending())
	case j.queued() && j.hopeless():
		return driver.Waiting{}, q.lost(j.waiting())
	case j.queued():
		return driver.Waiting{Reason: "Slurm job " + j.id + ": " + j.waiting(), Expected: j.start}, nil
	case j.state == "CONFIGURING":
		return driver.Waiting{Reason: "Slurm job " + j.id + ": its nodes are being made ready"}, nil
	case j.still():
		return driver.Waiting{Reason: "Slurm job " + j.id + ": " + j.standing()}, nil
	}
	if requeued, err := q.l.requeued(ctx); err != nil {
		return driver.Waiting{}, err
	} else if requeued {
		return driver.Waiting{}, q.lost(wasRequeued)
	}
	// A little more than the first agent waits, which then says what it lacks.
	if timeout := startTimeout + time.Minute; q.l.details.Own && time.Since(j.start) > timeout ||
		!q.l.details.Own && time.Since(modified(filepath.Join(q.l.dir, detailsName))) > timeout {
		return driver.Waiting{}, q.lost(fmt.Sprintf("only %d of %d nodes have started bee: do they see %s?", len(q.l.announced()), q.l.details.Nodes, q.l.dir))
	}
	return driver.Waiting{Reason: "Slurm job " + j.id + ": its nodes are starting"}, nil
}

func (q leaseQueue) ready(t *terms) driver.Waiting {
	w := driver.Waiting{Ready: true}
	if q.l.details.Own { // an allocation of the user's was there before
		w.Since, w.Allocation = t.Since, q.l.details.Job
	}
	return w
}

// look reads what was granted, if it was not before.
func (l *lease) look() (*terms, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.terms != nil {
		return l.terms, nil
	}
	var t terms
	there, err := readIfThere(filepath.Join(l.dir, grantedName), &t)
	if there {
		l.terms = &t
	}
	return l.terms, err
}

// lost says that the job will not do, with the verdict of its agents, else the
// end of what it wrote.
func (q leaseQueue) lost(why string) error {
	words := q.l.words(why)
	if printed := lastOf(filepath.Join(q.l.dir, logName)); printed != "" && !q.judged() {
		words += "; it printed: " + printed
	}
	return &core.Error{Kind: core.Lost, Op: "use site", Object: q.l.p.s.Name, Err: errors.New(words), Remedy: core.RemedyShow}
}

// How much is read of what a job or its agents wrote, in bytes.
const (
	longestOutput  = 1000
	longestVerdict = 16 << 10
)

// lastOf is the end of what is in a log, which a job may have made as long as it likes.
func lastOf(log string) string {
	raw, err := fsutil.Tail(filepath.Dir(log), filepath.Base(log), longestOutput)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(core.Printable(string(raw), 10*longestOutput))
}

// words report what became of the job: its agents' verdict, where they have left
// one, else what Slurm says.
func (l *lease) words(slurm string) string {
	if raw, err := fsutil.ReadFile(l.dir, verdictName, longestVerdict); err == nil {
		slurm = core.Printable(string(raw), longestVerdict)
	}
	if l.details.Job == "" {
		return slurm
	}
	return "Slurm job " + l.details.Job + ": " + slurm
}

// unused means that the agents have released the nodes before anything was
// started on them; missed, that nobody came to use them.
func (q leaseQueue) unused() (unused, missed bool, err error) {
	judged, err := fsutil.Exists(filepath.Join(q.l.dir, verdictName))
	if err != nil || !judged {
		return false, false, err
	}
	started, err := fsutil.Exists(filepath.Join(q.l.dir, startedName))
	if err != nil || started {
		return false, false, err
	}
	missed, err = fsutil.Exists(filepath.Join(q.l.dir, missedName))
	return true, missed, err
}

// judged reports whether the agents have left a verdict, for words alone.
func (q leaseQueue) judged() bool {
	there, err := fsutil.Exists(filepath.Join(q.l.dir, verdictName))
	return there && err == nil
}

func modified(path string) time.Time {
	info, err := os.Stat(path)
	if err != nil {
		return time.Now()
	}
	return info.ModTime()
}

// announced gives what the agents of this job have reported of themselves, in
// order, as far as there is no gap.
func (l *lease) announced() []announcement {
	return announced(l.dir, l.details.Nodes, func(a announcement) bool {
		return a.Job == l.details.Job && (l.details.Restarts == "" || cmp.Or(a.Restart, "0") == l.details.Restarts)
	})
}

func announced(dir string, n int, ours func(announcement) bool) []announcement {
	var list []announcement
	for i := range n {
		var a announcement
		if readJSON(announcementPath(dir, i), &a) != nil || !ours(a) {
			break
		}
		list = append(list, a)
	}
	return list
}
