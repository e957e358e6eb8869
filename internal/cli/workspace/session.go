package workspace

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/bee-hpc/bee/internal/catalog"
	"github.com/bee-hpc/bee/internal/control"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/image"
	"github.com/bee-hpc/bee/internal/logfile"
	"github.com/bee-hpc/bee/internal/node/client"
	"github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/supervisor"
)

// ControllerLog returns the path of a controller's log in the directory of its run.
func ControllerLog(runDir string) string { return filepath.Join(runDir, "controller.log") }

// Session is an open state with a controller over it.
type Session struct {
	*control.Controller
	Workspace *Workspace
	Images    *image.Store
	keeping   sync.Once
	kept      state.Binary
}

// Open opens the state and hands runs that lost their controller to a new one
// in the background, so that none is ever stuck; so it does with those for which there
// is a new site.
func (a *Workspace) Open(ctx context.Context) (*Session, error) {
	s, err := a.OpenQuietly(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := a.TakeOrphans(ctx, s); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// TakeOrphans starts controllers in the background for runs that have none, and for
// suspended runs with a new site. It returns these runs.
func (a *Workspace) TakeOrphans(ctx context.Context, s *Session) ([]string, error) {
	s.crashed().Count(ctx)
	orphans, err := s.Garbage().Orphans(ctx)
	if err != nil {
		return nil, err
	}
	awake, err := s.Awaken(ctx)
	if err != nil { // they wait on
		s.Log.Warn("look for new sites of suspended runs", "err", err)
	}
	for _, run := range awake {
		a.Say("run %s, which was suspended, continues in the background: its sites file has a new site for it", run.ID)
		orphans = append(orphans, run.ID)
	}
	unsent, err := s.unsent(ctx)
	if err != nil {
		s.Log.Warn("look for notifications to send", "err", err)
	}
	for _, id := range unsent {
		if !slices.Contains(orphans, id) {
			orphans = append(orphans, id)
		}
	}
	orphans = s.unattended(ctx, orphans)
	if err := s.Background(orphans...); err != nil {
		s.Log.Warn("take over runs", "runs", orphans, "err", err)
	}
	return orphans, nil
}

// OpenQuietly opens the state, and starts nothing in the background.
func (a *Workspace) OpenQuietly(ctx context.Context) (*Session, error) {
	binary, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find the bee binary: %w", err)
	}
	images, err := a.OpenImages()
	if err != nil {
		return nil, err
	}
	store, err := state.Open(ctx, a.StateDir)
	if err != nil {
		return nil, err
	}
	a.reportAdopted(store)
	machine := ""
	if store.Shared() {
		if machine, err = os.Hostname(); err != nil {
			store.Close()
			return nil, err
		}
	}
	c := &control.Controller{Runner: control.Runner{Store: store, Binary: binary, Log: a.Log(), Images: images, Report: func(plan.Event) {}, Routes: &control.Routes{}}}
	clusters := &catalog.Clusters{}
	c.Provider = func(site spec.Site) (driver.Provider, error) {
		return catalog.Provider(site, catalog.Options{StateDir: a.StateDir, Cache: a.CacheDir, Binary: c.Binary, Installation: store.User(), Machine: machine, Progress: c.Progress(core.PhaseAcquire), Clusters: clusters})
	}
	c.OpenStore = func(store string) (driver.Store, error) {
		return catalog.Store(store, catalog.Options{Binary: c.Binary})
	}
	c.LocalStore, c.Remote = catalog.LocalStore, catalog.Remote{}
	c.BucketKeys = catalog.BucketKeys
	c.RelayBucket = catalog.RelayBucket
	c.Secure = control.SecureByKey
	c.Connect = func(conn net.Conn) (control.Head, error) { return client.New(conn) }
	return &Session{Controller: c, Workspace: a, Images: images}, nil
}

// reportAdopted reports what a new database has taken over from directories of runs.
func (a *Workspace) reportAdopted(store *state.Store) {
	adopted := store.Adopted()
	if len(adopted.Runs)+len(adopted.Left) == 0 {
		return
	}
	a.Say("%s had no records of runs whose files are there: a new state.db was made", store.Dir())
	if len(adopted.Runs) > 0 {
		a.On(a.Stderr).SayBelow("Taken over by the records beside their files: %s.", strings.Join(adopted.Runs, ", "))
	}
	if len(adopted.Left) > 0 {
		a.On(a.Stderr).SayBelow("Without a record, and kept: %s. `bee sweep --dry-run` lists them.", strings.Join(adopted.Left, ", "))
	}
}

// OpenRun opens a session that only deals with one run, which is reached where
// it computes.
func (a *Workspace) OpenRun(ctx context.Context, word string) (*Session, state.Run, error) {
	s, err := a.OpenQuietly(ctx)
	if err != nil {
		return nil, state.Run{}, err
	}
	run, err := s.Store.FindRun(ctx, word, state.ToReach)
	if err == nil {
		run, err = s.Carrier(ctx, run)
	}
	if err == nil {
		err = s.passToItsBinary(ctx, run)
	}
	if err != nil {
		s.Close()
		return nil, state.Run{}, err
	}
	return s, run, nil
}

// Close closes the state.
func (s *Session) Close() {
	core.BestEffort(s.kept.Release()) // the process ends soon, which frees it
	s.Store.Close()
}

// Background continues runs in a process that is detached from this terminal: one that
// runs already, or a new one. It reads the jobs' secrets again, from the sources in the
// Beefiles. Suspects of crashes get processes of their own. Runs that another bee has
// launched get a process of that one.
func (s *Session) Background(ids ...string) error {
	if len(ids) == 0 {
		return nil
	}
	ctx := context.Background() // runs get a supervisor, though the command ends
	s.KeepBinary(ctx)
	programs, err := s.programs(ctx, ids)
	if err != nil {
		return err
	}
	for program, ids := range programs {
		key := supervisor.Key(os.Environ(), program, s.Workspace.CacheDir)
		for suffix, group := range s.crashed().Groups(ids) {
			err = errors.Join(err, s.handOver(program, key+suffix, group))
		}
	}
	return err
}

// handOver starts a program as the supervisor with a key for runs, unless it runs already.
// The program may be that of an older bee: the arguments stay as they are.
func (s *Session) handOver(program, key string, ids []string) error {
	// Left here, and not by the process to come: other commands know from then on that
	// they are sent.
	if err := supervisor.Leave(s.Store.Supervisors().Dir(key), ids); err != nil {
		return err
	}
	path := ControllersLog(s.Store.Dir())
	if err := logfile.Rotate(path, logfile.Limit); err != nil {
		return err
	}
	log, err := fsutil.Append(path, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	c := exec.Command(program, append([]string{"drive", "--state-dir", s.Workspace.StateDir, "--cache", s.Workspace.CacheDir, key}, ids...)...) //nolint:noctx // it outlives us
	c.Stdout, c.Stderr = log, log
	c.Dir = "/"
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := c.Start(); err != nil {
		return err
	}
	return c.Process.Release()
}

// crashed returns what is known of runs that crash their supervisors.
func (s *Session) crashed() supervisor.CrashedRuns {
	return supervisor.CrashedRuns{Store: s.Store, Log: s.Log, SetAside: s.SetAside}
}

// ControllersLog returns the path of the log of background processes, without what concerns
// a single run.
func ControllersLog(stateDir string) string { return filepath.Join(stateDir, "controllers.log") }

// Allocation is the number of the job of Slurm's that bee runs in, or "".
func Allocation() string { return os.Getenv("SLURM_JOB_ID") }

// FindSites gives the user's sites file, with the sites as they are inside an
// allocation of Slurm's where bee runs in one.
func (a *Workspace) FindSites() (spec.SitesFile, error) {
	if a.sitesFile != nil {
		return a.sitesFile()
	}
	f, err := spec.FindSites(a.Sites)
	if job := Allocation(); err == nil && job != "" {
		if f.Path == "" {
			f.Sites = []spec.Site{{Name: "allocation", Provider: "slurm"}}
		}
		f.Sites = spec.InAllocation(f.Sites, job)
	}
	return f, err
}

// Finish checks a Beefile together with the sites that it names.
func (a *Workspace) Finish(draft *spec.Draft) (*spec.Job, []spec.Site, error) {
	f, sitesErr := a.FindSites()
	if sitesErr == nil {
		draft.CheckSites(f)
		draft.CheckOrder(f)
	}
	job, err := draft.Finish()
	if err := spec.Both(err, sitesErr); err != nil {
		return nil, nil, err
	}
	sites, err := a.LoadSites(job)
	return job, sites, err
}

// LoadSites gives the user's sites, and the order in which a job wants them. A
// job that names no store gets that of the sites file.
func (a *Workspace) LoadSites(job *spec.Job) ([]spec.Site, error) {
	f, err := a.FindSites()
	if err != nil {
		return nil, err
	}
	return SitesOf(job, f)
}

// SitesOf returns the sites of a file in the order in which a job wants them. A job that names
// no store gets that of the file.
func SitesOf(job *spec.Job, f spec.SitesFile) ([]spec.Site, error) {
	if job.Store == "" {
		job.Store = f.Store
	}
	if job.Store == spec.StoreHome {
		job.Store = ""
	}
	return spec.SelectSites(job, f.Sites, f.Path)
}
