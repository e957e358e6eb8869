package setupcmd

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/cli/output"
	"github.com/bee-hpc/bee/internal/cli/usage"
	"github.com/bee-hpc/bee/internal/cli/workspace"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/scaffold"
	"github.com/bee-hpc/bee/internal/shell"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/spf13/cobra"
)

// InitCommand returns the command `init`.
func (a *Commands) InitCommand() *cobra.Command {
	var (
		out, from string
		sites     bool
	)
	c := &cobra.Command{
		Use: "init", Short: "Write a first Beefile for this directory, or from a job file of another tool, or a sites file", Args: initArguments,
		Long: `Write a Beefile with comments for the files of this directory: a Dockerfile,
*.tpr of GROMACS, in.* of LAMMPS, or *.py that imports mpi4py. Where several are
found, bee asks on a terminal, and otherwise takes the first.

With --from, convert a batch script of Slurm, a file with a docker run line, a
compose file with one service, a definition file of Apptainer, or a SkyPilot task.
What cannot be converted is listed in the new file and on standard error.

With --sites, write a sites file instead: of this machine, the hosts of your ssh
configuration, and the partitions of Slurm here and there. Each is tried: bee is
copied there, and a container is started.

No file is overwritten.`,
		Example: "  bee init\n  bee init --from run.sbatch\n  bee init --from compose.yaml -o solver.yaml\n  bee init --sites\n  bee init --from 'docker run lab/solver:2.1 solver case.in'",
		RunE: func(c *cobra.Command, _ []string) error {
			if sites {
				if !c.Flags().Changed("output") {
					out = ""
				}
				return a.initSites(c.Context(), out)
			}
			if from != "" {
				return a.initFrom(from, out)
			}
			return a.initDirectory(out)
		},
	}
	c.Flags().StringVarP(&out, "output", "o", usage.DefaultBeefile, "write the Beefile to this `file`")
	c.Flags().StringVar(&from, "from", "", "convert this `file` of another tool; - is standard input")
	c.Flags().BoolVar(&sites, "sites", false, "write a sites file, at its usual place unless --output names another")
	c.MarkFlagsMutuallyExclusive("from", "sites")
	return c
}

// initArguments accepts none. For a file, the error names the flag that converts it.
func initArguments(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	err := usage.WrongArguments(c, args)
	e, is := errors.AsType[*core.Error](err)
	if info, err := os.Stat(args[0]); is && len(args) == 1 && err == nil && info.Mode().IsRegular() {
		e.Remedy = "Did you mean `bee init --from " + shell.Word(args[0]) + "`? " + e.Remedy
	}
	return err
}

// initDirectory writes a Beefile for the files of the working directory.
func (a *Commands) initDirectory(out string) error {
	files, err := filesHere()
	if err != nil {
		return err
	}
	programs := scaffold.Programs(files)
	var chosen *scaffold.Program
	if len(programs) > 0 {
		if chosen, err = a.chooseProgram(programs); err != nil {
			return err
		}
	}
	return a.writeScaffold(scaffold.Directory(filepath.Base(workspace.WorkingDir()), files, chosen), out)
}

// Bounds of what is looked at in a directory.
const (
	mostFiles = 10_000
	headSize  = 64 << 10
)

// filesHere lists the plain files of the working directory, with the beginnings of programs.
func filesHere() ([]scaffold.File, error) {
	dir, err := os.Open(".")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	entries, err := dir.ReadDir(mostFiles)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	slices.SortFunc(entries, func(x, y fs.DirEntry) int { return strings.Compare(x.Name(), y.Name()) })
	var files []scaffold.File
	for _, e := range entries {
		if !e.Type().IsRegular() {
			continue
		}
		f := scaffold.File{Name: e.Name()}
		if filepath.Ext(f.Name) == ".py" {
			if f.Head, err = headOf(f.Name); err != nil {
				return nil, err
			}
		}
		files = append(files, f)
	}
	return files, nil
}

func headOf(name string) (string, error) {
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, headSize))
	return string(raw), err
}

// chooseProgram asks which of several programs the Beefile is for, where a user can answer.
func (a *Commands) chooseProgram(programs []scaffold.Program) (*scaffold.Program, error) {
	text := func(p scaffold.Program) string { return p.Name + " (" + output.Printable(p.File) + ")" }
	if len(programs) == 1 {
		fmt.Fprintf(a.Stderr, "bee: found %s\n", text(programs[0]))
		return &programs[0], nil
	}
	if !console.OnTerminal() {
		var others []string
		for _, p := range programs[1:] {
			others = append(others, text(p))
		}
		fmt.Fprintf(a.Stderr, "bee: found %s; not taken: %s\n", text(programs[0]), strings.Join(others, ", "))
		return &programs[0], nil
	}
	options := make([]string, len(programs))
	for i, p := range programs {
		options[i] = text(p)
	}
	n, err := a.choose("this directory has:", "Which one is the job's?", options)
	if err != nil {
		return nil, err
	}
	return &programs[n], nil
}

