package workspace

import (
	"context"
	"os"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/state"
	"golang.org/x/sys/unix"
)

// KeepBinary keeps a copy of this program in the state directory, from which processes are
// started from then on. A process that is to control runs calls it first. Where no copy can
// be kept, runs are launched by the installed program, as long as that is there.
func (s *Session) KeepBinary(ctx context.Context) {
	s.keeping.Do(func() {
		kept, err := s.Store.Binaries().Keep(ctx, s.Binary)
		if err != nil {
			s.Log.Warn("keep this version of bee until its runs are over", "err", err)
		}
		s.kept, s.Digest = kept, kept.Digest
		if kept.Path != "" {
			s.Binary = kept.Path
		}
	})
}

// programs divides runs by the program that is to control them: the copy of the one that has
// launched what is not closed, else this one.
func (s *Session) programs(ctx context.Context, ids []string) (map[string][]string, error) {
	by := map[string][]string{}
	found := map[string]string{"": s.Binary}
	for _, id := range ids {
		attempts, err := s.Store.Attempts(ctx, id)
		if err != nil {
			return nil, err
		}
		last, _ := s.LaunchedBy(attempts)
		digest := last.Binary
		if _, is := found[digest]; !is {
			found[digest] = s.Binary
			if kept, err := s.Store.Binaries().Find(digest); err == nil {
				found[digest] = kept.Path
			} else {
				s.Workspace.Say("run %s was launched by another version of bee: this one continues it as far as it can", id)
				s.Workspace.On(s.Workspace.Stderr).SayBelow("%v. %s", err, core.Remedy(err))
			}
		}
		by[found[digest]] = append(by[found[digest]], id)
	}
	return by, nil
}

// passToItsBinary executes the copy of the bee that has launched a run with this command's
// arguments, where that alone speaks with the run's nodes. It returns where this bee does.
func (s *Session) passToItsBinary(ctx context.Context, run state.Run) error {
	attempts, err := s.Store.Attempts(ctx, run.ID)
	if err != nil {
		return err
	}
	last, is := s.LaunchedBy(attempts)
	if !is || s.Speaks(last) {
		return nil
	}
	kept, err := s.Store.Binaries().Find(last.Binary)
	if err != nil {
		return err
	}
	if self, err := os.Stat("/proc/self/exe"); err == nil {
		if info, err := os.Stat(kept.Path); err == nil && os.SameFile(info, self) {
			return nil
		}
	}
	return s.Workspace.execute(kept.Path, append([]string{"bee"}, s.Workspace.Args...))
}

// executeProgram becomes another program, with this one's variables and open streams.
func executeProgram(path string, args []string) error {
	return os.NewSyscallError("execve", unix.Exec(path, args, os.Environ()))
}
