package command

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
)

// TestAProbeSaysWhatIsWrong, and not what it has tried.
func TestAProbeSaysWhatIsWrong(t *testing.T) {
	for want, err := range map[string]error{
		"OCI runtime error: crun: no cgroups": &core.Error{Op: "start podman container", Object: "bee-probe-1", Err: errors.New("Limits are ignored\nError: OCI runtime error: crun: no cgroups")},
		"Is the docker daemon running?": &core.Error{Op: "use docker", Err: &core.Error{Op: "run", Object: "docker import", Err: fmt.Errorf("%w: %s",
			errors.New("exit status 1"), "Is the docker daemon running?")}},
		"plain": errors.New("plain"),
	} {
		if got := lastCause(err); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestAProgramThatIsNotThere(t *testing.T) {
	_, err := Output(t.Context(), nil, "bee-no-such-program", "run")
	for _, err := range []error{err, StartError(Launch{Driver: "x", Name: "c"}, err)} {
		if !core.IsKind(err, core.Unsupported) || !strings.Contains(core.Remedy(err), "Install bee-no-such-program") {
			t.Errorf("%v: %s", err, core.Remedy(err))
		}
	}
}
