package head

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/node/container"
	"github.com/bee-hpc/bee/internal/plan"
)

// writeScripts moves the job's shell commands that are too long for an argument into files
// that containers see.
func (h *Head) writeScripts() error {
	dir := plan.RunDir(h.config.Host.Dir, h.config.Rank)
	commands := map[string]*[]string{"setup": &h.plan.Setup, "run": &h.plan.Run, "post": &h.plan.Post}
	if c := h.plan.Checkpoint; c != nil {
		commands["checkpoint"] = &c.Command
	}
	for name, argv := range commands {
		short, err := scripted(dir, name, *argv)
		if err != nil {
			return err
		}
		*argv = short
	}
	return nil
}

// scripted gives a command whose arguments Linux takes: one that ends with a long
// `/bin/sh -c TEXT` has the text in a file of dir.
func scripted(dir, name string, argv []string) ([]string, error) {
	long := slices.IndexFunc(argv, func(a string) bool { return len(a) > core.LongestArgument })
	if long < 0 {
		return argv, nil
	}
	last := len(argv) - 1
	if long != last || last < 2 || argv[last-2] != "/bin/sh" || argv[last-1] != "-c" {
		return nil, &core.Error{
			Kind: core.Invalid, Op: "start the job's `" + name + "` command", Err: fmt.Errorf("argument %d has %d bytes, Linux takes %d at most", long, len(argv[long]), core.LongestArgument),
			Remedy: "Put it into a file, and name that by `inputs:`.",
		}
	}
	file := "script-" + name
	if err := os.WriteFile(filepath.Join(dir, file), []byte(argv[last]), 0o644); err != nil {
		return nil, errors.Join(errors.New("write the script of the job's `"+name+"` command"), err)
	}
	return append(slices.Clone(argv[:last-1]), container.InsideRun+"/"+file), nil
}
