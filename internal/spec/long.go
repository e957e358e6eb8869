package spec

import (
	"fmt"

	"github.com/bee-hpc/bee/internal/core"
)

// long finds words that no program can be started with. Shell commands may be of any
// length: they go by a file.
func (jc *jobCheck) long() {
	j := jc.job
	for key, value := range j.Env {
		if n := len(key) + 1 + len(value); n > core.LongestArgument {
			jc.report.at("env."+key, "put it into a file, and name that by `inputs:`", "env.%s: a variable has %d bytes at most, this one has %d", key, core.LongestArgument, n)
		}
	}
	commands := map[string]*Command{"entrypoint": j.Entrypoint, "setup": j.Setup, "run": j.Run, "post": j.Post, "resume": j.Resume}
	if j.Checkpoint != nil {
		commands["checkpoint.command"] = j.Checkpoint.Command
	}
	for key, c := range commands {
		if c == nil {
			continue
		}
		if n := len(c.Shell); key == "entrypoint" && n > core.LongestArgument {
			jc.report.at(key, "put it into a file of the image", "%s: it has %d bytes at most, this one has %d", key, core.LongestArgument, n)
		}
		for i, word := range c.Argv {
			if n := len(word); n > core.LongestArgument {
				jc.report.at(fmt.Sprintf("%s[%d]", key, i), "a shell command, as text instead of a list, may be longer", "%s[%d]: an argument has %d bytes at most, this one has %d", key, i, core.LongestArgument, n)
			}
		}
	}
}
