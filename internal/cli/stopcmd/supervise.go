package stopcmd

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/cli/workspace"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/supervisor"
	"github.com/spf13/cobra"
)

// SuperviseCommand returns the command `supervise`.
func (a *Commands) SuperviseCommand() *cobra.Command {
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
	c.Flags().BoolVar(&asJSON, "json", false, console.JSONHelp)
	c.MarkFlagsMutuallyExclusive("install", "uninstall", "json")
	return c
}

// lateDeath is after which time bee supervise looks a second time: a process that was
// killed a moment ago may have held the lock of its run at the first look.
const lateDeath = 300 * time.Millisecond

// supervise continues all runs that need a controller and have none.
func (a *Commands) supervise(ctx context.Context, asJSON bool) error {
	s, err := a.OpenQuietly(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	ids, err := a.TakeOrphans(ctx, s)
	if err != nil {
		return err
	}
	if err := core.Sleep(ctx, lateDeath); err != nil {
		return err
	}
	late, err := a.TakeOrphans(ctx, s)
	if err != nil {
		return err
	}
	for _, id := range late {
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	t := a.NewTally(asJSON)
	for _, id := range ids {
		a.reportTaken(ctx, s, t, id)
	}
	if len(ids) == 0 {
		a.Say("every run has a controller, or needs none")
	}
	return t.End()
}

// reportTaken prints a run that has a controller again. One that its controller has ended
// and forgotten since, as that of a killed build, is no error.
func (a *Commands) reportTaken(ctx context.Context, s *workspace.Session, t *console.Tally, id string) {
	run, err := s.Store.Run(ctx, id)
	if core.IsKind(err, core.NotFound) {
		return
	}
	if err == nil && !t.AsJSON {
		_, err = fmt.Fprintln(a.Stdout, id)
	}
	t.Add(console.DoneView{ID: id, State: run.State}, err)
}

func (a *Commands) superviseAtLogin(ctx context.Context) error {
	l, err := a.login()
	if err != nil {
		return err
	}
	place, err := l.Install(ctx)
	if err == nil {
		a.Say("`bee supervise` runs at login, by %s", place)
	}
	return err
}

// login returns the entry that starts this installation's supervisor at login.
func (a *Commands) login() (supervisor.Login, error) {
	if err := a.Paths(); err != nil {
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
	sum := sha256.Sum256([]byte(a.StateDir))
	l := supervisor.Login{
		Name: "bee-supervise-" + hex.EncodeToString(sum[:4]), Path: os.Getenv("PATH"), Config: config,
		Args: []string{binary, "supervise", "--state-dir", a.StateDir, "--cache", a.CacheDir},
	}
	if sites := os.Getenv("BEE_SITES"); a.Sites == "" {
		a.Sites = sites
	}
	if a.Sites == "" {
		return l, nil
	}
	sites, err := filepath.Abs(a.Sites)
	l.Args = append(l.Args, "--sites", sites)
	return l, err
}
