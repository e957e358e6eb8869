package inside

import (
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/bee-hpc/bee/internal/core"
)

// ProgramsCommand is the second argument of bee, before names of programs, to look for them.
const ProgramsCommand = "programs"

// findPrograms returns an error of kind NotFound where the PATH lacks a program.
func findPrograms(names []string) error {
	var missing []string
	for _, name := range names {
		if _, err := exec.LookPath(name); err != nil {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return &core.Error{
		Kind: core.NotFound, Op: "find programs on the host", Object: strings.Join(missing, ", "),
		Err:    fmt.Errorf("no directory of the PATH has them (%s)", os.Getenv("PATH")),
		Remedy: "Install them there, or name their directories by `env: {PATH: …}` of the environment.",
	}
}
