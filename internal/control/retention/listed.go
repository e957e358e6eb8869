package retention

import (
	"context"
	"encoding/json"
	"path/filepath"
	"time"

	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/fsutil"
)

// Checkpoint is one of a run, for people.
type Checkpoint struct {
	Attempt int       `json:"attempt"`
	Site    string    `json:"site"`
	Taken   time.Time `json:"taken"`
	// Seconds is how long it took to bring it there.
	Seconds float64 `json:"seconds"`
	Files   int     `json:"files"`
	Bytes   int64   `json:"bytes"`
	// Path is where it lies: a directory, or as `store:` says.
	Path string `json:"path"`
}

// mostListed bounds the note of what a store has, in bytes.
const mostListed = 64 << 20

// Describe returns a checkpoint for people.
func Describe(k driver.Checkpoint) Checkpoint {
	m := k.Manifest
	return Checkpoint{m.Attempt, m.Site, m.Taken, m.Took.Seconds(), len(m.Files), m.Bytes, k.Place}
}

func forPeople(list []driver.Checkpoint) []Checkpoint {
	var out []Checkpoint
	for _, k := range list {
		out = append(out, Describe(k))
	}
	return out
}

// Remember notes on the submitting machine what a store has, so that listing it needs no
// connection.
func (c *Checkpoints) Remember(list []driver.Checkpoint) error {
	raw, err := json.Marshal(forPeople(list))
	if err != nil {
		return err
	}
	return fsutil.WriteFile(filepath.Join(c.State.RunDir(c.run.ID), keptName), raw, 0o600)
}

// Listed lists the checkpoints that a run has, oldest first: what its store had when
// it was asked last.
func (p Places) Listed(ctx context.Context, run string) ([]Checkpoint, error) {
	var out []Checkpoint
	raw, err := fsutil.ReadFile(p.State.RunDir(run), keptName, mostListed)
	if err == nil {
		return out, json.Unmarshal(raw, &out)
	}
	list, err := p.OpenDir(p.Dir(run)).List(ctx)
	return forPeople(list), err
}
