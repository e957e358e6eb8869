package control

import (
	"errors"
	"io/fs"
	"strings"
)

// arriving is the name of an output on its way to a place that is taken already.
func arriving(run, name string) string { return ".bee-arriving-" + run + "-" + name }

// picked is the name of a directory from which some files are picked.
func picked(run string) string { return ".bee-fetch-" + run }

// clearArrivals removes the partial outputs of a run that gets no more of them. Another run
// may have the same `to:`. The caller has the run's lock.
func (c *Controller) clearArrivals(sub *Submission, run string) {
	for _, o := range sub.Job.Outputs {
		if err := clearArrivalsIn(sub, run, o.To); err != nil {
			c.Log.Warn("partial outputs could not be removed", "run", run, "from", o.To, "err", err)
		}
	}
}

func clearArrivalsIn(sub *Submission, run, to string) error {
	root, err := sub.confined().Open(to)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer root.Close()
	names, err := root.ReadDir(".")
	for _, name := range names {
		if strings.Contains(name, arriving(run, "")) || name == picked(run) {
			err = errors.Join(err, root.RemoveAll(name))
		}
	}
	return err
}
