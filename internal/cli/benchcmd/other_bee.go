package benchcmd

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/bee-hpc/bee/internal/bench/fair"
	"github.com/bee-hpc/bee/internal/bench/measure"
	"github.com/bee-hpc/bee/internal/cli/output"
	"github.com/bee-hpc/bee/internal/cli/runview"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
)

// An otherBee is another bee program, such as an older version. It has run records of its
// own, as its database may have another form, and the user's image cache.
type otherBee struct {
	program string
	records string // the directory of its run records
	cache   string
	sites   string // the file of sites
}

// measurementVariable marks the processes of a job that another bee runs, whose id is known
// only when it has ended.
const measurementVariable = "BENCH_MEASUREMENT"

// Bounds of what another bee prints about itself.
const (
	mostVersion = 256
	mostRecord  = 4 << 20
	mostPrinted = 2048
	stopTimeout = 2 * time.Minute
)

// programDigest is the SHA-256 digest of a bee program, in hex.
func programDigest(program string) (string, error) {
	info, err := os.Stat(program)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() { // a pipe would be waited for
		return "", fmt.Errorf("%s is no file", program)
	}
	return fsutil.Digest(program)
}

// programVersion is what a bee program prints of its version, in one line.
func programVersion(ctx context.Context, program string) (string, error) {
	var text bytes.Buffer
	c := exec.CommandContext(ctx, program, "version")
	c.Stdout = &core.Limited{W: &text, Left: mostVersion}
	if err := c.Run(); err != nil {
		return "", fmt.Errorf("%s version: %w", program, err)
	}
	first, _, _ := strings.Cut(strings.TrimSpace(text.String()), "\n")
	return output.Printable(first), nil
}

// launchBy runs a job to its end by another bee program.
func (l *benchLauncher) launchBy(ctx context.Context, program string, job spec.Job, site spec.Site, secrets *secretReader, out io.Writer) (measure.Outcome, error) {
	sum, err := programDigest(program)
	if err != nil {
		return measure.Outcome{Failed: err.Error(), Remedy: "Name a bee program of this machine by `bee:`."}, nil
	}
	dir := filepath.Join(l.s.Workspace.StateDir, "bench", "bee-"+sum[:16])
	if err := fsutil.MkdirAll(dir, 0o700); err != nil {
		return measure.Outcome{}, err
	}
	files, err := os.MkdirTemp(dir, "job-")
	if err != nil {
		return measure.Outcome{}, err
	}
	defer fsutil.RemoveAll(files)
	b := otherBee{program, filepath.Join(dir, "state"), l.s.Workspace.CacheDir, filepath.Join(files, "sites.yaml")}
	mark := make([]byte, 8)
	rand.Read(mark)
	job.Name, job.Sites = "bench-"+hex.EncodeToString(mark), []string{site.Name}
	env := map[string]string{measurementVariable: job.Name}
	maps.Copy(env, job.Env)
	job.Env = env
	private, err := secrets.pass(ctx, &job)
	if err != nil {
		return measure.Outcome{Failed: err.Error(), Remedy: core.Remedy(err)}, nil
	}
	text, err := job.Beefile()
	if err != nil {
		return measure.Outcome{}, err
	}
	line, err := site.Text()
	if err != nil {
		return measure.Outcome{}, err
	}
	file := filepath.Join(files, "job.yaml")
	if err := errors.Join(os.WriteFile(file, text, 0o600), os.WriteFile(b.sites, []byte("sites:\n  - "+line+"\n"), 0o600)); err != nil {
		return measure.Outcome{}, err
	}
	if err := b.clear(ctx); err != nil {
		return measure.Outcome{Failed: err.Error()}, nil
	}
	watch := fair.Start(ctx, fair.Sought{Variable: measurementVariable, Value: job.Name, Tools: "/.bee"})
	printed, err := b.run(ctx, l.stop, file, job.Name, private, out)
	found := watch.Stop()
	if err != nil {
		return measure.Outcome{}, err
	}
	v, err := b.show(ctx, job.Name)
	if err != nil { // it has no record
		return measure.Outcome{Failed: cmp.Or(printed, err.Error())}, nil
	}
	o := outcomeOf(v)
	o.Found, o.Hosts = found, hostsOf(o.Hosts, site)
	return o, errors.Join(b.clear(ctx), ctx.Err())
}

// command is a call of the program, which gets no signals of this process's terminal. Its
// directories are named by variables, as names of flags may change from version to version.
func (b *otherBee) command(ctx context.Context, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, b.program, args...)
	c.Env = append(os.Environ(), "BEE_STATE="+b.records, "BEE_CACHE="+b.cache, "BEE_SITES="+b.sites)
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return c
}

// run runs a job, whose secrets are in private. It is stopped when stop is closed. The text is the first that was printed, if it failed.
func (b *otherBee) run(ctx context.Context, stop <-chan struct{}, file, name string, private []string, out io.Writer) (printed string, err error) {
	whole := context.WithoutCancel(ctx)
	var first bytes.Buffer
	c := b.command(whole, "run", "--quiet", file)
	c.Env = append(c.Env, private...)
	both := io.MultiWriter(out, &core.Limited{W: &first, Left: mostPrinted})
	c.Stdout, c.Stderr = both, both
	if err := c.Start(); err != nil {
		return err.Error(), nil
	}
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		select {
		case <-ended:
			return
		case <-stop:
		case <-ctx.Done():
		}
		bounded, cancel := context.WithTimeout(whole, stopTimeout)
		defer cancel()
		if b.command(bounded, "stop", name).Run() != nil {
			c.Process.Kill()
		}
	}()
	if err := c.Wait(); err != nil {
		return strings.TrimSpace(output.Printable(first.String())), nil // the record says how the run ended
	}
	return "", nil
}

// show is the record of a run.
func (b *otherBee) show(ctx context.Context, run string) (v runview.View, err error) {
	var text bytes.Buffer
	c := b.command(context.WithoutCancel(ctx), "show", "--json", run)
	c.Stdout = &core.Limited{W: &text, Left: mostRecord}
	if err := c.Run(); err != nil {
		return v, fmt.Errorf("%s show: %w", b.program, err)
	}
	if err := json.Unmarshal(text.Bytes(), &v); err != nil {
		return v, fmt.Errorf("read the record of %s: %w", b.program, err)
	}
	return v, nil
}

// clear removes all run records, and ends what a killed process has left.
func (b *otherBee) clear(ctx context.Context) error {
	if there, err := fsutil.Exists(b.records); err != nil || !there {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	text, err := b.command(ctx, "ps", "--all", "--json").Output()
	var runs []struct {
		ID    string         `json:"id"`
		State state.RunState `json:"state"`
	}
	if err == nil {
		err = json.Unmarshal(text, &runs)
	}
	for _, r := range runs {
		if out, rerr := b.command(ctx, "rm", "--force", r.ID).CombinedOutput(); rerr != nil {
			err = errors.Join(err, fmt.Errorf("remove run %s: %w: %s", r.ID, rerr, output.Printable(string(out))))
		}
	}
	if err != nil {
		return fmt.Errorf("remove former runs of %s: %w", b.program, err)
	}
	return nil
}
