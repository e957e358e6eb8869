package qemu

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"golang.org/x/sys/unix"
)

// trimClass gives the word for -machine of a class of QEMU's.
func trimClass(class string) string { return strings.TrimSuffix(class, "-machine") }

// stateName is what the descriptor for the state is called between us and QEMU.
const stateName = "state"

// SaveState writes memory and devices of a halted machine to w, as its
// migration does. It reads a pipe: QEMU learned to write files itself only
// with version 8.2. The machine stays halted, and can continue.
func (m *Monitor) SaveState(ctx context.Context, w io.Writer) error {
	r, theirs, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	err = m.do(ctx, "getfd", map[string]string{"fdname": stateName}, nil, theirs)
	theirs.Close()
	if err != nil {
		return err
	}
	// It is local: as fast as we read.
	if err := m.Do(ctx, "migrate-set-parameters", map[string]int64{"max-bandwidth": 1 << 40}, nil); err != nil {
		return err
	}
	if err := m.Do(ctx, "migrate", map[string]string{"uri": "fd:" + stateName}, nil); err != nil {
		if ctx.Err() != nil { // it may have begun
			r.Close()
			m.cancelMigration(ctx)
		}
		return err
	}
	copied := make(chan error, 1)
	go func() {
		_, err := io.Copy(w, r)
		if err != nil {
			r.Close() // QEMU shall not wait for a reader
		}
		copied <- err
	}()
	err = m.awaitMigration(ctx)
	if err != nil {
		r.Close() // else QEMU may wait for a reader
		m.cancelMigration(ctx)
		if werr := <-copied; werr != nil && !errors.Is(werr, os.ErrClosed) {
			err = werr // whose consequence the other is
		}
		return fmt.Errorf("save the machine's state: %w", err)
	}
	select {
	case err = <-copied:
	case <-ctx.Done():
		r.Close()
		core.BestEffort(<-copied) // it was cut short
		err = context.Cause(ctx)
	}
	return err
}

// LoadState gives a machine that was started with Restore its state. It stays
// halted.
func (m *Monitor) LoadState(ctx context.Context, r io.Reader) error {
	theirs, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer w.Close()
	err = m.do(ctx, "getfd", map[string]string{"fdname": stateName}, nil, theirs)
	theirs.Close()
	if err != nil {
		return err
	}
	if err := m.Do(ctx, "migrate-incoming", map[string]string{"uri": "fd:" + stateName}, nil); err != nil {
		return err
	}
	copied := make(chan error, 1)
	go func() {
		_, err := io.Copy(w, r)
		w.Close()
		copied <- err
	}()
	err = m.awaitMigration(ctx)
	w.Close()
	if cerr := <-copied; cerr != nil && !errors.Is(cerr, os.ErrClosed) && (err == nil || !errors.Is(cerr, unix.EPIPE)) {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("load the machine's state: %w", err)
	}
	return nil
}

// WithoutMemory has SaveState and LoadState leave the memory out, or not any
// more, where it is a file (see Machine.MemoryFile).
func (m *Monitor) WithoutMemory(ctx context.Context, on bool) error {
	return m.Do(ctx, "migrate-set-capabilities", map[string]any{"capabilities": []map[string]any{{"capability": "x-ignore-shared", "state": on}}}, nil)
}

// cancelTimeout bounds how long QEMU may take to give a migration up.
const cancelTimeout = 10 * time.Second

// cancelMigration has QEMU give a migration up, and returns once another may begin.
func (m *Monitor) cancelMigration(ctx context.Context) {
	rest, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelTimeout)
	defer cancel()
	core.BestEffort(m.Do(rest, "migrate_cancel", nil, nil)) // then it has ended, or hangs
	core.BestEffort(m.awaitMigration(rest))
}

// migrationPause is between two questions how far it is; nothing reports.
const migrationPause = 10 * time.Millisecond

func (m *Monitor) awaitMigration(ctx context.Context) error {
	for {
		var s struct {
			Status string `json:"status"`
			Error  string `json:"error-desc"`
		}
		if err := m.Do(ctx, "query-migrate", nil, &s); err != nil {
			return err
		}
		switch s.Status {
		case "completed":
			return nil
		case "failed", "cancelled":
			return fmt.Errorf("%s: %s", s.Status, s.Error)
		}
		select {
		case <-time.After(migrationPause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
