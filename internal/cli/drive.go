package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/logfile"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/spf13/cobra"
)

// newDriveCommand is the background controller of runs, whose names were left for it.
// There is one for all runs of a state directory that were submitted in the same
// environment, known by a key; this command becomes it, or sees that one takes them.
func (a *app) newDriveCommand() *cobra.Command {
	return &cobra.Command{
		Use: "drive KEY RUN...", Hidden: true, Args: cobra.MinimumNArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			// Standard error itself, where only a crash is written, has no bound.
			log, err := logfile.Open(controllersLog(a.stateDir))
			if err != nil {
				return err
			}
			defer log.Close()
			defer func(was io.Writer) { a.stderr = was }(a.stderr)
			a.stderr = log
			s, err := a.openQuietly(c.Context())
			if err != nil {
				return err
			}
			defer s.close()
			return s.carryOrHandOver(c.Context(), args[0], args[1:])
		},
	}
}

// How often it is looked whether runs were taken, at first and later: many who wait
// must not take a busy carrier's processors. takeLook is how often it looks for some.
const (
	handOverLook  = 20 * time.Millisecond
	laterHandOver = time.Second
	takeLook      = 200 * time.Millisecond
)

// carryOrHandOver waits until the carrier of an environment has taken runs whose names
// were left for it, and becomes the carrier when there is none. The runs' own locks see
// to it that each has one controller, whatever happens here.
func (s *session) carryOrHandOver(ctx context.Context, key string, ids []string) error {
	box := s.Store.Carrier(key)
	for wait := handOverLook; ; {
		lock, err := s.Store.LockCarrier(key)
		switch {
		case core.IsKind(err, core.Busy):
			if names, err := namesLeft(box); err != nil || !slices.ContainsFunc(ids, func(id string) bool { return slices.Contains(names, id) }) {
				return err
			}
			if err := pause(ctx, wait); err != nil {
				return err
			}
			wait = min(2*wait, laterHandOver)
			continue
		case err != nil:
			return err
		}
		mark := s.beginMark(ctx)
		err = newCarrier(s, box, mark).serve(ctx)
		mark.close()
		lock.Unlock() //nolint:errcheck // the process ends here anyway
		// Whoever left a name just now waits for the lock, and may have ended
		// since: it is looked once more.
		if names, nerr := namesLeft(box); err != nil || nerr != nil || len(names) == 0 {
			// Should another take the lock of a file that has no name any more,
			// there are two carriers: the runs' locks tell them apart. A
			// directory with a name in it stays.
			os.Remove(filepath.Join(box, state.CarrierLock)) //nolint:errcheck // it does no harm
			os.Remove(box)                                   //nolint:errcheck // see above
			return errors.Join(err, nerr)
		}
	}
}

// handedOver tells whether a run was left for a carrier, that is there to take it.
func (s *session) handedOver(id string) bool {
	return slices.ContainsFunc(s.Store.Carriers(), func(box string) bool {
		_, err := os.Lstat(filepath.Join(box, id))
		return err == nil
	})
}

// leaveNames leaves the names of runs where the carrier finds them.
func leaveNames(box string, ids []string) error {
	if err := os.MkdirAll(box, 0o700); err != nil {
		return fmt.Errorf("hand runs over: %w", err)
	}
	for _, id := range ids {
		err := os.WriteFile(filepath.Join(box, id), nil, 0o600)
		if errors.Is(err, fs.ErrNotExist) { // a carrier that has just ended removed the directory
			err = errors.Join(os.MkdirAll(box, 0o700), os.WriteFile(filepath.Join(box, id), nil, 0o600))
		}
		if err != nil {
			return fmt.Errorf("hand run %s over: %w", id, err)
		}
	}
	return nil
}

func namesLeft(box string) ([]string, error) {
	entries, err := os.ReadDir(box)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if e.Name() != state.CarrierLock {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// ofTheTerminal are variables that tell one terminal from another, and that no
// run depends on.
func ofTheTerminal() []string {
	return []string{
		"_", "PWD", "OLDPWD", "SHLVL", "TERM", "COLUMNS", "LINES", "WINDOWID", "WINDOW", "STY", "TMUX", "TMUX_PANE",
		"SSH_CLIENT", "SSH_CONNECTION", "SSH_TTY", "XDG_SESSION_ID",
	}
}

// environmentKey tells environments apart in which a run may go another way:
// secrets, the way to an ssh agent, an allocation of Slurm's, PATH, the umask,
// and which bee it is, on which of the hosts that share the state directory.
func environmentKey(env []string, binary string, further ...string) string {
	kept := slices.DeleteFunc(slices.Clone(env), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.Contains(ofTheTerminal(), name)
	})
	slices.Sort(kept)
	kept = append(append(kept, binary), further...)
	if host, err := os.Hostname(); err == nil {
		kept = append(kept, host)
	}
	if info, err := os.Stat(binary); err == nil {
		kept = append(kept, fmt.Sprint(info.Size(), info.ModTime().UnixNano()))
	}
	if raw, err := os.ReadFile("/proc/self/status"); err == nil {
		for line := range strings.Lines(string(raw)) {
			if strings.HasPrefix(line, "Umask:") {
				kept = append(kept, line)
			}
		}
	}
	sum := sha256.Sum256([]byte(strings.Join(kept, "\x00")))
	return hex.EncodeToString(sum[:8])
}
