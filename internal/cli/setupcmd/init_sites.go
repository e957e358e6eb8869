package setupcmd

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/catalog"
	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/scaffold"
	"github.com/bee-hpc/bee/internal/shell"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
	"golang.org/x/sync/errgroup"
)

// Bounds of looking for sites.
const (
	askTime   = 20 * time.Second // of a question to one machine
	tryTime   = 2 * time.Minute  // of the try of one site
	tryAtOnce = 4
	maxAnswer = 1 << 20
)

// initSites writes a sites file of what this machine and its user's configuration know, and
// tries each site.
func (a *Commands) initSites(ctx context.Context, out string) error {
	if err := a.Paths(); err != nil {
		return err
	}
	if out == "" {
		var err error
		if out, err = spec.SitesPath(); err != nil {
			return err
		}
	}
	if _, err := os.Lstat(out); err == nil {
		return existing(out)
	}
	candidates, err := a.candidates(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(a.Stderr, "bee: trying %s: %s\n", console.CountText(len(candidates), "site"), candidateNames(candidates))
	tried, err := a.tryAll(ctx, candidates)
	if err != nil {
		return err
	}
	text, err := scaffold.Sites(hostname(), tried)
	if err != nil {
		return err
	}
	any := slices.ContainsFunc(tried, func(t scaffold.Tried) bool { return t.Works })
	if any { // else the file is a list of reasons
		if _, err := spec.ParseSites(out, []byte(text)); err != nil {
			return err
		}
	}
	w := a.On(a.Stdout).Prose()
	for _, t := range tried {
		w.Row(map[bool]string{true: "ok", false: "no"}[t.Works], t.Site.Name, t.Says)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if !any {
		fmt.Fprintln(a.Stderr, "bee: no site works; `bee doctor` shows what this machine lacks")
		return console.Exit(console.ExitUnsupported)
	}
	if err := writeSites(out, text); err != nil {
		return err
	}
	fmt.Fprintf(a.Stderr, "bee: wrote %s; `bee check %s` checks it\n", shell.Word(out), shell.Word(out))
	return nil
}

// writeSites writes a new sites file, which nobody else may change.
func writeSites(out, text string) error {
	if err := os.MkdirAll(filepath.Dir(out), 0o700); err != nil {
		return err
	}
	return writeNew(out, text, 0o600)
}

func candidateNames(all []scaffold.Candidate) string {
	var names []string
	for _, c := range all {
		names = append(names, c.Site.Name)
	}
	return strings.Join(names, ", ")
}

// candidates are the sites that may be usable: this machine, its cluster, the hosts of ssh's
// configuration, and their clusters.
func (a *Commands) candidates(ctx context.Context) ([]scaffold.Candidate, error) {
	all := []scaffold.Candidate{{Site: spec.DefaultSites()[0]}}
	me := a.Origin("").User
	if _, err := exec.LookPath(scaffold.PartitionsCommand[0]); err == nil {
		here := cluster{partitions: a.ask(ctx, scaffold.PartitionsCommand)}
		if scaffold.IsUser(me) {
			here.own = scaffold.Accounts(a.ask(ctx, scaffold.AccountsCommand(me)), me)
		}
		some, err := a.sitesOf("", here)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	hosts := sshHostsHere()
	found := make([]cluster, len(hosts))
	var g errgroup.Group
	g.SetLimit(tryAtOnce)
	for i, host := range hosts {
		g.Go(func() error {
			found[i] = a.behind(ctx, host)
			return nil
		})
	}
	core.BestEffort(g.Wait()) // none fails
	for i, host := range hosts {
		some, err := a.sitesOf(host, found[i])
		if err != nil {
			return nil, err
		}
		if len(some) == 0 {
			some = []scaffold.Candidate{{Site: spec.Site{Name: host, Provider: "ssh", Hosts: spec.Hosts{Patterns: []string{host}}}}}
		}
		all = append(all, some...)
	}
	return all, nil
}

// cluster is what a Slurm cluster says of itself; without partitions, there is none.
type cluster struct {
	partitions string
	own        []scaffold.Account
}

// sitesOf are the sites of a cluster, with the account that the user chooses. Without a
// terminal it is the default one.
func (a *Commands) sitesOf(login string, c cluster) ([]scaffold.Candidate, error) {
	all := scaffold.Cluster(login, c.partitions, c.own, "")
	names := scaffold.Names(c.own)
	if len(all) == 0 || len(names) < 2 {
		return all, nil
	}
	where := "this cluster"
	if login != "" {
		where = "the cluster of " + login
	}
	n, err := a.choose("your accounts on "+where+":", "Which one shall jobs use?", names)
	if err != nil {
		return nil, err
	}
	return scaffold.Cluster(login, c.partitions, c.own, names[n]), nil
}

// behind is the cluster that a host of ssh's configuration leads to.
func (a *Commands) behind(ctx context.Context, host string) (c cluster) {
	const mark = "--bee-user--"
	over := func(script string) string {
		return a.ask(ctx, []string{"ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "--", host, script})
	}
	script := strings.ReplaceAll(strings.Join(scaffold.PartitionsCommand, " "), "%P|%a|%l", "'%P|%a|%l'") + " && echo " + mark + " && id -un"
	partitions, user, _ := strings.Cut(over(script), mark+"\n")
	if user = strings.TrimSpace(user); len(scaffold.Cluster(host, partitions, nil, "")) == 0 || !scaffold.IsUser(user) {
		return cluster{partitions: partitions}
	}
	return cluster{partitions, scaffold.Accounts(over(strings.Join(scaffold.AccountsCommand(user), " ")), user)}
}

// ask is the output of a command, as far as it ends in time; what fails has none.
func (a *Commands) ask(ctx context.Context, argv []string) string {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	c := exec.CommandContext(ctx, argv[0], argv[1:]...)
	c.WaitDelay = time.Second
	var out bytes.Buffer
	pipe, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		return ""
	}
	core.BestEffort(io.Copy(&out, io.LimitReader(pipe, maxAnswer))) // what came before counts
	pipe.Close()
	if err := c.Wait(); err != nil {
		a.Log().Debug("look for sites", "command", argv, "err", err)
	}
	return out.String()
}

// sshHostsHere are the hosts of the user's configuration of ssh.
func sshHostsHere() []string {
	home, err := os.UserHomeDir()
	if err != nil {
		return nil
	}
	dir := filepath.Join(home, ".ssh")
	read := func(file string) string {
		raw, err := fsutil.ReadFile(filepath.Dir(file), filepath.Base(file), maxAnswer)
		if err != nil {
			return ""
		}
		return string(raw)
	}
	return scaffold.SSHHosts(read(filepath.Join(dir, "config")), func(pattern string) []string {
		if rest, is := strings.CutPrefix(pattern, "~/"); is {
			pattern = filepath.Join(home, rest)
		} else if !filepath.IsAbs(pattern) {
			pattern = filepath.Join(dir, pattern)
		}
		files, err := filepath.Glob(pattern)
		if err != nil {
			return nil
		}
		var texts []string
		for _, f := range files[:min(len(files), mostIncludes)] {
			texts = append(texts, read(f))
		}
		return texts
	})
}

// mostIncludes bounds the files of one Include line.
const mostIncludes = 50

// tryAll tries sites, several at once.
func (a *Commands) tryAll(ctx context.Context, candidates []scaffold.Candidate) ([]scaffold.Tried, error) {
	binary, err := os.Executable()
	if err != nil {
		return nil, err
	}
	tried := make([]scaffold.Tried, len(candidates))
	var g errgroup.Group
	g.SetLimit(tryAtOnce)
	for i, c := range candidates {
		g.Go(func() error {
			tried[i] = a.try(ctx, c, binary)
			fmt.Fprintf(a.Stderr, "bee: tried %s\n", c.Site.Name)
			return nil
		})
	}
	return tried, g.Wait()
}

func (a *Commands) try(ctx context.Context, c scaffold.Candidate, binary string) scaffold.Tried {
	ctx, cancel := context.WithTimeout(ctx, tryTime)
	defer cancel()
	p, err := catalog.Provider(c.Site, catalog.Options{StateDir: a.StateDir, Cache: a.CacheDir, Binary: binary, Installation: state.Installation(a.StateDir)})
	if err != nil {
		return scaffold.Tried{Candidate: c, Says: err.Error()}
	}
	f := diagnoseSite(ctx, c.Site, p)
	if ctx.Err() != nil {
		return scaffold.Tried{Candidate: c, Says: fmt.Sprintf("it did not answer within %s", tryTime)}
	}
	return scaffold.Tried{Candidate: c, Works: f.Status == works, Says: f.Detail}
}
