package runcmd

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/cli/usage"
	"github.com/bee-hpc/bee/internal/cli/workspace"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/spf13/cobra"
)

// jobSource is where a job comes from: a Beefile, standard input, or an image and a command.
type jobSource struct {
	// draft is nil where the Beefile has several jobs, or an array is repeated.
	draft *spec.Draft
	// jobs are those of a Beefile that has several, in its order.
	jobs []jobSource
	// what names it in questions, and strange is why it may be another user's, or "".
	what, strange string
	// beefile is the file's absolute path, or "".
	beefile string
	// input: it was read from standard input.
	input bool
	// typed: its image and its mounts are what the user has typed.
	typed bool
	// cases are those of an array that is repeated.
	cases []caseSource
	// keepsLinks: no link in its inputs is followed.
	keepsLinks bool
}

// jobOf reads the job that the arguments of a command name. What follows a Beefile are
// flags, and what follows an image is its command.
func (a *Commands) jobOf(c *cobra.Command, args []string) (jobSource, error) {
	first, rest := args[0], args[1:]
	if first != workspace.StandardInput && isImage(first) {
		return imageJob(first, rest)
	}
	if first != workspace.StandardInput { // before what follows, which may be a command for an image
		if err := usage.NoDirectory(first); err != nil {
			return jobSource{}, err
		}
		if err := usage.NoBeefile(first); err != nil {
			return jobSource{}, err
		}
	}
	c.Flags().SetInterspersed(true)
	if err := c.ParseFlags(rest); err != nil {
		return jobSource{}, usage.WrongFlags(c, err)
	}
	if more := c.Flags().Args(); len(more) > 0 {
		return jobSource{}, &core.Error{
			Kind: core.Invalid, Op: "read arguments of", Object: c.CommandPath(), Err: fmt.Errorf("a Beefile has its command itself, and %s follows it", strings.Join(more, " ")),
			Remedy: "Write the command as `run:` in the Beefile, or run an image: `bee run IMAGE COMMAND`.",
		}
	}
	if first == workspace.StandardInput {
		return a.jobOfInput()
	}
	drafts, err := spec.ReadDrafts(first)
	if err != nil {
		return jobSource{}, err
	}
	return sourceOf(drafts, jobSource{what: first, beefile: absolute(first)}), nil
}

// sourceOf is the source of the jobs of a Beefile, of which from has the rest. Without a reason
// why it may be another user's, its file is looked at.
func sourceOf(drafts []*spec.Draft, from jobSource) jobSource {
	jobs := make([]jobSource, len(drafts))
	for i, draft := range drafts {
		if from.strange == "" { // the files of its cases may be others'
			from.strange = console.StrangerOfDraft(draft)
		}
		jobs[i] = from
		jobs[i].draft = draft
	}
	if len(jobs) == 1 {
		return jobs[0]
	}
	for i := range jobs { // of one file, all are one user's
		jobs[i].strange = from.strange
	}
	from.jobs = jobs
	return from
}

// all returns the jobs of the source one by one.
func (j jobSource) all() []jobSource {
	if len(j.jobs) > 0 {
		return j.jobs
	}
	return []jobSource{j}
}

// isImage reports whether an argument is an image, and no Beefile: there is no such file,
// and it does not look like the path of one.
func isImage(word string) bool {
	if spec.IsLocalImage(word) {
		return true
	}
	if _, err := os.Stat(word); !errors.Is(err, fs.ErrNotExist) {
		return false
	}
	switch strings.ToLower(filepath.Ext(word)) {
	case ".yaml", ".yml", ".json":
		return false
	}
	return word != "" && !strings.HasPrefix(word, ".") && !strings.HasPrefix(word, "/") && !strings.HasPrefix(word, "~")
}

// jobOfInput reads a Beefile from standard input. Who wrote what comes through a pipe is not
// known.
func (a *Commands) jobOfInput() (jobSource, error) {
	raw, err := io.ReadAll(io.LimitReader(os.Stdin, workspace.MaxBeefile+1))
	if err == nil && len(raw) > workspace.MaxBeefile {
		err = fmt.Errorf("it has more than %s", console.BytesText(workspace.MaxBeefile))
	}
	if err != nil {
		return jobSource{}, &core.Error{Kind: core.Invalid, Op: "read the Beefile from", Object: "standard input", Err: err, Remedy: "Name a file instead."}
	}
	drafts := spec.DraftsOf("stdin", raw, workspace.WorkingDir())
	return sourceOf(drafts, jobSource{what: "the Beefile on standard input", strange: "it came through a pipe", input: true}), nil
}

// imageJob is the job of an image and a command; none: the image's own.
func imageJob(image string, command []string) (jobSource, error) {
	draft := spec.DraftOf("command line", []byte("{}"), workspace.WorkingDir())
	job := draft.Job
	job.Image = spec.ImageFrom(workspace.WorkingDir(), image)
	job.Name = spec.NameOfImage(image)
	draft.Flag("image", image)
	draft.Flag("name", image)
	if len(command) > 0 {
		job.Run = &spec.Command{Argv: command}
		draft.Flag("run", "the command")
	}
	return jobSource{draft: draft, what: image, typed: true}, nil
}