// choose asks for one of some options, and returns its index. Without a terminal it is the
// first.
func (a *Commands) choose(title, question string, options []string) (int, error) {
	if !console.OnTerminal() {
		return 0, nil
	}
	fmt.Fprintf(a.Stderr, "bee: %s\n", title)
	for i, o := range options {
		fmt.Fprintf(a.Stderr, "  %d  %s\n", i+1, o)
	}
	fmt.Fprintf(a.Stderr, "%s [1] ", question)
	answer, err := bufio.NewReader(os.Stdin).ReadString('\n')
	if answer = strings.TrimSpace(answer); answer == "" && err == nil {
		return 0, nil
	}
	n, nerr := strconv.Atoi(answer)
	if err != nil || nerr != nil || n < 1 || n > len(options) {
		return 0, &core.Error{Kind: core.Invalid, Op: "choose", Object: answer, Err: errors.New("it is none of the numbers"), Remedy: "Start `bee init` again, and answer with a number."}
	}
	return n - 1, nil
}

// initFrom converts a file of another tool, or the text of a docker run line.
func (a *Commands) initFrom(from, out string) error {
	data, dir, err := foreignText(from)
	if err != nil {
		return err
	}
	name := from
	if dir == "" {
		name, dir = "job", "."
	}
	made, err := scaffold.Convert(name, data, func(beside string) bool {
		info, err := os.Stat(filepath.Join(dir, beside))
		return err == nil && info.Mode().IsRegular()
	})
	if err != nil {
		return err
	}
	return a.writeScaffold(made, out)
}

// foreignText reads what --from names; dir is "" where that is no file.
func foreignText(from string) (data []byte, dir string, err error) {
	if strings.Contains(from, " run ") && !workspace.There(from) {
		return []byte(from), "", nil
	}
	in := os.Stdin
	if from != workspace.StandardInput {
		if in, err = os.Open(from); err != nil {
			return nil, "", spec.FileError("file of --from", from, err)
		}
		defer in.Close()
		dir = filepath.Dir(from)
	}
	data, err = io.ReadAll(io.LimitReader(in, workspace.MaxBeefile+1))
	if err == nil && len(data) > workspace.MaxBeefile {
		err = fmt.Errorf("it has more than %s", console.BytesText(workspace.MaxBeefile))
	}
	if err != nil {
		err = &core.Error{Kind: core.Invalid, Op: "read", Object: from, Err: err, Remedy: "Name a job file of another tool."}
	}
	return data, dir, err
}

// writeScaffold writes a new Beefile and what belongs to it, or nothing.
func (a *Commands) writeScaffold(made scaffold.Result, out string) error {
	dir := filepath.Dir(out)
	for _, name := range append([]string{filepath.Base(out)}, slices.Sorted(maps.Keys(made.Files))...) {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			return existing(filepath.Join(dir, name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(made.Files)) {
		if err := writeNew(filepath.Join(dir, name), made.Files[name], 0o644); err != nil {
			return err
		}
		fmt.Fprintf(a.Stderr, "bee: wrote %s\n", filepath.Join(dir, name))
	}
	if err := writeNew(out, schemaLine()+made.Beefile, 0o644); err != nil {
		return err
	}
	for _, n := range made.Notes {
		fmt.Fprintf(a.Stderr, "bee: note: %s\n", output.Printable(n))
	}
	word := shell.Word(out)
	fmt.Fprintf(a.Stderr, "bee: wrote %s; `bee check %s` checks it, `bee run %s` runs it\n", word, word, word)
	return nil
}

// schemaLine is the line by which editors complete and check a Beefile, or "" where the
// schema cannot be written to the user's data directory.
func schemaLine() string {
	dir := os.Getenv("XDG_DATA_HOME")
	if !filepath.IsAbs(dir) {
		home, err := os.UserHomeDir()
		if err != nil {
			return ""
		}
		dir = filepath.Join(home, ".local", "share")
	}
	file := filepath.Join(dir, "bee", "beefile.schema.json")
	schema, err := spec.Schema("beefile")
	if err != nil {
		return ""
	}
	raw, err := json.MarshalIndent(schema, "", "  ")
	if err == nil {
		err = os.MkdirAll(filepath.Dir(file), 0o755)
	}
	if err == nil {
		err = fsutil.WriteFile(file, raw, 0o644)
	}
	if err != nil {
		return ""
	}
	return "# yaml-language-server: $schema=" + (&url.URL{Scheme: "file", Path: file}).String() + "\n"
}
