package core

import "errors"

// LongestArgument is how many bytes Linux takes as one argument, or as one variable with
// its name (MAX_ARG_STRLEN, execve(2)).
const LongestArgument = 128<<10 - 1

// Command is the argument vector that `docker run [--entrypoint E] IMAGE ARGS`
// would run: entrypoint, then arguments. A nil entrypoint means the image's;
// one that is given, even an empty one, also voids the image's CMD, which was
// made for the image's own entrypoint. Without arguments CMD stands for them. As docker
// has it, an entrypoint of one empty word is none.
func Command(c ImageConfig, entrypoint, args []string) ([]string, error) {
	argv := entrypoint
	if entrypoint == nil {
		argv = c.Entrypoint
		if len(args) == 0 {
			args = c.Cmd
		}
	}
	if len(argv) == 1 && argv[0] == "" {
		argv = nil
	}
	argv = append(append([]string{}, argv...), args...)
	if len(argv) == 0 {
		e := &Error{Kind: Invalid, Op: "find the job's command", Err: errors.New("the Beefile has no `run:`, and the image neither ENTRYPOINT nor CMD"), Remedy: "Add `run:` to the Beefile."}
		if entrypoint != nil {
			e.Err = errors.New("the Beefile has no `run:`, and its empty `entrypoint:` sets aside the image's ENTRYPOINT and CMD")
			e.Remedy = "Add `run:` to the Beefile, or leave out `entrypoint:`, for the image's own."
		}
		return nil, e
	}
	return argv, nil
}

// DefaultPath is the PATH of a container whose image sets none.
const DefaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
