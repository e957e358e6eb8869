// Package recipes does what the pages of recipes say: it saves the files that a page shows, runs
// its commands in their order, and compares what the page shows as seen. Where a page names what
// a reader has, such as a cluster, a stand-in is in its place, which docs/reference/tried.md names.
package recipes

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/bee-hpc/bee/internal/testkit/slurmfarm"
	"github.com/bee-hpc/bee/internal/testkit/sshfarm"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

func TestMain(m *testing.M) {
	if code, meant := sshfarm.Main(os.Args); meant {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// A recipe is a page, and what a reader of it has.
type recipe struct {
	page string // below docs
	// by is the test that runs the page, as PACKAGE TEST, where that is not the runner here.
	by string
	// long recipes run in `make test-long` alone.
	long bool
	// real recipes build images themselves, which tests share; others have small ones in place.
	real bool
	// where are the sites that it ran on, inPlace what stood in for what, and missing what could
	// not be tried; the page has the sentence of missing, too.
	where, inPlace, missing string
	// prepare provides what the reader has.
	prepare func(s *stage)
	// before has what happens before a command of the page, such as waiting until a job has begun.
	before map[string]func(s *stage)
	// codes are those of commands that end with another than 0.
	codes map[string]int
	// skip has the commands that are not run, each with the reason.
	skip map[string]string
	// background has commands that continue until they are interrupted, or their run ends.
	background []string
	// check looks at what is left at the end.
	check func(s *stage)
}

// A stage is where one recipe runs.
type stage struct {
	*testing.T
	bee     *testkit.Bee
	replace []string // what the page has, and what is here in its place
	running []*exec.Cmd
	farm    *slurmfarm.Farm
	port    string // of this machine, in place of one that others may use
}

// TestRecipes runs the pages of recipes. Each command and each file of them is taken from the page.
func TestRecipes(t *testing.T) {
	for _, r := range recipes {
		if r.by != "" {
			continue
		}
		t.Run(strings.TrimSuffix(filepath.Base(r.page), ".md"), func(t *testing.T) {
			if r.long && !testkit.Everything() {
				t.Skip("`make test-long` runs it; TestRecipes of `make test` runs others in the same way")
			}
			t.Parallel()
			r.run(t)
		})
	}
}

func (r recipe) run(t *testing.T) {
	s := &stage{T: t, bee: testkit.NewBee(t)}
	bin := filepath.Join(s.bee.Dir, "bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(testkit.Binary(t), filepath.Join(bin, "bee")); err != nil {
		t.Fatal(err)
	}
	s.bee.Env = append(s.bee.Env, "PATH="+bin+":"+os.Getenv("PATH"))
	if !r.real {
		s.standIns()
	}
	if r.prepare != nil {
		r.prepare(s)
	}
	replacer := strings.NewReplacer(s.replace...)
	unused := r.named()
	begun := time.Now()
	commands := 0
	for _, step := range steps(t, r.page) {
		if step.file != "" {
			s.save(step.file, replacer.Replace(step.text))
			continue
		}
		delete(unused, step.command)
		if _, skipped := r.skip[step.command]; skipped {
			continue
		}
		if hook := r.before[step.command]; hook != nil {
			hook(s)
		}
		commands++
		c := s.command(replacer.Replace(step.command))
		if slices.Contains(r.background, step.command) {
			s.start(c)
			continue
		}
		out, code := s.finish(c)
		if code != r.codes[step.command] {
			t.Fatalf("%s: ended with %d, not %d\n%s", step.command, code, r.codes[step.command], out)
		}
		if step.seen != "" && !pattern(replacer.Replace(step.seen)).MatchString(out) {
			t.Errorf("%s: the page shows\n%s\nand it prints\n%s", step.command, step.seen, out)
		}
	}
	if len(unused) > 0 {
		t.Errorf("docs/%s has no command %q", r.page, slices.Sorted(maps.Keys(unused)))
	}
	if commands == 0 {
		t.Errorf("docs/%s has no command that was run", r.page)
	}
	if r.check != nil {
		r.check(s)
	}
	s.end()
	t.Logf("%d commands in %v", commands, time.Since(begun).Round(time.Millisecond))
}

// named are the commands of which the list says more: the page has to have each.
func (r recipe) named() map[string]bool {
	all := map[string]bool{}
	for c := range r.skip {
		all[c] = true
	}
	for c := range r.before {
		all[c] = true
	}
	for c := range r.codes {
		all[c] = true
	}
	for _, c := range r.background {
		all[c] = true
	}
	return all
}

// save writes a file of the page. One whose name begins with ~/.config is the user's.
func (s *stage) save(name, text string) {
	s.Helper()
	if rest, is := strings.CutPrefix(name, "~/.config/"); is {
		name = filepath.Join(s.bee.Dir, "config", rest)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			s.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			s.Fatal(err)
		}
		return
	}
	s.bee.File(name, text)
}

func (s *stage) command(line string) *exec.Cmd {
	c := exec.Command("/bin/sh", "-c", line)
	c.Dir, c.Env = s.bee.Work, append(os.Environ(), s.bee.Env...)
	return c
}

// start starts a command that ends with the recipe.
func (s *stage) start(c *exec.Cmd) {
	s.Helper()
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // the shell has bee as a child
	if err := c.Start(); err != nil {
		s.Fatal(err)
	}
	s.running = append(s.running, c)
}

// finish runs a command, and returns what a terminal would show.
func (s *stage) finish(c *exec.Cmd) (string, int) {
	s.Helper()
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	c.WaitDelay = time.Minute // a process in the background might keep them open
	ctx, cancel := context.WithTimeout(s.Context(), 10*time.Minute)
	defer cancel()
	defer context.AfterFunc(ctx, func() { c.Process.Kill() })()
	if err := c.Run(); c.ProcessState == nil {
		s.Fatal(err)
	}
	return out.String(), c.ProcessState.ExitCode()
}

// end interrupts what was started.
func (s *stage) end() {
	for _, c := range s.running {
		syscall.Kill(-c.Process.Pid, syscall.SIGINT) // it may have ended with its run
		c.Wait()                                     //nolint:errcheck // it was interrupted
	}
}

// sites makes a sites file the user's.
func (s *stage) sites(text string) {
	s.Helper()
	s.save("~/.config/bee/sites.yaml", text)
}

// begun waits until a run's command has written a file.
func begun(run, file string) func(s *stage) {
	return func(s *stage) {
		s.Helper()
		testkit.Eventually(s, time.Minute, func() error {
			if r := s.bee.Try("exec", run, "--", "test", "-e", file); r.Code != 0 {
				return s.bee.Explained(run, r.Stderr)
			}
			return nil
		})
	}
}

// over waits until a run is over.
func over(run string) func(s *stage) {
	return func(s *stage) { s.bee.Await(run, time.Minute) }
}

// tools is a directory with some programs of this machine alone.
func (s *stage) tools(names ...string) string {
	s.Helper()
	dir := s.TempDir()
	for _, name := range names {
		if err := os.Symlink(testkit.RequireTool(s, name), filepath.Join(dir, name)); err != nil {
			s.Fatal(err)
		}
	}
	return dir
}

// slurm starts a cluster of n nodes, which the sites of the page get in place of theirs.
func (s *stage) slurm(n int) *slurmfarm.Farm {
	s.Helper()
	s.farm = slurmfarm.Start(s, n)
	s.reach(s.farm.Farm)
	s.replace = append(s.replace, "login: ann@login.example.org, scratch: /scratch/$USER", slurmKeys(s.farm))
	return s.farm
}

// slurmKeys are those of a site at a cluster, in flow style.
func slurmKeys(farm *slurmfarm.Farm) string {
	return "login: " + farm.Names[0] + ", scratch: " + filepath.Join(farm.Dir, "scratch")
}

// reach has the commands of the page find the ssh of a farm, and its hosts the cache.
func (s *stage) reach(farm *sshfarm.Farm) {
	s.bee.Env = append(s.bee.Env, "PATH="+farm.Bin+":"+filepath.Join(s.bee.Dir, "bin")+":"+os.Getenv("PATH"))
}

// freePort returns a port of this machine on which nothing listens.
func (s *stage) freePort() string {
	s.Helper()
	_, port, err := net.SplitHostPort(testkit.FreeAddress(s))
	if err != nil {
		s.Fatal(err)
	}
	return port
}

// get waits until an address has a text.
func (s *stage) get(address, want string) {
	s.Helper()
	testkit.Eventually(s, time.Minute, func() error {
		r, err := http.Get(address)
		if err != nil {
			return err
		}
		defer r.Body.Close()
		if body, err := io.ReadAll(r.Body); err != nil || string(body) != want {
			return fmt.Errorf("got %q, %w", body, err)
		}
		return nil
	})
}

// images are the names of pages that the cache has: pages are about any program, and these are
// those of a small image.
var images = []string{"docker.io/library/debian:12", "docker.io/you/app:1.0"}

// programs are in those images, in place of what a reader has there.
var programs = map[string]string{
	"model": "while [ $# -gt 0 ]; do echo \"$1\"; shift; done > out.dat\necho Etot = -1.5\n",
	// simulate ends once it has written a checkpoint, and then continues to its end.
	"simulate": "[ ! -e state ] || exit 0\ntrap 'echo $1 > state; exit 85' TERM\n: > begun\nwhile :; do sleep 0.1; done\n",
	"jupyter":  "echo http://127.0.0.1:8888/lab?token=1a2b; cp old.ipynb new.ipynb; echo -n > index.html; exec httpd -f -p 127.0.0.1:8888 -h /work\n",
}

// standIns puts the images of pages into the cache, which has no others.
func (s *stage) standIns() {
	s.Helper()
	s.bee.Env = append(s.bee.Env, "BEE_CACHE="+filepath.Join(s.bee.Dir, "cache"))
	s.bee.Must("image", "import", s.archive(images...))
}

// archive is a file of a small image with the programs, under names.
func (s *stage) archive(names ...string) string {
	s.Helper()
	l := testkit.NewLayer(s)
	for _, dir := range strings.Fields("bin etc usr usr/bin root home dev proc sys var tmp") {
		l.Add(tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755}, nil)
	}
	l.Busybox("bin", "sh bash true false echo cat ls sleep env id mkdir touch grep sed awk seq head tail wc dd hostname printf test rm cp mv stat chmod sort date tr nproc httpd tar uname")
	for program, text := range programs {
		l.Add(tar.Header{Typeflag: tar.TypeReg, Name: "usr/bin/" + program, Mode: 0o755}, []byte("#!/bin/sh\n"+text))
	}
	return l.Archive(names[0], v1.Config{Env: []string{"PATH=/usr/bin:/bin"}}, names[1:]...)
}