// likeDocker are flags that mean what they mean to `docker run`.
type likeDocker struct {
	name, workdir, entrypoint, gpus string
	volumes                         []string
	envFiles                        []string
	remove                          bool
}

func (l *likeDocker) flags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&l.name, "name", "", "`name` of the run instead of the Beefile's")
	f.StringVarP(&l.workdir, "workdir", "w", "", "`directory` in which the command begins, instead of the Beefile's")
	f.StringVar(&l.entrypoint, "entrypoint", "", "`program` instead of the image's entrypoint; empty: none")
	f.StringVar(&l.gpus, "gpus", "", "GPUs of each node: a `number` or all")
	f.StringArrayVarP(&l.volumes, "volume", "v", nil, "mount a directory of the site, as `HOST:PATH[:ro]`")
	f.StringArrayVar(&l.envFiles, "env-file", nil, "read lines KEY=VALUE from a `file`, as for --env")
	f.BoolVar(&l.remove, "rm", false, "no effect: containers never stay")
}

// change puts the flags that were given into a job.
func (l *likeDocker) change(draft *spec.Draft, given func(string) bool) error {
	job := draft.Job
	if given("name") {
		job.Name = l.name
		draft.Flag("name", "--name")
	}
	if given("workdir") {
		job.Workdir = l.workdir
		draft.Flag("workdir", "--workdir")
	}
	if given("entrypoint") {
		job.Entrypoint = &spec.Command{Argv: []string{}}
		if l.entrypoint != "" {
			job.Entrypoint.Argv = []string{l.entrypoint}
		}
		draft.Flag("entrypoint", "--entrypoint")
	}
	if given("gpus") {
		var err error
		if job.GPUs, err = spec.ParseGPUs(l.gpus); err != nil {
			draft.Refuse("--gpus", "a number or all", "%v", err)
		}
		draft.Flag("gpus", "--gpus")
	}
	for _, v := range l.volumes {
		l.mount(draft, v)
	}
	for _, file := range l.envFiles {
		if err := readEnvFile(draft, file); err != nil {
			return err
		}
	}
	return nil
}

// setAfter adds a run that has to end before.
func setAfter(draft *spec.Draft, text string) {
	draft.Job.After = append(draft.Job.After, spec.ParseAfter(text))
	draft.Flag(fmt.Sprintf("after[%d]", len(draft.Job.After)-1), "--after")
}

// mount adds a directory of the site. As for docker, the job may write to it unless `ro`
// follows.
func (l *likeDocker) mount(draft *spec.Draft, v string) {
	parts := strings.Split(v, ":")
	m := spec.Mount{Write: true}
	if len(parts) == 3 {
		switch parts[2] {
		case "ro":
			m.Write = false
		case "rw", "z", "Z":
		default:
			draft.Refuse("--volume", "such as /project/data:/data:ro", "%q has the option %q, and only ro and rw are known", v, parts[2])
			return
		}
	}
	if len(parts) < 2 || len(parts) > 3 || parts[0] == "" || parts[1] == "" {
		if file, err := os.Stat(v); err == nil && file.Mode().IsRegular() {
			draft.Refuse("--volume", "a debug log is written with --verbose", "-v mounts a directory, and %q is a file", v)
			return
		}
		draft.Refuse("--volume", "such as /project/data:/data:ro", "%q is not HOST:PATH", v)
		return
	}
	m.From, m.To = parts[0], parts[1]
	if strings.HasPrefix(m.From, ".") || strings.HasPrefix(m.From, "~/") {
		m.From = draft.Job.Here(m.From)
	}
	draft.Job.Mounts = append(draft.Job.Mounts, m)
	draft.Flag(fmt.Sprintf("mounts[%d]", len(draft.Job.Mounts)-1), "--volume")
}

// readEnvFile reads lines as docker does: KEY=VALUE, KEY alone for the caller's value, and
// comments.
func readEnvFile(draft *spec.Draft, file string) error {
	f, err := os.Open(file)
	if err != nil {
		return spec.FileError("file of --env-file", file, err)
	}
	defer f.Close()
	lines := bufio.NewScanner(io.LimitReader(f, workspace.MaxBeefile))
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		setVariable(draft, line, "--env-file")
	}
	return lines.Err()
}

// setVariable sets KEY=VALUE in the job's environment; KEY alone has the caller's value, if
// there is one.
func setVariable(draft *spec.Draft, assignment, flag string) {
	key, value, ok := strings.Cut(assignment, "=")
	if !ok {
		value, ok = os.LookupEnv(key)
	}
	if !spec.IsVariable(key) {
		draft.Refuse(flag, "KEY=VALUE; letters, digits and underscores", "%q is no name of a variable", key)
		return
	}
	if !ok {
		return
	}
	if draft.Job.Env == nil {
		draft.Job.Env = map[string]string{}
	}
	draft.Job.Env[key] = value
	draft.Flag("env."+key, flag)
}
