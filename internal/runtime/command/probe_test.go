package command

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/testkit"
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
		if !core.IsKind(err, core.Unsupported) || !strings.Contains(core.Remedy(err), "bee-no-such-program") {
			t.Errorf("%v: %s", err, core.Remedy(err))
		}
	}
}

// TestWhatToDoAboutAProgramThatStartsNothing is reported with each reason.
func TestWhatToDoAboutAProgramThatStartsNothing(t *testing.T) {
	for printed, want := range map[string]string{
		"Error: cannot set up namespace using \"/usr/bin/newuidmap\": exit status 1":      "/etc/subuid",
		"no subuid ranges found for user \"ann\" in /etc/subuid":                          "/etc/subuid",
		"ch-run[7]: error: can't init user+mount namespaces: Operation not permitted":     "kernel.unprivileged_userns_clone",
		"FATAL: while starting: failed to create user namespace: no space left on device": "user.max_user_namespaces",
		"who knows": "`runtime: broken`",
	} {
		facts, err := Probe(t.Context(), broken{why: errors.New(printed)}, "/bin/true", func(context.Context, string) (driver.LocalImage, error) {
			return driver.LocalImage{}, nil
		})
		if err != nil || facts.Usable || !strings.Contains(facts.Remedy, want) {
			t.Errorf("%s: %+v, %v", printed, facts, err)
		}
		testkit.Wording(t, printed, facts.Reason+"\n"+facts.Remedy)
	}
}

// TestAProbeOfWhatIsNotThere reports what to install.
func TestAProbeOfWhatIsNotThere(t *testing.T) {
	facts, err := Probe(t.Context(), broken{why: &exec.Error{Name: "bee-no-such-program", Err: exec.ErrNotFound}}, "/bin/true", func(context.Context, string) (driver.LocalImage, error) {
		return driver.LocalImage{}, nil
	})
	if err != nil || facts.Usable || !strings.Contains(facts.Remedy, "bee-no-such-program") {
		t.Errorf("%+v, %v", facts, err)
	}
	testkit.Wording(t, "reason", facts.Reason)
}

// broken is a runtime that starts no container.
type broken struct {
	driver.Runtime
	why error
}

func (broken) Info() driver.Info { return driver.Info{Name: "broken"} }

func (b broken) Start(context.Context, driver.ContainerSpec) (driver.Container, error) {
	return nil, StartError(Launch{Driver: "broken", Name: "c"}, b.why)
}
