package setupcmd

import (
	"context"
	"fmt"
	"runtime"
	"strings"

	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/treesync"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

// InfoView is what `bee info --json` writes.
type InfoView struct {
	Version  string `json:"version"`
	Commit   string `json:"commit"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
	// State has the records and logs of runs and their checkpoints, Cache has images.
	State     DirView                `json:"state"`
	Cache     DirView                `json:"cache"`
	SitesFile string                 `json:"sites_file,omitempty"`
	Sites     []InfoSite             `json:"sites"`
	Runs      map[state.RunState]int `json:"runs"`
}

// DirView is a directory and what it uses.
type DirView struct {
	Path  string `json:"path"`
	Bytes int64  `json:"bytes"`
	// Free is what its file system has left for this user.
	Free int64 `json:"free_bytes"`
}

// InfoSite is a site of the sites file.
type InfoSite struct {
	Name     string `json:"name"`
	Provider string `json:"provider"`
}

// InfoCommand returns the command `info`.
func (a *Commands) InfoCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "info", Short: "Show the version, the directories and what they use, sites and counts of runs", Args: cobra.NoArgs,
		Long: `Show the version, the directories of state and cache with what they use, the sites, and
counts of runs by state. It asks no site: bee doctor does.`,
		Example: "  bee info",
		RunE: func(c *cobra.Command, _ []string) error {
			v, err := a.info(c.Context())
			if err != nil {
				return err
			}
			if asJSON {
				return a.WriteJSON(v)
			}
			return a.showInfo(v)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, console.JSONHelp)
	return c
}

func (a *Commands) info(ctx context.Context) (InfoView, error) {
	s, err := a.OpenQuietly(ctx)
	if err != nil {
		return InfoView{}, err
	}
	defer s.Close()
	v := InfoView{Version: a.Version, Commit: commit(), Go: runtime.Version(), Platform: platform, Sites: []InfoSite{}}
	v.State, v.Cache = useOf(ctx, a.StateDir), useOf(ctx, a.CacheDir)
	sites, err := a.FindSites()
	if err != nil {
		return v, err
	}
	v.SitesFile = sites.Path
	for _, site := range sites.Sites {
		v.Sites = append(v.Sites, InfoSite{site.Name, site.Provider})
	}
	v.Runs, err = s.Store.CountRuns(ctx)
	return v, err
}

// useOf returns what a directory uses. One that is not there uses nothing.
func useOf(ctx context.Context, dir string) DirView {
	v := DirView{Path: dir, Bytes: treesync.Size(ctx, dir)}
	var st unix.Statfs_t
	if unix.Statfs(dir, &st) == nil {
		v.Free = int64(st.Bavail) * st.Bsize
	}
	return v
}

func (a *Commands) showInfo(v InfoView) error {
	t := a.On(a.Stdout).Prose()
	t.Row("version", VersionText(a.Version))
	for _, d := range []struct {
		name string
		DirView
	}{{"state", v.State}, {"cache", v.Cache}} {
		t.Row(d.name, fmt.Sprintf("%s: %s, %s free", d.Path, console.BytesText(d.Bytes), console.BytesText(d.Free)))
	}
	file := v.SitesFile
	if path, err := spec.SitesPath(); file == "" && err == nil {
		file = "none; it would be " + path
	}
	t.Row("sites file", console.OrDash(file))
	var sites, runs []string
	for _, s := range v.Sites {
		sites = append(sites, s.Name+" ("+s.Provider+")")
	}
	for _, s := range state.RunStates() {
		if n := v.Runs[s]; n > 0 {
			runs = append(runs, fmt.Sprintf("%d %s", n, s))
		}
	}
	t.Row("sites", console.OrDash(strings.Join(sites, ", ")))
	t.Row("runs", console.OrDash(strings.Join(runs, ", ")))
	return t.Flush()
}
