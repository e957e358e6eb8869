package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/supervisor"
	"github.com/spf13/cobra"
)

func (a *app) newSuperviseCommand() *cobra.Command {
	var install, uninstall, asJSON bool
	c := &cobra.Command{
		Use: "supervise", Short: "Continue runs that have no controller", Args: cobra.NoArgs,
		Long: `Start the supervisor in the background: it continues all runs that have no
controller, because bee was killed or the machine restarted. Suspended runs
continue where the sites file has a new site. Runs that wait to be tried again are
tried now. The ids of the runs are printed.

With --install, bee supervise runs at each login: by a user unit of systemd, else
by cron when the machine starts. For a start without a login, systemd needs
"loginctl enable-linger". Secrets that only your shell knows are not there then:
runs that need them wait for bee supervise from your shell.`,
		Example: "  bee supervise\n  bee supervise --install",
		RunE: func(c *cobra.Command, _ []string) error {
			switch {
			case install:
				return a.superviseAtLogin(c.Context())
			case uninstall:
				l, err := a.login()
				if err != nil {
					return err
				}
				return l.Uninstall(c.Context())
			}
			return a.supervise(c.Context(), asJSON)
		},
	}
	c.Flags().BoolVar(&install, "install", false, "run at each login")
	c.Flags().BoolVar(&uninstall, "uninstall", false, "do not run at login any more")
	c.Flags().BoolVar(&asJSON, "json", false, jsonHelp)
	c.MarkFlagsMutuallyExclusive("install", "uninstall", "json")
	return c
}

// lateDeath is after which time bee supervise looks a second time: a process that was
// killed a moment ago may have held the lock of its run at the first look.
const lateDeath = 300 * time.Millisecond

// supervise continues all runs that need a controller and have none.
func (a *app) supervise(ctx context.Context, asJSON bool) error {
	s, err := a.openQuietly(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	ids, err := a.takeOrphans(ctx, s)
	if err != nil {
		return err
	}
	if err := core.Sleep(ctx, lateDeath); err != nil {
		return err
	}
	late, err := a.takeOrphans(ctx, s)
	if err != nil {
		return err
	}
	for _, id := range late {
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	t := a.newTally(asJSON)
	for _, id := range ids {
		a.reportTaken(ctx, s, t, id)
	}
	if len(ids) == 0 {
		a.say("every run has a controller, or needs none")
	}
	return t.end()
}

// reportTaken prints a run that has a controller again. One that its controller has ended
// and forgotten since, as that of a killed build, is no error.
func (a *app) reportTaken(ctx context.Context, s *session, t *tally, id string) {
	run, err := s.Store.Run(ctx, id)
	if core.IsKind(err, core.NotFound) {
		return
	}
	if err == nil && !t.asJSON {
		_, err = fmt.Fprintln(a.stdout, id)
	}
	t.add(doneView{ID: id, State: run.State}, err)
}

// unsupervised returns the runs that need a controller and have none.
func (s *session) unsupervised(ctx context.Context) ([]string, error) {
	ids, err := s.Garbage().Orphans(ctx)
	return s.unattended(ctx, ids), err
}

// unattended returns those of some runs without a controller that no supervisor is to take
// already.
func (s *session) unattended(ctx context.Context, ids []string) []string {
	return slices.DeleteFunc(ids, func(id string) bool { return supervisor.IsLeft(s.Store, id) || s.crashed().Abandoned(ctx, id) })
}

// warnUnsupervised prints which of some runs have no controller, and the remedy. It starts
// nothing: for commands that only read.
func (s *session) warnUnsupervised(ctx context.Context, among func(id string) bool) error {
	ids, err := s.unsupervised(ctx)
	if err != nil {
		return err
	}
	ids = slices.DeleteFunc(ids, func(id string) bool { return !among(id) })
	switch len(ids) {
	case 0:
	case 1:
		s.app.say("no controller works on run %s now: `bee supervise` continues it", ids[0])
	default:
		s.app.say("no controllers work on %d runs now: `bee supervise` continues them", len(ids))
	}
	return nil
}

func (a *app) superviseAtLogin(ctx context.Context) error {
	l, err := a.login()
	if err != nil {
		return err
	}
	place, err := l.Install(ctx)
	if err == nil {
		a.say("`bee supervise` runs at login, by %s", place)
	}
	return err
}

// login returns the entry that starts this installation's supervisor at login.
func (a *app) login() (supervisor.Login, error) {
	if err := a.paths(); err != nil {
		return supervisor.Login{}, err
	}
	binary, err := os.Executable()
	if err != nil {
		return supervisor.Login{}, fmt.Errorf("find the bee binary: %w", err)
	}
	config, err := os.UserConfigDir()
	if err != nil {
		return supervisor.Login{}, err
	}
	sum := sha256.Sum256([]byte(a.stateDir))
	l := supervisor.Login{
		Name: "bee-supervise-" + hex.EncodeToString(sum[:4]), Path: os.Getenv("PATH"), Config: config,
		Args: []string{binary, "supervise", "--state", a.stateDir, "--cache", a.cacheDir},
	}
	if sites := os.Getenv("BEE_SITES"); a.sites == "" {
		a.sites = sites
	}
	if a.sites == "" {
		return l, nil
	}
	sites, err := filepath.Abs(a.sites)
	l.Args = append(l.Args, "--sites", sites)
	return l, err
}
