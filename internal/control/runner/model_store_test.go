package runner

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	dirstore "github.com/bee-hpc/bee/internal/store/dir"
)

// The store of a run's checkpoints that is not at home.

// place opens it.
func (m *model) place(string) (driver.Store, error) {
	return modelPlace{dirstore.Store(m.far), m}, nil
}

// modelPlace is a directory that may be out of reach for a while, or fail.
type modelPlace struct {
	dirstore.Store
	m *model
}

func (p modelPlace) Run(name string) driver.Checkpoints {
	return modelStore{dirstore.Stepped{Checkpoints: dirstore.Checkpoints(filepath.Join(string(p.Store), name)), Between: p.m.step}, p.m}
}

// Mark implements driver.SharedDirectory.
func (p modelPlace) Mark(ctx context.Context, name string) error {
	if err := p.m.storeWay("mark"); err != nil {
		return err
	}
	return p.Store.Mark(ctx, name)
}

// SharedDirectory implements driver.Store.
func (p modelPlace) SharedDirectory() driver.SharedDirectory { return p }

type modelStore struct {
	dirstore.Stepped
	m *model
}

// storeWay fails where nothing gets through to the store.
func (m *model) storeWay(what string) error {
	m.step()
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.calm:
		return nil
	case time.Now().Before(m.farTo):
	case m.aways < mostFulls && m.once("store.away", 150):
		m.aways++
		m.farTo = time.Now().Add([]time.Duration{30 * time.Second, 3 * time.Minute, time.Hour, 10 * time.Hour}[m.of("store.for", 4)])
		m.say("the store cannot be reached until %s", m.farTo.Format("02 15:04:05"))
	case m.once("store", 60):
		return m.passing(what + " in the store")
	default:
		return nil
	}
	return &core.Error{Kind: core.Transient, Op: what, Err: errors.New("the store does not answer")}
}

func (s modelStore) List(ctx context.Context) ([]driver.Checkpoint, error) {
	if err := s.m.storeWay("list"); err != nil {
		return nil, err
	}
	return s.Stepped.List(ctx)
}

func (s modelStore) Keep(ctx context.Context, g driver.Generation, site string, from driver.Source) (driver.Manifest, bool, error) {
	if err := s.m.storeWay("keep"); err != nil {
		return driver.Manifest{}, false, err
	}
	return s.Stepped.Keep(ctx, g, site, from)
}

func (s modelStore) Restore(ctx context.Context, k driver.Checkpoint, to driver.Sink) error {
	if err := s.m.storeWay("restore"); err != nil {
		return err
	}
	return s.Stepped.Restore(ctx, k, to)
}

func (s modelStore) Note(ctx context.Context, record []byte) error {
	if err := s.m.storeWay("note"); err != nil {
		return err
	}
	return s.Stepped.Note(ctx, record)
}

func (s modelStore) Noted(ctx context.Context) ([]byte, error) {
	if err := s.m.storeWay("read"); err != nil {
		return nil, err
	}
	return s.Stepped.Noted(ctx)
}
